"""Pair the messages of ROUTER and DEALER by order: the n-th of the client with the n-th of the listener.

They are requests and replies only if the listener replies to each message in order, which rules must show to be likely.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zmtpscope.capture.segments import Column
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedOrder
from zmtpscope.diagnosis.observers.observer import Observer, Rows, SocketTypes
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect import Record
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.zmtp.socket_types import ROUTING

OCTETS = 120
"""Approximate memory of a waiting message."""
MAX_DELAYS = 64
"""Last replies with a known distance from the client's last message."""
MAX_WAITING = 8192
"""With more waiting messages, a connection is not followed."""


class Came(NamedTuple):
    """Columns about the messages of a side: ordinals, times of the last octets (ns), and packet references."""

    orders: Column
    ends: Column
    packets: Column


class OrderObserver(Observer):
    types = frozenset({"gap"})
    is_over = False
    """Whether pairing has ended: ids pair the messages, the listener sent more, octets are missing, or too many
    messages wait."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self.waiting: deque[tuple[int, int]] = deque()
        """(time, packet) of the client's waiting messages."""
        self.latest = 0
        """Time of the client's last message."""
        self.taken = 0
        """Memory of the waiting messages."""

    def record(self, record: Record) -> None:
        self._give_up()

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return ROUTING.issuperset(socket_types)

    def rows(self, rows: Rows) -> None:
        if self.is_over:
            return
        has_ids = self.observed.requests is not None or any(side.calls is not None for side in self.observed.sides)
        if has_ids or self.observed.gaps:
            self._give_up()
            return
        if self.observed.in_order is None:
            self.observed.in_order = ObservedOrder(1 - self.observed.listener)
        found = self.observed.in_order
        asked, replied = _came(rows.sides[found.asker]), _came(rows.sides[1 - found.asker])
        # how many messages of the client in this batch come before each of the listener
        before = np.searchsorted(asked.orders, replied.orders)
        if (len(self.waiting) + before < np.arange(1, len(before) + 1)).any():
            self._give_up()
            return
        old = [self.waiting.popleft()[0] for _ in range(min(len(before), len(self.waiting)))]
        new = len(before) - len(old)
        if len(before):
            took = replied.ends - np.concatenate((np.array(old, np.int64), asked.ends[:new]))
            found.least_ns = min(found.least_ns, int(took.min()))
            found.trend.add(took.tolist())
            latest = np.concatenate(([self.latest], asked.ends))[before]
            found.since_last = (*found.since_last, *(replied.ends - latest)[-MAX_DELAYS:].tolist())[-MAX_DELAYS:]
            found.last_reply_ns = int(replied.ends[-1])
        self.waiting.extend(zip(asked.ends[new:].tolist(), asked.packets[new:].tolist(), strict=True))
        if len(asked.ends):
            self.latest = int(asked.ends[-1])
        self._note_waiting(found, rows.files)

    def _note_waiting(self, found: ObservedOrder, files: Sequence[str | None]) -> None:
        count = len(self.waiting)
        more = OCTETS * count - self.taken
        if count > MAX_WAITING or (more > 0 and not self.room.take(self.observed, more)):
            self._give_up()
            return
        if more < 0:
            self.room.give_back(self.observed, -more)
        self.taken += more
        found.waiting_count = count
        if count:
            found.oldest = Moment.of_packet(*self.waiting[0], files)
            found.newest_ns, _ = self.waiting[-1]

    def _give_up(self) -> None:
        self.is_over, self.observed.in_order = True, None
        self.waiting.clear()
        self.room.give_back(self.observed, self.taken)
        self.taken = 0


def _came(runs: Sequence[MessageTable]) -> Came:
    """Return the messages of a side, in order, without decrypted copies."""
    plain = [Came(run.orders, run.time_ends, run.packet_ends) for run in runs if not run.source]
    if len(plain) == 1:
        return plain[0]
    plain.sort(key=_first_order)
    return Came(*map(np.concatenate, zip(NOTHING, *plain, strict=True)))


def _first_order(came: Came) -> int:
    return int(came.orders[0])


NOTHING = Came(*(np.empty(0, np.int64) for _ in Came._fields))
