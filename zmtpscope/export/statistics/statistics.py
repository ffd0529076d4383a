"""Counts messages, and records of other types, by several kinds of keys.

A batch is added up once by its senders, which determine sender and receiver, and once by topics. All kinds of rows are
derived from these sums, so the cost of a message does not depend on the number of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect import Batch, Record
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.statistics.group import MAX_ROWS, Group
from zmtpscope.export.statistics.tally import MIN_BAR_NS, Scale, Tally
from zmtpscope.export.top.columns import Columns, columns_of, first_places
from zmtpscope.export.top.counters import TooManyRows, count_with_room
from zmtpscope.export.top.peers import ConnectionEnds, OpenConnections
from zmtpscope.export.top.topic_rows import TopicRows
from zmtpscope.words import host_port

KINDS = ("all", "endpoint", "topic", "peer", "connection", "type")
ALL = "all"


class Endpoint(NamedTuple):
    ip: str
    port: int

    def __str__(self) -> str:
        return host_port(self.ip, self.port)


OTHER_COMMANDS, MAX_COMMANDS = "other commands", 200
"""Command names to count separately, since peers can choose any names."""


class Places(NamedTuple):
    """Row of each run in one group, and whether its messages count as received ones."""

    group: Group
    rows: Int64
    is_received: Bool


class Statistics:
    """Counters of one capture: call `feed` with each batch.

    `kinds` are some of `KINDS`, `interval_ns` is for the busiest rate, and `least_bar_ns` the minimum width of a bar.
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
        self._connections = OpenConnections()
        topics = self.groups.get("topic")
        self._topic_rows = None if topics is None else TopicRows(topics.counters)
        self.incomplete = 0
        """Incomplete messages, which count, but not among sizes."""
        self.is_empty = True
        self._messages = 0
        self._latest = 0
        self._latest_of_types: dict[str, int] = {}
        self._commands: set[str] = set()

    def feed(self, batch: Batch, wanted: Iterable[Record], first_time: int) -> None:
        """Count messages, and the records `wanted`. `first_time` is the time of the first packet of the capture."""
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
        self._messages += len(columns.rows)
        if len(columns.rows):
            self._latest = int(columns.times[-1])
            self._widen(first_time, self._latest)
            self._count(columns.part(~columns.marked) if columns.marked.any() else columns)
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
        if len(columns.rows):
            self.is_empty = False
            complete = _complete(columns)
            self.incomplete += 0 if complete is None else int(np.count_nonzero(~complete))
            groups = {id(group.counters): group for group in self.groups.values()}
            counters = [group.counters for group in groups.values()]
            count_with_room(
                columns, counters, self._rows_of, self._add, self._forget, lambda full: groups[id(full)].fold()
            )

    def _forget(self) -> None:
        if self._topic_rows is not None:
            self._topic_rows.clear()

    def _rows_of(self, columns: Columns) -> tuple[list[Places], Int64 | None]:
        """Return the rows of senders, and of the topics of messages. Raises `TooManyRows`."""
        there = np.flatnonzero(np.bincount(columns.sender_of)).tolist()
        senders = [(number, columns.senders[number]) for number in there]
        ends_of = [(number, self._connections.of_sender(sender), sender.stream.side or 0) for number, sender in senders]
        found = []
        for kind, group in self.groups.items():
            for keys_of in KEYS.get(kind, ()):
                rows, is_received = np.zeros(len(columns.senders), np.int64), np.zeros(len(columns.senders), np.bool_)
                for number, ends, side in ends_of:
                    key, is_received[number] = keys_of(ends, side)
                    rows[number] = group.row(key)
                found.append(Places(group, rows, is_received))
        topics = None if self._topic_rows is None else self._topic_rows.of_messages(columns, self._connections)
        return found, topics

    def _add(self, columns: Columns, found: tuple[list[Places], Int64 | None]) -> None:
        places, topics = found
        complete = _complete(columns)
        times, octets, frames, orders = columns.times, columns.octets, columns.frames, columns.numbers
        if places:
            sender_of = columns.sender_of.astype(np.int64)
            tally = Tally.of(sender_of, len(columns.senders), times, octets, frames, orders, self.scale, complete)
            is_new = np.zeros(len(columns.senders), np.bool_)
            for number in np.flatnonzero(tally.messages).tolist():
                ends = self._connections.of_sender(columns.senders[number])
                is_new[number], ends.was_counted = not ends.was_counted, True
            for group, rows, is_received in places:
                group.add(tally, rows, is_received, is_new)
        if topics is not None:
            group = self.groups["topic"]
            count = len(group.counters)
            tally = Tally.of(topics, count, times, octets, frames, orders, self.scale, complete)
            nothing = np.zeros(count, np.bool_)
            group.add(tally, np.arange(count), nothing, nothing)

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
        sizes = np.array([_octets_of(record.values) for record in records])
        self._widen(first_time, int(times.max()))
        orders = np.arange(self._messages, self._messages + len(records))
        count = len(types.counters)
        tally = Tally.of(rows, count, times, sizes, np.zeros_like(rows), orders, self.scale)
        nothing = np.zeros(count, np.bool_)
        types.add(tally, np.arange(count), nothing, nothing)

    def _type_of(self, record: Record) -> str:
        """Return the type of a record, with the name of a command."""
        if record.type != "command":
            return record.type
        name = f"command {record.values['name']}"
        if name not in self._commands and len(self._commands) < MAX_COMMANDS:
            self._commands.add(name)
        return name if name in self._commands else OTHER_COMMANDS

    def _time_of(self, record: Record) -> int:
        """Return the time of a record, or of an earlier record if that is later."""
        key, time = self._type_of(record), int(record.values["ts_ns"])
        time = self._latest_of_types[key] = max(time, self._latest_of_types.get(key, time))
        return time

    def _count_gap(self, values: dict[str, Any]) -> None:
        """Count a gap for its sender. The topic of lost messages is unknown."""
        ends = self._connections.of_record(values)
        for kind, group in self.groups.items():
            if kind in KEYS and kind != "type":
                key, _ = KEYS[kind][0](ends, values["side"] or 0)
                group.add_gap(_row_with_room(group, key), values["bytes"])


def _complete(columns: Columns) -> Bool | None:
    """Return which messages are complete; None if all are."""
    complete: Bool = columns.messages.complete[columns.rows]
    return None if complete.all() else complete


def _row_with_room(group: Group, key: Hashable) -> int:
    try:
        return group.row(key)
    except TooManyRows:
        group.fold()
        return group.row(key)


def _octets_of(values: dict[str, Any]) -> int:
    """Return the octets of a record; 0 for findings."""
    if values["record"] == "finding":
        return 0
    return next((values[name] for name in ("size", "bytes", "length") if values.get(name) is not None), 0)


def _endpoint_of(ends: ConnectionEnds) -> Endpoint:
    return Endpoint(*ends.addresses[ends.listener])


KEYS: dict[str, tuple[Callable[[ConnectionEnds, int], tuple[Hashable, bool]], ...]] = {
    "all": (lambda ends, side: (ALL, False),),
    "endpoint": (lambda ends, side: (_endpoint_of(ends), side != ends.listener),),
    "peer": (lambda ends, side: (ends.peers[side], False), lambda ends, side: (ends.peers[1 - side], True)),
    "connection": (lambda ends, side: (ends, side == 1),),
    "type": (lambda ends, side: ("message", False),),
}
"""The key of a side's messages, and whether they count as received; the sender first.

Topics are looked up by message.
"""


def _timestamp(record: Record) -> int:
    return int(record.values["ts_ns"])
