"""Kinds of messages, such as `get` and `set`, and which of them the other side answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import itemgetter

from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedKinds
from zmtpscope.diagnosis.observers.observer import Observer, Rows, SocketTypes, first_order
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import MAX_RECENT
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.socket_types import TWO_WAY

MAX_LEARNED = 32
"""Number of first messages of a side that show its kinds."""

MAX_ENVELOPE = 3
"""Frames up to the empty one that ends an envelope."""

HEAD = 256
"""Number of octets of a frame to look at."""

WORD = re.compile(rb"[A-Za-z_][\w.\-/]{0,31}(?=[\s:=,;(|\0]|$)")
"""Matches a command at the start of a frame."""

MEMBER = re.compile(rb'"(?:method|cmd|command|action|type|msg_type|op|request)"\s*:\s*"([^"\\]{1,32})"')
"""Matches a command in a JSON object."""


class KindObserver(Observer):
    """Follows sockets that send and receive at any time, without envelopes that mark requests."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._side: int | None = None
        """The side that sent the last message."""
        self._turn: list[bytes] = []
        """Kinds of its messages since the last one of the other side."""
        self._learned = [0, 0]

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return TWO_WAY.issuperset(socket_types)

    def rows(self, rows: Rows) -> None:
        if self.observed.requests is not None:  # these match each reply
            for side in self.observed.sides:
                side.kinds = None
            return
        for side, runs, others in zip(self.observed.sides, rows.sides, reversed(rows.sides), strict=True):
            before = () if side.kinds is None or others else side.kinds.since
            if runs and side.kinds is None:
                side.kinds = ObservedKinds(first=_kind(min(runs, key=first_order), 0))
            if side.kinds is not None:
                answered = max((int(run.orders[-1]) for run in others), default=-1)
                side.kinds.since = (*before, *(_kind(run, row) for run, row in _last(runs, answered)))[-MAX_RECENT:]
        if any(learned < MAX_LEARNED for learned in self._learned):
            self._learn(rows)

    def _learn(self, rows: Rows) -> None:
        found = [
            (order, side, run, row)
            for side, runs in enumerate(rows.sides)
            for run in runs
            for row, order in enumerate(run.orders.tolist()[: self._looked_at(side, rows)])
        ]
        for _, side, run, row in sorted(found, key=itemgetter(0, 1)):
            if side != self._side:
                if self._side is not None:
                    kinds = self.observed.sides[self._side].kinds
                    assert kinds is not None
                    kinds.answered(self._turn)
                self._side, self._turn = side, []
            if self._learned[side] < MAX_LEARNED:
                self._learned[side] += 1
                self._turn.append(_kind(run, row))
            else:
                self._turn.clear()  # its last message is not known

    def _looked_at(self, side: int, rows: Rows) -> int | None:
        """Return how many rows of each run to examine, None for all: one if the side's kinds are known and only it sent
        messages."""
        return 1 if self._learned[side] >= MAX_LEARNED and not rows.sides[1 - side] else None


def _last(runs: list[MessageTable], order: int) -> Iterator[tuple[MessageTable, int]]:
    """Yield the last messages of a side after `order`, as (run, row)."""
    found = [
        (row_order, run, row)
        for run in runs
        for row, row_order in enumerate(run.orders[-MAX_RECENT:].tolist(), max(len(run.orders) - MAX_RECENT, 0))
        if row_order > order
    ]
    yield from ((run, row) for _, run, row in sorted(found, key=itemgetter(0))[-MAX_RECENT:])


def _kind(run: MessageTable, row: int) -> bytes:
    """Return the command at the start of a message, after its envelope, or an empty string."""
    first, last = int(run.first[row]), int(run.last[row])
    if first < last:
        sizes = run.sizes[first : min(first + MAX_ENVELOPE, last)].tolist()
        first += sizes.index(0) + 1 if 0 in sizes else 0
    head = run.head(first, HEAD) or b""
    if len(head) == 1:
        return head
    found = MEMBER.search(head) if head.startswith(b"{") else None
    if found:
        return found[1]
    word = WORD.match(head)
    return word[0] if word else b""
