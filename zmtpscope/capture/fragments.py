"""Reassemble fragments of IP datagrams within fixed limits."""

from __future__ import annotations

from collections import OrderedDict

MAX_OCTETS = 4 << 20
"""Octets of all waiting fragments; above, the oldest datagram is dropped."""
LONGEST_WAIT = 30_000_000_000
"""Maximum nanoseconds that a datagram waits for its last fragment."""
OVERHEAD = 128
"""Octets counted in addition for each fragment, so that empty ones are limited too."""
LARGEST_DATAGRAM = 65_535


class Waiting:
    def __init__(self, time: int) -> None:
        self.time = time
        self.pieces: dict[int, tuple[bytes, int]] = {}
        self.announced = 0
        self.total = -1
        self.cost = 0


class Fragments:
    def __init__(self) -> None:
        self.waiting: OrderedDict[bytes, Waiting] = OrderedDict()
        self.cost = 0
        self.latest = 0
        self.given_up = 0

    def add(
        self, key: bytes, offset: int, more: bool, octets: bytes, announced: int, time: int
    ) -> tuple[bytes, int] | None:
        """Add an IP fragment; if its datagram is now complete, return the payload and how many octets were not
        captured.

        - `key`: addresses, protocol and identification
        - `offset`, `more`: from the header of the fragment
        - `announced`: the size of the fragment in octets, of which `octets` were captured
        - `time`: of the packet (ns)

        The payload ends at a truncated fragment. Fragments that overlap without being repeats drop their datagram (RFC
        5722; also for IPv4, because the receiver's choice is unknown).
        """
        # capture time may go backwards
        self.latest = max(self.latest, time)
        self._expire()
        waiting = self.waiting.get(key)
        if waiting is None:
            waiting = self.waiting[key] = Waiting(self.latest)
        if offset in waiting.pieces and waiting.pieces[offset][1] == announced:
            return None
        if offset in waiting.pieces or offset + announced > LARGEST_DATAGRAM or (not more and waiting.total >= 0):
            self._give_up(key)
            return None
        waiting.pieces[offset] = (octets, announced)
        waiting.announced += announced
        waiting.cost += len(octets) + OVERHEAD
        self.cost += len(octets) + OVERHEAD
        if not more:
            waiting.total = offset + announced
        if waiting.total >= 0 and waiting.announced >= waiting.total:
            return self._join(key, waiting)
        while self.cost > MAX_OCTETS:
            self._give_up(next(iter(self.waiting)))
        return None

    def finish(self) -> None:
        for key in list(self.waiting):
            self._give_up(key)

    def _join(self, key: bytes, waiting: Waiting) -> tuple[bytes, int] | None:
        position = 0
        parts: list[bytes] = []
        for offset, (octets, announced) in sorted(waiting.pieces.items()):
            if offset != position:
                self._give_up(key)
                return None
            position += announced
            parts.append(octets)
            if len(octets) < announced:
                break
        if position > waiting.total:
            self._give_up(key)
            return None
        del self.waiting[key]
        self.cost -= waiting.cost
        joined = b"".join(parts)
        return joined, waiting.total - len(joined)

    def _expire(self) -> None:
        while self.waiting and self.latest - next(iter(self.waiting.values())).time > LONGEST_WAIT:
            self._give_up(next(iter(self.waiting)))

    def _give_up(self, key: bytes) -> None:
        self.cost -= self.waiting.pop(key).cost
        self.given_up += 1
