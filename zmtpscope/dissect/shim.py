"""Blocks of the capture layer with distinct keys and numpy columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import Datagram, SegmentBlock

COLUMNS = ("sequences", "acknowledgments", "flags", "starts", "stops", "packets", "times")


class Columns:
    """A block with `flows`, for each segment the index of its key in `keys`."""

    data: bytes
    ordinal: int
    keys: list[bytes]
    flows: NDArray[np.int64]
    sequences: NDArray[np.int64]
    acknowledgments: NDArray[np.int64]
    flags: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    packets: NDArray[np.int64]
    times: NDArray[np.int64]
    cut: dict[int, int]
    datagrams: list[Datagram]

    def __len__(self) -> int:
        return len(self.flows)


def as_columns(block: SegmentBlock | Columns) -> Columns:
    """The block with numpy columns."""
    if isinstance(block, Columns):
        return block
    columns = Columns()
    columns.data, columns.ordinal = block.data, block.ordinal
    numbers: dict[bytes, int] = {}
    columns.flows = np.array([numbers.setdefault(key, len(numbers)) for key in block.keys], np.int64)
    columns.keys = list(numbers)
    for name in COLUMNS:
        setattr(columns, name, np.array(getattr(block, name), np.int64))
    columns.cut, columns.datagrams = block.cut, block.datagrams
    return columns
