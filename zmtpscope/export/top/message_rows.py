"""Find the counter rows of many messages: by the keys of their senders, and by topic."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.export.top.columns import Columns, first_and_last
from zmtpscope.export.top.counters import Counters, TooManyRows
from zmtpscope.export.top.peers import ConnectionEnds, OpenConnections
from zmtpscope.export.top.topic_rows import TopicRows
from zmtpscope.words import host_port

ALL = "all"


class Endpoint(NamedTuple):
    ip: str
    port: int

    def __str__(self) -> str:
        return host_port(self.ip, self.port)


KEYS: dict[str, tuple[Callable[[ConnectionEnds, int], tuple[Hashable, bool]], ...]] = {
    "all": (lambda ends, side: (ALL, False),),
    "endpoint": (lambda ends, side: (Endpoint(*ends.addresses[ends.listener]), side != ends.listener),),
    "peer": (lambda ends, side: (ends.peers[side], False), lambda ends, side: (ends.peers[1 - side], True)),
    "connection": (lambda ends, side: (ends, side == 1),),
    "type": (lambda ends, side: ("message", False),),
}
"""The key of a side's messages, and whether they count as received; the sender first. Topics are looked up by
message."""


class SenderRows(NamedTuple):
    """For one kind of key: the counter row of each sender, and whether its messages count as received."""

    kind: str
    rows: Int64
    is_received: Bool


class Found(NamedTuple):
    """The counter rows of the senders of messages, and of their topics (empty if topics are not counted)."""

    senders: list[SenderRows]
    topics: Int64


class MessageRows:
    """Finds the counter rows of messages. `counters` has the counters for each kind of key."""

    def __init__(self, counters: Mapping[str, Counters[Any]]) -> None:
        self.connections = OpenConnections()
        self._counters = counters
        self._topic_rows = TopicRows(counters["topic"]) if "topic" in counters else None

    def count(self, columns: Columns, add: Callable[[Columns, Found], None]) -> None:
        """Find the rows of messages, and call `add` with both.

        If the limit of rows is reached, the messages before the first one without a row are added, then rows are
        merged.
        """
        if not len(columns):
            return
        before = [(each, len(each)) for each in self._counters.values()]
        try:
            found = self._find(columns)
        except TooManyRows as error:
            for each, length in before:
                each.roll_back(length)
            if self._topic_rows is not None:
                self._topic_rows.clear()
            count = len(columns)
            if count > 1:
                for half in (slice(count // 2), slice(count // 2, None)):
                    self.count(columns.part(half), add)
            else:
                error.counters.fold()
                self.count(columns, add)
        else:
            add(columns, found)

    def _find(self, columns: Columns) -> Found:
        """Return the counter rows of messages; new keys get new rows. Raises `TooManyRows`."""
        there, first, _ = first_and_last(columns.sender_of)
        senders = [(number, columns.senders[number]) for number in there[first.argsort()].tolist()]
        ends_of = [(number, self.connections.of_sender(sender), sender.stream.side or 0) for number, sender in senders]
        found = []
        for kind, counters in self._counters.items():
            for key_of in KEYS.get(kind, ()):
                rows, is_received = np.zeros(len(columns.senders), np.int64), np.zeros(len(columns.senders), np.bool_)
                for number, ends, side in ends_of:
                    key, is_received[number] = key_of(ends, side)
                    rows[number] = counters.row(key)
                found.append(SenderRows(kind, rows, is_received))
        nothing = np.empty(0, np.int64)
        return Found(found, self._topic_rows.of_messages(columns, self.connections) if self._topic_rows else nothing)

    def new_connections(self, columns: Columns) -> Bool:
        """Return for each sender whether it sent the first counted message of its connection."""
        is_new = np.zeros(len(columns.senders), np.bool_)
        for number in np.flatnonzero(np.bincount(columns.sender_of)).tolist():
            ends = self.connections.of_sender(columns.senders[number])
            is_new[number], ends.was_counted = not ends.was_counted, True
        return is_new
