"""Which records of a run belong to what somebody follows: messages, what subscribes, and the gaps and ends of their
connections. One pass, and what is remembered is bounded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection

COMMANDS = frozenset({"SUBSCRIBE", "CANCEL", "JOIN", "LEAVE", "ERROR"})
"""Commands that say something to the other application."""

PLACES = frozenset({"gap", "stall", "leftover", "connection"})
"""Records that say what else became of a connection on which something was said."""

MOST_CONNECTIONS = 100_000
"""Connections that are remembered: more than can be open. The oldest is forgotten."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Followed:
    """What is followed; all that is given has to hold. `peer` is an identity, as records have it: of connections on
    which either side has it."""

    conn: int | None = None
    peer: str | None = None
    filters: Sequence[Filter] = ()


@dataclass
class Following:
    """Takes the batches of a run, all of them, and gives the records of the conversation."""

    followed: Followed
    options: Options
    first_time: Callable[[], int | None]
    """When the first packet of all came, once that is known."""
    _of_peer: dict[int, None] = field(default_factory=dict)
    """Connections that are open on which a side has the identity."""
    _shown: dict[int, None] = field(default_factory=dict)
    """Connections that are open of which something was given."""

    def records(self, batch: Batch) -> Iterator[tuple[Values, bool]]:
        """The records of the conversation, as JSON lines have them, in order; and in between (False) those that only
        say who somebody is."""
        told = self._selected(batch)
        chosen = {id(record) for record in told.records}
        told.records = [
            each for each in batch.records if each.type in PLACES or id(each) in chosen or _names_somebody(each)
        ]
        order = told.arranged()
        columns = MessageColumns.of_arrangement(order, batch.files, self.options)
        rows = columns.records() if len(columns) else iter(())
        at = 0
        for place, values in enumerate(rows):
            while at < len(order.between) and order.between[at][0] <= place:
                yield from self._record(order.between[at][1], chosen)
                at += 1
            if self._is_followed(values["conn"]):
                _remember(self._shown, values["conn"])
                yield values, True
        for _, item, _ in order.between[at:]:
            yield from self._record(item, chosen)

    def _selected(self, batch: Batch) -> Batch:
        """What is said, and is not left out by connection or filters."""
        conn = self.followed.conn
        runs = [run for run in batch.runs if conn in (None, run.stream.conn)]
        records = [each for each in batch.records if _says_something(each) and conn in (None, each.values["conn"])]
        told = Batch(batch.files, runs, [], records)
        for each in self.followed.filters:
            told = Selection(each, told, self.options, self.first_time()).as_batch()
        return told

    def _is_followed(self, conn: int | None) -> bool:
        return self.followed.peer is None or conn in self._of_peer

    def _record(self, item: object, chosen: set[int]) -> Iterator[tuple[Values, bool]]:
        assert isinstance(item, Record)
        conn = item.values["conn"]
        if conn is not None and self.followed.peer is not None and item.values.get("identity") == self.followed.peer:
            _remember(self._of_peer, conn)
        is_said = id(item) in chosen and self._is_followed(conn)
        is_told = conn in self._shown if item.type in PLACES else is_said
        if is_told and conn is not None:
            _remember(self._shown, conn)
        if is_told or _names_somebody(item):
            yield record_values(item, self.options), is_told
        if item.type == "connection":
            self._shown.pop(conn, None)
            self._of_peer.pop(conn, None)


def _names_somebody(record: Record) -> bool:
    """Whether a side says here what it is."""
    return record.type in ("greeting", "command") and bool(record.values["socket_type"] or record.values["identity"])


def _says_something(record: Record) -> bool:
    return record.type == "datagram" or (record.type == "command" and record.values["name"] in COMMANDS)


def _remember(connections: dict[int, None], conn: int) -> None:
    if conn not in connections:
        if len(connections) == MOST_CONNECTIONS:
            del connections[next(iter(connections))]
        connections[conn] = None
