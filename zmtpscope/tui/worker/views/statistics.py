"""The view of statistics: messages by time, size and connection; records by type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zmtpscope.dissect import Record
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.export.statistics.group import Group
from zmtpscope.export.statistics.report import Look, sparkline
from zmtpscope.export.statistics.rows import Row, row_of
from zmtpscope.export.statistics.statistics import MAX_COMMANDS, OTHER_COMMANDS
from zmtpscope.export.statistics.tally import BARS, MIN_BAR_NS, Scale, Tally
from zmtpscope.export.top.columns import Measured
from zmtpscope.export.top.counters import OTHERS
from zmtpscope.export.top.message_rows import ALL
from zmtpscope.export.top.table import scaled
from zmtpscope.filter.writing import equals, every
from zmtpscope.records import RECORDS, SECOND
from zmtpscope.store import Store
from zmtpscope.store.counting import CountedMessages
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.known_connections import KnownConnections
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS, CountingView, Step
from zmtpscope.words import counted
from zmtpscope.zmtp.events import ENCRYPTED, MARKED

MAX_CONNECTIONS = 4096
"""Maximum connections with a line of their own; the others share one."""

WIDTH = 32

OTHER_TYPES = tuple(name for name in RECORDS if name not in ("message", "frame"))

COLUMNS = (
    Column("what", "WHAT", is_name=True),
    Column("records", "RECORDS", scaled, is_number=True),
    Column("messages", "MSGS", scaled, is_number=True),
    Column("octets", "OCTETS", scaled, is_number=True),
    Column("rate", "MSG/S", scaled, is_number=True, rank=1),
    Column("busiest", "BUSIEST/S", scaled, is_number=True, rank=1),
    Column("p50", "P50", scaled, is_number=True),
    Column("p90", "P90", scaled, is_number=True, rank=1),
    Column("p99", "P99", scaled, is_number=True),
    Column("max", "MAX", scaled, is_number=True),
    Column("plot", "GRAPH", order=len, is_plot=True),
)


class StatisticsView(CountingView):
    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._known = KnownConnections(MAX_CONNECTIONS)
        self._all = Group("all", 1)
        self._all.row(ALL)
        self._connections = Group("connection", MAX_CONNECTIONS)
        self._scale = Scale(SECOND, MIN_BAR_NS)
        self._sizes = Counter[int]()
        """Number of messages by power p, for sizes from 2^(p-1) to below 2^p octets."""
        self._types = Counter[tuple[str, str | None]]()
        """Number of records by type, and of commands by name."""
        self._has_marked = False
        self._messages = 0
        self._last_ns = 0

    # -- counting ------------------------------------------------------------------------------------------------------

    def feed(self, step: Step) -> None:
        for _, record in step.records(*OTHER_TYPES):
            values = record.values
            if record.type in ("greeting", "command", "connection"):
                self._known.of_record(values)
            self._types[self._type_of(record)] += 1
        for messages in step.messages:
            self._types["message", None] += len(messages)
            self._count(messages)

    def _type_of(self, record: Record) -> tuple[str, str | None]:
        """Return the record type, and for a command its name, as long as there is space for more rows."""
        key = record.type, record.values["name"] if record.type == "command" else None
        return key if key in self._types or len(self._types) < MAX_COMMANDS else (OTHER_COMMANDS, None)

    def _count(self, messages: CountedMessages) -> None:
        for sender in messages.senders:
            self._known.of_sender(sender)
        which: Int64 = np.flatnonzero((messages.special & MARKED) == 0)
        self._has_marked = self._has_marked or len(which) < len(messages)
        if not len(which):
            return
        times, octets, complete = messages.time_ends[which], messages.body_octets[which], messages.complete[which]
        first = self.store.first_time
        self._last_ns = max(self._last_ns, int(times.max()))
        for _ in range(self._scale.halvings(int(times.min()) if first is None else first, int(times.max()))):
            self._all.join_bars()
            self._connections.join_bars()
        is_open = complete & (messages.special[which] != ENCRYPTED)
        powers = np.bincount(np.frexp(octets[is_open].astype(np.float64))[1], minlength=1)
        self._sizes.update({power: count for power, count in enumerate(powers.tolist()) if count})
        numbers, count = messages.sender_of[which], len(messages.senders)
        orders = np.arange(self._messages, self._messages + len(which))
        measured = Measured(orders, times, octets, messages.counts[which], complete)
        tally = Tally.of(numbers, count, self._scale, measured)
        self._messages += len(which)
        back = np.array([sender.stream.side == 1 for sender in messages.senders])
        rows = np.array([_row(self._connections, sender.stream.conn) for sender in messages.senders])
        self._connections.add_tally(tally, rows, back, np.zeros_like(back))
        self._all.add_tally(tally, np.ones_like(rows), np.zeros_like(back), np.zeros_like(back))

    # -- showing -------------------------------------------------------------------------------------------------------

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        """Return a row for all messages, then headings with the rows of each group."""
        every_message = self._row_of(self._all, 1)
        lines = [
            self._line("all", "all messages", every_message, "", self._intervals),
            _heading("sizes", "messages by size", self._by_size, is_open=True),
            _heading("connections", "messages by connection", self._by_connection),
            _heading("types", "records by type", self._by_type, is_open=True),
        ]
        return table_of(COLUMNS, lines, wanted, list(self._text(every_message)))

    def _text(self, row: Row) -> Iterator[str]:
        if not row.counts.messages:
            yield "no messages"
            return
        length = self._last_ns - (self._scale.start_ns or 0)
        messages = row.counts.messages
        rate = f", {scaled(messages / length * SECOND)} a second" if length else ""
        yield f"{counted(messages, 'message')} in {seconds(length)}{rate}, at most {scaled(row.busiest)} in 1 s"
        yield f"{sparkline(row.bars, BARS, Look(BARS, is_unicode=True))}  {seconds(self._scale.width_ns)} each"

    def _row_of(self, group: Group, number: int) -> Row:
        return row_of(group, number, int(self._scale.bars_until(self._last_ns)))

    def _line(self, key: str, what: str, row: Row, filter: str, children: Any = None) -> Line:
        length = self._last_ns - (self._scale.start_ns or 0)
        values = dict(
            what=what,
            messages=row.counts.messages,
            octets=row.counts.octets,
            rate=row.counts.messages / length * SECOND if length else None,
            busiest=row.busiest,
            plot=sparkline(row.bars, WIDTH, Look(WIDTH, is_unicode=True)),
            **{name: row.sizes[name] for name in ("p50", "p90", "p99", "max")},
        )
        return Line(key, values, self._data(filter), children=children)

    def _data(self, filter: str) -> str:
        """Return `filter` with a condition that excludes messages that subscribe."""
        kinds = "kind in {data, encrypted}" if self._has_marked else "record == message"
        return every(filter, kinds)

    def _intervals(self) -> Sequence[Line]:
        start, width = self._scale.start_ns or 0, self._scale.width_ns
        bars = self._row_of(self._all, 1).bars
        lines = []
        for place, count in enumerate(bars):
            if not count:
                continue
            low = start + place * width
            what = f"from {place * width / SECOND:.3f} s to {(place + 1) * width / SECOND:.3f} s"
            filter = every(f"ts_end_ns >= {low}" if place else "", f"ts_end_ns < {low + width}")
            values = {"what": what, "messages": count, "rate": count / width * SECOND, "plot": _bar(count, bars)}
            lines.append(Line(f"from {low}", values, self._data(filter)))
        return lines

    def _by_size(self) -> Sequence[Line]:
        lines = []
        for power, count in sorted(self._sizes.items()):
            low, high = (1 << power) >> 1, 1 << power
            what = "empty" if not power else counted(low, "octet") if high == low + 1 else f"{low} to {high - 1} octets"
            filter = every(f"size >= {low}" if power else "", f"size < {high}", "complete")
            values = {"what": what, "messages": count, "plot": _bar(count, self._sizes.values())}
            lines.append(Line(f"size {power}", values, self._data(filter)))
        return lines

    def _by_connection(self) -> Sequence[Line]:
        lines = []
        for number in range(len(self._connections)):
            row = self._row_of(self._connections, number)
            if number == OTHERS and row.counts.messages:
                lines.append(replace(self._line("others", "others", row, ""), filter=""))
            elif number != OTHERS:
                known = self._known.get(row.key)
                what = f"{row.key}" + ("" if known is None else f"  {known.name(0)} > {known.name(1)}")
                lines.append(self._line(f"conn {row.key}", what, row, f"conn == {row.key}"))
        return sorted(lines, key=lambda line: (-line.values["messages"], line.key))

    def _by_type(self) -> Sequence[Line]:
        lines = []
        for (type_, name), count in sorted(
            self._types.items(), key=lambda each: (-each[1], each[0][0], each[0][1] or "")
        ):
            filter = "" if type_ == OTHER_COMMANDS else f"record == {type_}"
            if type_ == "command":
                filter = every(filter, "not name" if name is None else equals("name", name))
            values = {
                "what": f"{type_} {name or ''}".strip(),
                "records": count,
                "plot": _bar(count, self._types.values()),
            }
            lines.append(Line(f"type {type_} {name}", values, filter))
        return lines


def _row(group: Group, key: Hashable) -> int:
    """Return the index of the row for a key; if there is no space for another row, that of the shared row."""
    is_known = key in group.rows or len(group) <= group.most
    return group.row(key) if is_known else OTHERS


def _heading(key: str, what: str, children: Any, *, is_open: bool = False) -> Line:
    return Line(key, {"what": what}, children=children, is_open=is_open, is_sorted=True)


def _bar(count: int, counts: Collection[int]) -> str:
    return "█" * round(WIDTH * count / max(1, *counts))
