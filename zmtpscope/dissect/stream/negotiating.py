"""The octets and holes of a side while its version is unknown."""

from __future__ import annotations

from itertools import groupby

from zmtpscope.dissect.tcp.out_of_order import Hole


class Negotiating:
    def __init__(self) -> None:
        self._entries: list[bytes | Hole] = []

    def feed(self, octets: bytes) -> None:
        self._entries.append(octets)

    def lose(self, hole: Hole) -> None:
        self._entries.append(hole)

    def prefix(self) -> bytes:
        """Return the octets before the first hole."""
        octets = []
        for entry in self._entries:
            if isinstance(entry, Hole):
                break
            octets.append(entry)
        return b"".join(octets)

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def has_lost(self) -> bool:
        return any(isinstance(entry, Hole) for entry in self._entries)

    def drain(self) -> list[bytes | Hole]:
        """Remove and return octets and holes in order; octets between holes are joined."""
        waited, self._entries = self._entries, []
        drained: list[bytes | Hole] = []
        for are_holes, entries in groupby(waited, _is_hole):
            if are_holes:
                drained += entries
            else:
                drained.append(b"".join([entry for entry in entries if isinstance(entry, bytes)]))
        return drained


def _is_hole(entry: bytes | Hole) -> bool:
    return isinstance(entry, Hole)
