from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LARGEST_PACKET = 1 << 20
"""Maximum captured octets of a packet; more are invalid (the largest real packets have 512 KiB)."""

LATEST = (1 << 63) - 1
"""Maximum int64 nanoseconds: a time stamp after the year 2262 is invalid."""


NOWHERE = -1
"""Offset of a packet that cannot be read again, such as one from a pipe."""


@dataclass(slots=True, eq=False)
class PacketBlock:
    """Consecutive packets: packet `i` is `data[starts[i]:stops[i]]`, captured at `times[i]` (ns).

    - `links`: link types (`link.py`)
    - `missing`: how many octets of each packet were not captured
    - `references`: packet references (`segments.FILE_SHIFT`); container readers set the packet number within the file,
      from 1
    - `offsets`: file offsets of the packets; `NOWHERE` if the file was compressed or a pipe
    - `interfaces`: pcapng interface of each packet, or None
    """

    data: bytes
    links: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    missing: NDArray[np.int64]
    times: NDArray[np.int64]
    references: NDArray[np.int64]
    offsets: NDArray[np.int64]
    interfaces: NDArray[np.int64] | None = None
    """Interface of each packet, if the file has interfaces; only set by the container reader."""

    def __len__(self) -> int:
        return len(self.starts)

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        return self.links, self.starts, self.stops, self.missing, self.times, self.references, self.offsets

    def __getitem__(self, rows: slice) -> PacketBlock:
        return PacketBlock(self.data, *(column[rows] for column in self.columns()))


def no_packets() -> PacketBlock:
    """Return a block without packets, for a reader that needs more octets."""
    return PacketBlock(b"", *(np.empty(0, np.int64) for _ in range(7)))
