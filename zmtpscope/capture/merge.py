"""Several files as one capture, packet by packet in time order.

A file is opened when the time of its first packet is reached, so files that do not overlap are read one after the
other and their blocks are handed on untouched; only where files overlap are packets copied together.

Of files that overlap, the one whose packets at hand end first is read on until enough is at hand that most of it can be
handed on: what is left then is at most a block of each file. So each merge looks at every file once and hands on at
least a third of what it had, and n files of one size cost n log n (the sorting), not n for every block of every file.

Each file's own order is kept also where its time runs backwards: a packet counts as taken at the largest time of its
file so far. Of equal times, the file that was named first comes first.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.statistics import FileReports

SMALLEST_BLOCK = 1 << 15
"""Octets read at a time of each of very many files that overlap."""

Part = tuple[PacketBlock, NDArray[np.int64]]
"""Packets of one file, and the times they count as taken at."""


def read_merged(files: list[CaptureFile], block_size: int, reports: FileReports) -> Iterator[PacketBlock]:
    """The packets of all files in order, in blocks of about `block_size` octets."""
    if len(files) == 1:
        yield from files[0].blocks(block_size, reports)
        return
    by_index = {file.index: file for file in files}
    unopened = sorted(((file.first_time(block_size, reports), file.index) for file in files), reverse=True)
    at_hand = AtHand()
    while unopened or at_hand.cursors:
        limit = at_hand.limit()
        if limit is None or (unopened and unopened[-1] <= limit):
            time, index = unopened[-1]
            parts = at_hand.drain((time, index - 1)) if at_hand.may_be_merged(block_size) else []
            if not parts:
                size = min(block_size, max(SMALLEST_BLOCK, block_size // (len(at_hand.cursors) + 1)))
                at_hand.open(Cursor(by_index[unopened.pop()[1]], size, reports))
        elif at_hand.lacks_packets():
            at_hand.read_on()
            continue
        else:
            parts = at_hand.drain(limit)
        if parts:
            yield from _merged(parts, block_size)


class AtHand:
    """The files that are open, or have packets at hand."""

    def __init__(self) -> None:
        self.cursors: list[Cursor] = []
        """In the order of the files."""
        self.unfinished: list[tuple[tuple[int, int], Cursor]] = []
        """Those that may have more, a heap by the last packet at hand."""
        self.octets = 0
        """Captured octets of all packets at hand, ..."""
        self.sizes = 0
        """... and those of one block of each file."""
        self.pipes = 0

    def limit(self) -> tuple[int, int] | None:
        """Up to where all packets are at hand: no open file goes on in front of it. None where no file is open."""
        if self.unfinished:
            return self.unfinished[0][0]
        return max((cursor.last for cursor in self.cursors), default=None)

    def lacks_packets(self) -> bool:
        """Whether to read on before the next merge; packets out of a pipe wait for no others."""
        if not self.unfinished:
            return False
        if not self.unfinished[0][1].parts:
            return True
        return len(self.cursors) > 1 and not self.pipes and 2 * self.octets < 3 * self.sizes

    def may_be_merged(self, octets: int) -> bool:
        """Whether all files that are open have been read to their end, and `octets` are at hand."""
        return not self.unfinished and self.octets >= octets

    def open(self, cursor: Cursor) -> None:
        """Begin to read a file."""
        insort(self.cursors, cursor, key=_file_of)
        self.sizes += cursor.size
        self.pipes += cursor.is_pipe
        self._read(cursor)

    def read_on(self) -> None:
        """Read a block of the file whose packets at hand end first."""
        self._read(heappop(self.unfinished)[1])

    def _read(self, cursor: Cursor) -> None:
        octets = cursor.read()
        if octets is not None:
            self.octets += octets
            heappush(self.unfinished, (cursor.last, cursor))
        elif not cursor.parts:
            self._leave(cursor)

    def drain(self, limit: tuple[int, int]) -> list[Part]:
        """All packets up to `limit`, in parts by file."""
        parts = [part for cursor in self.cursors for part in cursor.up_to(limit)]
        self.octets -= sum(_octets(packets) for packets, _ in parts)
        for cursor in [cursor for cursor in self.cursors if cursor.ended and not cursor.parts]:
            self._leave(cursor)
        return parts

    def _leave(self, cursor: Cursor) -> None:
        del self.cursors[bisect_left(self.cursors, cursor.file, key=_file_of)]
        self.sizes -= cursor.size
        self.pipes -= cursor.is_pipe


class Cursor:
    """Where the reading of one file stands: the packets at hand and the times they count as taken at."""

    def __init__(self, file: CaptureFile, size: int, reports: FileReports) -> None:
        self.file = file.index
        self.is_pipe = not file.is_regular
        self.size = size
        """Octets of a block."""
        self.parts: list[Part] = []
        self.last = (0, file.index)
        """The time of the last packet that was read, and what decides between equal times."""
        self.ended = False
        self._blocks = file.blocks(size, reports)

    def read(self) -> int | None:
        """Read one more block: the captured octets of its packets, None at the end of the file."""
        packets = next(self._blocks, None)
        if packets is None:
            self.ended = True
            return None
        times = np.maximum.accumulate(np.maximum(packets.times, self.last[0]))
        self.parts.append((packets, times))
        self.last = int(times[-1]), self.file
        return _octets(packets)

    def up_to(self, limit: tuple[int, int]) -> list[Part]:
        """Take all packets at hand that do not come behind `limit`."""
        taken: list[Part] = []
        while self.parts:
            packets, times = self.parts[0]
            count = int(times.searchsorted(limit[0], "right" if self.file <= limit[1] else "left"))
            if count < len(packets):
                self.parts[0] = packets[count:], times[count:]
                packets, times = packets[:count], times[:count]
            else:
                del self.parts[0]
            if not count:
                break
            taken.append((packets, times))
        return taken


def _file_of(cursor: Cursor) -> int:
    return cursor.file


def _octets(packets: PacketBlock) -> int:
    return int((packets.stops - packets.starts).sum())


def _merged(parts: list[Part], block_size: int) -> Iterator[PacketBlock]:
    """The packets of all parts in order. Much is handed on in blocks with octets of their own, one packet after the
    other; else the octets of each part stay together."""
    if len(parts) == 1:
        yield parts[0][0]
        return
    block = join(parts)
    if len(block.data) <= 2 * block_size:
        yield block
        return
    ends = (block.stops - block.starts).cumsum()
    first = 0
    while first < len(block):
        before = int(ends[first - 1]) if first else 0
        behind = max(first + 1, int(ends.searchsorted(before + block_size, "right")))
        yield _compact(block[first:behind])
        first = behind


def _compact(packets: PacketBlock) -> PacketBlock:
    """The same packets over no octets but theirs."""
    data = packets.data
    pieces = [data[start:stop] for start, stop in zip(packets.starts.tolist(), packets.stops.tolist(), strict=True)]
    stops = (packets.stops - packets.starts).cumsum()
    starts = stops - (packets.stops - packets.starts)
    return replace(packets, data=b"".join(pieces), starts=starts, stops=stops)


def join(parts: list[Part]) -> PacketBlock:
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
