"""What container readers hand to the header loop: packets as columns over one block of octets."""

from __future__ import annotations

from array import array

LARGEST_PACKET = 1 << 20
"""Captured octets of one packet beyond which its length is taken for a lie (the largest real ones have 512 KiB)."""

LATEST = (1 << 63) - 1
"""Times are kept within int64 nanoseconds: a time stamp beyond the year 2262 is a lie anyway."""


class PacketRun:
    """Consecutive packets of one file and one link type: `data[starts[i]:stops[i]]`, captured at `times[i]` (ns).

    `first` is the number of the first packet within its file (from 1). `missing` holds, by index, how many octets of
    a packet were on the wire but not captured.
    """

    __slots__ = ("data", "first", "link", "missing", "starts", "stops", "times")

    def __init__(self, data: bytes, link: int, first: int) -> None:
        self.data = data
        self.link = link
        self.first = first
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.times = array("q")
        self.missing: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.times)

    def keep(self, count: int) -> None:
        """Drop all packets behind the first `count`."""
        for column in (self.starts, self.stops, self.times):
            del column[count:]
