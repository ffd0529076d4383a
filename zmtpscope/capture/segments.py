"""What the capture layer hands up: the TCP segments and UDP datagrams of one block, as columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

CUT = 0x100
"""Set in `SegmentBlock.flags` beside the TCP flags where fewer payload octets were captured than IP announces."""

FILE_SHIFT = 40
"""A packet reference is `file index << FILE_SHIFT | packet number`; packet numbers count from 1 within their file."""

ORDINALS = 2
"""How far the ordinals of segments are apart: the odd one in front of each is that of what time alone has decided
before the segment came."""

PACKET_MASK = (1 << FILE_SHIFT) - 1

EMPTY: NDArray[np.int64] = np.empty(0, np.int64)


class Datagram(NamedTuple):
    """One UDP datagram; the payload is `data[start:stop]` of its block, `cut` more octets of it were not captured.

    `key`, `packet` and `time` are as in `SegmentBlock`; `ordinal` is that of the last TCP segment in front of it (where
    there is none, as if there were one), `row` its place among the packets of the block.
    """

    key: bytes
    start: int
    stop: int
    packet: int
    time: int
    cut: int
    row: int
    ordinal: int = -1


@dataclass(slots=True)
class DatagramColumns:
    """The UDP datagrams of one block, an entry for each in every column but `keys`, in capture order. Columns are those
    of `Datagram`; `keys` are the distinct flows in order of first appearance, `flows` indexes into them."""

    keys: list[bytes]
    flows: NDArray[np.int64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    cut: NDArray[np.int64]
    packets: NDArray[np.int64]
    times: NDArray[np.int64]
    rows: NDArray[np.int64]
    ordinals: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.flows)

    def __getitem__(self, index: int) -> Datagram:
        columns = self.starts, self.stops, self.packets, self.times, self.cut, self.rows, self.ordinals
        return Datagram(self.keys[self.flows[index]], *(int(column[index]) for column in columns))

    def __iter__(self) -> Iterator[Datagram]:
        return map(self.__getitem__, range(len(self)))


class SegmentBlock:
    """The TCP segments of one block of captured octets, one entry per segment in every column, in capture order.

    `keys` are the distinct flows of the block in order of first appearance: source address, destination address,
    source port and destination port as they stand on the wire (12 octets for IPv4, 36 for IPv6), so that the reverse
    direction is a matter of slicing. `flows` are indexes into them. Payloads are `data[start:stop]`. `packets` are
    packet references (see `FILE_SHIFT`), `times` nanoseconds since the epoch. `ordinal` is that of the block's first
    segment: `ordinal + ORDINALS * index` orders segments over all files.
    """

    __slots__ = (
        "acknowledgments",
        "cut",
        "data",
        "datagrams",
        "flags",
        "flows",
        "keys",
        "latest",
        "ordinal",
        "packets",
        "sequences",
        "starts",
        "stops",
        "times",
    )

    def __init__(self, data: bytes, ordinal: int) -> None:
        self.data = data
        self.ordinal = ordinal
        self.keys: list[bytes] = []
        self.flows = EMPTY
        self.sequences = EMPTY
        self.acknowledgments = EMPTY
        self.flags = EMPTY
        self.starts = EMPTY
        self.stops = EMPTY
        self.packets = EMPTY
        self.times = EMPTY
        self.cut: dict[int, int] = {}
        """For entries with the `CUT` flag: index to the number of payload octets announced but not captured."""
        self.datagrams = DatagramColumns([], *[EMPTY] * 8)
        self.latest = 0
        """The largest time of the packets of the block, those that are neither TCP nor UDP included."""

    def __len__(self) -> int:
        return len(self.flows)
