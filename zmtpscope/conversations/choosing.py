"""Select records by connection, peer or filter, batch by batch, including greetings, commands and findings.

`following.py` selects messages only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zmtpscope.dissect import Batch, MessageTable, Options, Record
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection

PLACES = frozenset({"gap", "leftover", "stall", "finding", "connection"})
"""Records to add for each connection with a selected record."""


MAX_CONNECTIONS = 100_000
"""Connections to remember: more than can be open. The oldest is forgotten."""


@dataclass(frozen=True)
class Chosen:
    """Which records to select; all conditions must hold.

    `peer` is an identity. It selects the connections on which a side announced it, from the record with the identity
    on.
    """

    conns: frozenset[int] = frozenset()
    peer: str | None = None
    filters: Sequence[Filter] = ()

    def selects(self, conn: int | None) -> bool:
        return not self.conns or conn in self.conns

    @property
    def is_whole(self) -> bool:
        return self.peer is None and not self.filters


@dataclass
class Choosing:
    """Selects the records of a run that `chosen` describes. Pass its batches in order."""

    chosen: Chosen
    options: Options
    first_time: Callable[[], int | None]
    _of_peer: dict[int, int] = field(default_factory=dict)
    """Connections of the peer, with the ordinal of the record that contains the identity."""
    _shown: dict[int, int] = field(default_factory=dict)
    """Open connections with a selected record, with its ordinal."""

    def batch(self, batch: Batch) -> Batch:
        chosen = self.chosen
        if chosen.conns:
            runs = [run for run in batch.by_sender() if chosen.selects(run.stream.conn)]
            records = [each for each in batch.records if chosen.selects(each.values["conn"])]
            batch = Batch(batch.files, runs, [], records)
        if chosen.is_whole:
            return batch
        if chosen.peer is not None:
            batch = self._of_the_peer(batch, chosen.peer)
        places = [record for record in batch.records if record.type in PLACES]
        for each in chosen.filters:
            batch = Selection(each, batch, self.options, self.first_time()).as_batch()
        self._remember_shown(batch)
        there = set(map(id, batch.records))
        batch.records += [each for each in places if id(each) not in there and self._is_behind(self._shown, each)]
        self._forget_ended(places)
        return batch

    def _of_the_peer(self, batch: Batch, peer: str) -> Batch:
        for record in batch.records:
            if record.values.get("identity") == peer and record.values["conn"] is not None:
                _remember(self._of_peer, record.values["conn"], record.order[0])
        runs = [part for run in batch.by_sender() if (part := self._behind(run)) is not None]
        return Batch(batch.files, runs, [], [each for each in batch.records if self._is_behind(self._of_peer, each)])

    def _behind(self, run: MessageTable) -> MessageTable | None:
        """Return the messages that come after the record with the identity of the peer, or None if there are none."""
        since = None if run.stream.conn is None else self._of_peer.get(run.stream.conn)
        if since is None:
            return None
        rows = np.flatnonzero(run.orders >= since)
        return None if not len(rows) else run if len(rows) == len(run.orders) else run.take(rows)

    def _remember_shown(self, batch: Batch) -> None:
        for run in batch.by_sender():
            if run.stream.conn is not None:
                _remember(self._shown, run.stream.conn, int(run.orders.min()))
        for record in batch.records:
            if record.values["conn"] is not None:
                _remember(self._shown, record.values["conn"], record.order[0])

    def _is_behind(self, since: dict[int, int], record: Record) -> bool:
        conn = record.values["conn"]
        return conn in since and record.order[0] >= since[conn]

    def _forget_ended(self, places: Sequence[Record]) -> None:
        for record in places:
            if record.type == "connection":
                self._shown.pop(record.values["conn"], None)
                self._of_peer.pop(record.values["conn"], None)


def _remember(connections: dict[int, int], conn: int, ordinal: int) -> None:
    if conn in connections:
        connections[conn] = min(ordinal, connections[conn])
        return
    if len(connections) == MAX_CONNECTIONS:
        del connections[next(iter(connections))]
    connections[conn] = ordinal
