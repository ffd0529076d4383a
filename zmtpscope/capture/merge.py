"""Several files as one capture, packet by packet in time order.

A file is opened when the time of its first packet is reached, so files that do not overlap are read one after the
other and their blocks are handed on untouched; only where files overlap are packets copied together.

Each file's own order is kept also where its time runs backwards: a packet counts as taken at the largest time of its
file so far. Of equal times, the file that was named first comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.errors import CaptureProblem
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import PacketBlock

NEVER = (1 << 63, 0)
"""Behind every time."""

SMALLEST_BLOCK = 1 << 16
"""Octets read at a time of each of very many files that overlap."""


def read_merged(files: list[CaptureFile], block_size: int, problems: list[CaptureProblem]) -> Iterator[PacketBlock]:
    """The packets of all files in order, in blocks of about `block_size` octets."""
    if len(files) == 1:
        yield from files[0].blocks(block_size, problems)
        return
    unopened = sorted(((file.first_time(block_size, problems), file.index) for file in files), reverse=True)
    cursors: list[Cursor] = []
    while True:
        cursors = [cursor for cursor in cursors if cursor.fill()]
        # All packets up to the limit are at hand: no file that is open goes on in front of it, no other begins there.
        limit = min((cursor.last() for cursor in cursors), default=NEVER)
        while unopened and unopened[-1] <= limit:
            size = min(block_size, max(SMALLEST_BLOCK, block_size // (len(cursors) + 1)))
            cursor = Cursor(files[unopened.pop()[1]], size, problems)
            if cursor.fill():
                cursors.append(cursor)
                limit = min(limit, cursor.last())
        if not cursors:
            return
        cursors.sort(key=lambda cursor: cursor.file)
        taken = [packets for packets in (cursor.up_to(limit) for cursor in cursors) if len(packets[0])]
        yield taken[0][0] if len(taken) == 1 else join(taken)


class Cursor:
    """Where the reading of one file stands: the packets at hand and the times they count as taken at."""

    def __init__(self, file: CaptureFile, block_size: int, problems: list[CaptureProblem]) -> None:
        self.file = file.index
        self.blocks = file.blocks(block_size, problems)
        self.packets: PacketBlock | None = None
        self.times: NDArray[np.int64] = np.zeros(1, np.int64)

    def fill(self) -> bool:
        """Go to the next block if no packets are at hand; False at the end of the file."""
        if self.packets is None:
            self.packets = next(self.blocks, None)
            if self.packets is None:
                return False
            self.times = np.maximum.accumulate(np.maximum(self.packets.times, self.times[-1]))
        return True

    def last(self) -> tuple[int, int]:
        """The time of the last packet at hand, and what decides between equal times."""
        return int(self.times[-1]), self.file

    def up_to(self, limit: tuple[int, int]) -> tuple[PacketBlock, NDArray[np.int64]]:
        """Take all packets at hand that do not come behind `limit`."""
        assert self.packets is not None
        packets, times = self.packets, self.times
        count = int(times.searchsorted(limit[0], "right" if self.file <= limit[1] else "left"))
        if count == len(packets):
            self.packets = None
        else:
            self.packets, self.times = packets[count:], times[count:]
        return packets[:count], times[:count]


def join(parts: list[tuple[PacketBlock, NDArray[np.int64]]]) -> PacketBlock:
    """One block of packets of several files and the times they count as taken at."""
    order = np.argsort(np.concatenate([times for _, times in parts]), kind="stable")
    octets: list[bytes] = []
    columns = []
    position = 0
    for packets, _ in parts:
        begin, end = int(packets.starts[0]), int(packets.stops[-1])
        octets.append(packets.data[begin:end])
        packets.starts += position - begin
        packets.stops += position - begin
        columns.append(packets.columns())
        position += end - begin
    return PacketBlock(b"".join(octets), *(np.concatenate(column)[order] for column in zip(*columns, strict=True)))
