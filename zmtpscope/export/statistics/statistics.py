"""Count messages and other records by several kinds of keys: endpoints, topics, peers and so on.

The messages of a batch are added up by sender and by topic. The rows of all kinds are derived from these sums, so the
cost of a message does not depend on the number of kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.statistics.group import MAX_ROWS, Group
from zmtpscope.export.statistics.tally import LARGEST, MIN_BAR_NS, Scale, Tally
from zmtpscope.export.top.columns import Columns, Measured, columns_of, first_places
from zmtpscope.export.top.counters import TooManyRows
from zmtpscope.export.top.message_rows import ALL, KEYS, Found, MessageRows

KINDS = ("all", "endpoint", "topic", "peer", "connection", "type")

OTHER_COMMANDS, MAX_COMMANDS = "other commands", 200
"""Command names to count separately, since peers can choose any names."""


class Statistics:
    """The counters of one capture: call `feed` with each batch.

    `kinds` are some of `KINDS`. `interval_ns` is the interval for the busiest rate, `least_bar_ns` the minimum width of
    a histogram bar.
    """

    def __init__(
        self, kinds: Collection[str], interval_ns: int, least_bar_ns: int | None = None, most_rows: int = MAX_ROWS
    ) -> None:
        # there are few types
        limits = {kind: MAX_ROWS if kind == "type" else most_rows for kind in KINDS if kind in kinds}
        self.groups = {kind: Group(kind, most) for kind, most in limits.items()}
        if "all" in self.groups:
            self.groups["all"].row(ALL)  # present even without messages
        self.scale = Scale(interval_ns, least_bar_ns or MIN_BAR_NS)
        self._rows = MessageRows(self.groups)
        self._connections = self._rows.connections
        self.incomplete = 0
        """Incomplete messages, which count, but not among sizes."""
        self.is_empty = True
        self._messages = 0
        self._latest = 0
        self._latest_of_types: dict[str, int] = {}
        self._commands: set[str] = set()

    def feed(self, batch: Batch, wanted: Iterable[Record], first_time: int) -> None:
        """Count the messages of a batch, and the records `wanted`.

        `first_time` is the time of the first packet of the capture (ns).
        """
        order = batch.arranged()
        messages = MessageColumns.of_arrangement(order, batch.files)
        places = first_places(messages)
        for place, item, _ in order.between:
            if isinstance(item, Record) and item.type in ("greeting", "command"):
                values = item.values
                if place <= places.get(values["conn"], place):
                    ends = self._connections.of_record(values)
                    ends.learn(values["side"], values["socket_type"], values["identity"])
        columns = columns_of(messages, self._messages, self._latest, ())
        self._messages += len(columns)
        if len(columns):
            self._latest = int(columns.times[-1])
            self._widen(first_time, self._latest)
            self._count(columns.data)
        self._count_records(list(wanted), first_time)
        for record in batch.records:
            if record.type == "connection" and record.values["conn"] is not None:
                self._connections.end(record.values["conn"])

    def _widen(self, first_time: int, latest: int) -> None:
        for _ in range(self.scale.halvings(first_time, latest)):
            for group in self.groups.values():
                group.join_bars()

    # -- messages ----------------------------------------------------------------------------------------------------

    def _count(self, columns: Columns) -> None:
        self.is_empty = self.is_empty and not len(columns)
        self.incomplete += int(np.count_nonzero(~columns.complete))
        self._rows.count(columns, self._add)

    def _add(self, columns: Columns, found: Found) -> None:
        if found.senders:
            tally = Tally.of(columns.sender_of.astype(np.int64), len(columns.senders), self.scale, columns)
            is_new = self._rows.new_connections(columns)
            for each in found.senders:
                self.groups[each.kind].add_tally(tally, each.rows, each.is_received, is_new)
        if "topic" in self.groups:
            group = self.groups["topic"]
            group.add_rows(Tally.of(found.topics, len(group), self.scale, columns))

    # -- other records -----------------------------------------------------------------------------------------------

    def _count_records(self, records: list[Record], first_time: int) -> None:
        self.is_empty = self.is_empty and not records
        for record in records:
            if record.type == "gap":
                self._count_gap(record.values)
        types = self.groups.get("type")
        if types is None or not records:
            return
        records.sort(key=_timestamp)  # a connection record has its start time, but arrives at its end
        rows = np.array([types.row(self._type_of(record)) for record in records])
        times = np.array([self._time_of(record) for record in records])
        octets = np.array([min(_octets_of(record.values), LARGEST) for record in records])
        self._widen(first_time, int(times.max()))
        orders = np.arange(self._messages, self._messages + len(records))
        measured = Measured(orders, times, octets, np.zeros_like(rows), np.ones(len(rows), np.bool_))
        types.add_rows(Tally.of(rows, len(types), self.scale, measured))

    def _type_of(self, record: Record) -> str:
        """Return the type of a record; for a command, its name."""
        if record.type != "command":
            return record.type
        name = f"command {record.values['name']}"
        if name not in self._commands and len(self._commands) < MAX_COMMANDS:
            self._commands.add(name)
        return name if name in self._commands else OTHER_COMMANDS

    def _time_of(self, record: Record) -> int:
        """Return the time of a record, or the time of an earlier record if that is later."""
        key, time = self._type_of(record), int(record.values["ts_ns"])
        time = self._latest_of_types[key] = max(time, self._latest_of_types.get(key, time))
        return time

    def _count_gap(self, values: dict[str, Any]) -> None:
        """Count a gap in the data of its sender. The topic of the lost messages is unknown."""
        ends = self._connections.of_record(values)
        for kind, group in self.groups.items():
            if kind in KEYS and kind != "type":
                key, _ = KEYS[kind][0](ends, values["side"] or 0)
                group.add_gap(_row_with_room(group, key), values["bytes"])


def _row_with_room(group: Group, key: Hashable) -> int:
    try:
        return group.row(key)
    except TooManyRows:
        group.fold()
        return group.row(key)


def _octets_of(values: dict[str, Any]) -> int:
    """Return how many octets a record covers; 0 for findings."""
    if values["record"] == "finding":
        return 0
    return next((values[name] for name in ("size", "bytes", "length") if values.get(name) is not None), 0)


def _timestamp(record: Record) -> int:
    return int(record.values["ts_ns"])
