"""Messages that circulate between two proxies: equal checksums come back again and again."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import MAX_ARRIVALS, ObservedRound
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, SocketTypes
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.dissect.records.tables import MessageTable

MAX_MESSAGES = 256
"""Messages of a side to remember until one is repeated."""
MAX_ROUNDS = 8
"""Repeated messages to remember until the end."""
OCTETS = 250


class RoundObserver(Observer):
    """Follows the messages that an XPUB sends to an XSUB: this pair of types connects two proxies."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._recent: dict[int, ObservedRound] = {}
        """Last messages by checksum, oldest first."""
        self._taken = 0
        """Messages for which memory is reserved."""

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        return {*socket_types} == {"XPUB", "XSUB"}

    def rows(self, rows: Rows) -> None:
        sender = self.observed.socket_types().index("XPUB")
        for run in rows.in_order(sender):
            self._take(self.observed.sides[sender].rounds, run.messages, rows.files)

    def _take(self, rounds: dict[int, ObservedRound], run: MessageTable, files: Sequence[str | None]) -> None:
        recent, times, packets = self._recent, run.times.tolist(), run.packets.tolist()
        for row in run.complete.nonzero()[0].tolist():
            content, ns = _content(run, row), times[row]
            known = rounds.get(content) or recent.pop(content, None)
            if known is None:
                known = ObservedRound(Moment.of_packet(ns, packets[row], files), ns)
            known.come(ns)
            if content in rounds:
                continue
            if known.count == MAX_ARRIVALS and len(rounds) < MAX_ROUNDS:
                rounds[content] = known
            elif self._has_room():
                recent[content] = known

    def _has_room(self) -> bool:
        """Return whether one more message can be stored, if necessary after dropping the oldest."""
        if len(self._recent) < self._taken:
            return True
        if self._taken < MAX_MESSAGES and self.room.take(self.observed, OCTETS):
            self._taken += 1
            return True
        if self._recent:
            del self._recent[next(iter(self._recent))]
        return bool(self._taken)

    def finish(self, ordinal: int) -> list[DerivedTable]:
        self.room.give_back(self.observed, self._taken * OCTETS)
        self._recent, self._taken = {}, 0
        return []


def _content(run: MessageTable, row: int) -> int:
    """Return a checksum of the octets of a message, as far as they are kept, and of its frame sizes."""
    number = 0
    for frame in range(int(run.first[row]), int(run.last[row]) + 1):
        number = crc32(run.head(frame) or b"", number ^ int(run.sizes[frame]))
    return number
