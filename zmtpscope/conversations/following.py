"""Select the records of a conversation: messages, subscriptions, and the gaps and ends of their connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zmtpscope.conversations.choosing import MAX_CONNECTIONS, Chosen
from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.values import record_values
from zmtpscope.filter.selection import Selection
from zmtpscope.records import to_text
from zmtpscope.zmtp.events import MARKED

COMMANDS = frozenset({"SUBSCRIBE", "CANCEL", "JOIN", "LEAVE", "ERROR"})
"""Commands that contain application data or subscriptions."""

PLACES = frozenset({"gap", "stall", "leftover", "connection"})
"""Records to add for each connection with a selected record."""

Values = dict[str, Any]


@dataclass
class Following:
    """Selects the messages of a run that `followed` describes, with subscriptions, gaps and ends. Pass its batches in
    order."""

    followed: Chosen
    options: Options
    first_time: Callable[[], int | None]
    """Function that returns the time of the first packet, or None before it."""
    _of_peer: dict[int, None] = field(default_factory=dict)
    """Open connections on which a side has the identity."""
    _shown: dict[int, None] = field(default_factory=dict)
    """Open connections with a selected record."""

    def records(self, batch: Batch) -> Iterator[tuple[Values, bool]]:
        """Yield records as dicts with the values of JSON lines.

        The flag of each is False if the record only identifies a peer and should not be printed.
        """
        told = self._selected(batch)
        chosen = {id(record) for record in told.records}
        told.records = [
            each for each in batch.records if each.type in PLACES or id(each) in chosen or _identifies_sender(each)
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
        selects = self.followed.selects
        runs = [run for run in batch.by_sender() if selects(run.stream.conn)]
        records = [each for each in batch.records if _has_content(each) and selects(each.values["conn"])]
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
        is_content = id(item) in chosen and self._is_followed(conn)
        is_selected = conn in self._shown if item.type in PLACES else is_content
        if is_selected and conn is not None:
            _remember(self._shown, conn)
        if is_selected or _identifies_sender(item):
            yield record_values(item, self.options), is_selected
        if item.type == "connection":
            self._shown.pop(conn, None)
            self._of_peer.pop(conn, None)


def _identifies_sender(record: Record) -> bool:
    return record.type in ("greeting", "command") and bool(record.values["socket_type"] or record.values["identity"])


def _has_content(record: Record) -> bool:
    return record.type == "datagram" or (record.type == "command" and record.values["name"] in COMMANDS)


def _remember(connections: dict[int, None], conn: int) -> None:
    if conn not in connections:
        if len(connections) == MAX_CONNECTIONS:
            del connections[next(iter(connections))]
        connections[conn] = None


MAX_NAMES = 10_000
"""Topics, and identities, to remember."""
LONGEST_NAME = 256


class Names:
    """Collects the names of all topics, connections and peers, as they are written in records, to suggest one for a
    wrong name."""

    def __init__(self) -> None:
        self.identities: set[str] = set()
        self._topics: set[bytes] = set()

    @property
    def topics(self) -> set[str]:
        return set(map(to_text, self._topics))

    def feed(self, batch: Batch) -> None:
        for record in batch.records:
            identity = record.values.get("identity")
            if identity and len(identity) <= LONGEST_NAME and len(self.identities) < MAX_NAMES:
                self.identities.add(identity)
        for run in batch.by_sender():
            if run.topics is None or len(self._topics) >= MAX_NAMES:
                continue
            marked = (run.flags[run.first] & MARKED) != 0  # subscriptions are not published topics
            rows = np.flatnonzero((run.topics > 0) & (run.topics <= LONGEST_NAME) & ~marked)
            starts = run.bodies[run.first[rows]] - run.base
            stops = starts + run.topics[rows]
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                self._topics.add(run.data[start:stop])
