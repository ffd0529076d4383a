"""Which records of a run are of chosen connections, of a peer, or what filters hold of: batches in, batches out.

Unlike `following.py`, which is about what was said, this leaves nothing out of what is chosen: greetings, commands and
findings are there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from zmtpscope.conversations.following import MOST_CONNECTIONS
from zmtpscope.dissect import Batch, MessageRun, Options, Record
from zmtpscope.filter import Filter
from zmtpscope.filter.selection import Selection

PLACES = frozenset({"gap", "leftover", "stall", "finding", "connection"})
"""Records that say what else became of a connection on which something was chosen."""


@dataclass(frozen=True)
class Chosen:
    """What is chosen; all that is given has to hold. `peer` is an identity, as records have it: of connections on which
    either side has it, from the moment on when that is known."""

    conns: frozenset[int] = frozenset()
    peer: str | None = None
    filters: Sequence[Filter] = ()

    @property
    def is_whole(self) -> bool:
        """Whether connections are chosen as a whole, from their start on."""
        return self.peer is None and not self.filters


@dataclass
class Choosing:
    """Takes the batches of a run, all of them. `first_time` says when the first packet of all came."""

    chosen: Chosen
    options: Options
    first_time: Callable[[], int | None]
    _of_peer: dict[int, int] = field(default_factory=dict)
    """Connections that are open on which a side has the identity, and the ordinal at which it said so."""
    _shown: dict[int, int] = field(default_factory=dict)
    """Connections that are open of which something was chosen, and the ordinal of the first of it."""

    def batch(self, batch: Batch) -> Batch:
        """What of a batch is chosen."""
        chosen = self.chosen
        if chosen.conns:
            runs = [run for run in batch.runs if run.stream.conn in chosen.conns]
            batch = Batch(
                batch.files, runs, [], [each for each in batch.records if each.values["conn"] in chosen.conns]
            )
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
        runs = [part for run in batch.runs if (part := self._behind(run)) is not None]
        return Batch(batch.files, runs, [], [each for each in batch.records if self._is_behind(self._of_peer, each)])

    def _behind(self, run: MessageRun) -> MessageRun | None:
        """The messages of a run that came when the identity was known."""
        since = None if run.stream.conn is None else self._of_peer.get(run.stream.conn)
        if since is None:
            return None
        rows = np.flatnonzero(run.orders >= since)
        return None if not len(rows) else run if len(rows) == len(run.orders) else run.take(rows)

    def _remember_shown(self, batch: Batch) -> None:
        for run in batch.runs:
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
    if len(connections) == MOST_CONNECTIONS:
        del connections[next(iter(connections))]
    connections[conn] = ordinal
