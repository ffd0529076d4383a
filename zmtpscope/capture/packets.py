"""What container readers hand on: the packets of one block of octets as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_PACKET = 1 << 20
"""Captured octets of one packet beyond which its length is taken for a lie (the largest real ones have 512 KiB)."""

LATEST = (1 << 63) - 1
"""Times are kept within int64 nanoseconds: a time stamp beyond the year 2262 is a lie anyway."""


NOWHERE = -1
"""The offset of a packet that cannot be read again where it stood."""


@dataclass(slots=True, eq=False)
class PacketBlock:
    """Consecutive packets over one block of octets: `data[starts[i]:stops[i]]`, captured at `times[i]` (ns).

    `links` are link types (`link.py`), `missing` says how many octets of a packet were on the wire but not captured,
    `references` are packet references (`segments.FILE_SHIFT`); container readers give the number within the file,
    counted from 1. `offsets` say where in the file the first octet of each packet stands, so that somebody may read it
    there again, and are `NOWHERE` for what was compressed or came through a pipe.
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
    """Which interface took each packet, where the file says so; only of a block as it was read."""

    def __len__(self) -> int:
        return len(self.starts)

    def columns(self) -> tuple[NDArray[np.int64], ...]:
        """All but the octets."""
        return self.links, self.starts, self.stops, self.missing, self.times, self.references, self.offsets

    def __getitem__(self, rows: slice) -> PacketBlock:
        """Some of the packets, over the same octets."""
        return PacketBlock(self.data, *(column[rows] for column in self.columns()))


def no_packets() -> PacketBlock:
    """A block for whoever waits for more octets: nothing has come."""
    return PacketBlock(b"", *(np.empty(0, np.int64) for _ in range(7)))


def gather(data: bytes, at: NDArray[np.int64], form: np.dtype[Any]) -> NDArray[Any]:
    """The fields of `form` as they stand at each of the offsets `at`, all of which lie within `data`.

    One copy of a few octets for each offset, whatever the alignment: numpy sees the octets as windows that overlap.
    """
    size = form.itemsize
    windows = np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))
    return windows[at].view(form)
