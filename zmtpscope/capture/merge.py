"""Merge several files into one capture, packet by packet in time order.

A file is opened when the time of its first packet is reached. Of overlapping files, the one whose loaded packets end
first is read next, until most loaded packets can be yielded; at most a block of each file is left then. Each file keeps
its order, even if its time goes backwards: the time of a packet is then the largest time of its file so far. Files with
packets of equal times keep their order.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.statistics import FileReports

SMALLEST_BLOCK = 1 << 15
"""Octets to read at a time from very many overlapping files."""

Part = tuple[PacketBlock, NDArray[np.int64]]
"""Packets of one file, with their sort times."""


def read_merged(files: list[CaptureFile], block_size: int, reports: FileReports) -> Iterator[PacketBlock]:
    """Yield the packets of all files in time order, in blocks of about `block_size` octets."""
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
        elif at_hand.needs_packets():
            at_hand.read_on()
            continue
        else:
            parts = at_hand.drain(limit)
        if parts:
            yield from _merged(parts, block_size)


class AtHand:
    """The files of a merge that are open, or have loaded packets that are not yielded yet."""

    def __init__(self) -> None:
        self.cursors: list[Cursor] = []
        """Files in order."""
        self.unfinished: list[tuple[tuple[int, int], Cursor]] = []
        """Files that are not loaded to their end, as a heap by the time of the last loaded packet."""
        self.octets = 0
        self.sizes = 0
        self.pipes = 0

    def limit(self) -> tuple[int, int] | None:
        """Return the last (time, file) up to which the packets of all files are loaded, or None if no file is open."""
        if self.unfinished:
            return self.unfinished[0][0]
        return max((cursor.last for cursor in self.cursors), default=None)

    def needs_packets(self) -> bool:
        """Whether to read more packets before the next merge. Packets of a pipe are merged at once."""
        if not self.unfinished:
            return False
        if not self.unfinished[0][1].parts:
            return True
        return len(self.cursors) > 1 and not self.pipes and 2 * self.octets < 3 * self.sizes

    def may_be_merged(self, octets: int) -> bool:
        """Whether at least `octets` are loaded, and all open files are loaded to their end."""
        return not self.unfinished and self.octets >= octets

    def open(self, cursor: Cursor) -> None:
        insort(self.cursors, cursor, key=attrgetter("file"))
        self.sizes += cursor.size
        self.pipes += cursor.is_pipe
        self._read(cursor)

    def read_on(self) -> None:
        self._read(heappop(self.unfinished)[1])

    def _read(self, cursor: Cursor) -> None:
        octets = cursor.read()
        if octets is not None:
            self.octets += octets
            heappush(self.unfinished, (cursor.last, cursor))
        elif not cursor.parts:
            self._leave(cursor)

    def drain(self, limit: tuple[int, int]) -> list[Part]:
        """Remove and return all packets up to `limit`, a (time, file), as one part for each file."""
        parts = [part for cursor in self.cursors for part in cursor.up_to(limit)]
        self.octets -= sum(_octets(packets) for packets, _ in parts)
        for cursor in [cursor for cursor in self.cursors if cursor.ended and not cursor.parts]:
            self._leave(cursor)
        return parts

    def _leave(self, cursor: Cursor) -> None:
        del self.cursors[bisect_left(self.cursors, cursor.file, key=attrgetter("file"))]
        self.sizes -= cursor.size
        self.pipes -= cursor.is_pipe


class Cursor:
    """The reading position in one file, with the loaded packets and the times by which they are sorted."""

    def __init__(self, file: CaptureFile, size: int, reports: FileReports) -> None:
        self.file = file.index
        self.is_pipe = not file.is_regular
        self.size = size
        self.parts: list[Part] = []
        self.last = (0, file.index)
        """Sort key of the last packet: its time, then the file."""
        self.ended = False
        self._blocks = file.blocks(size, reports)

    def read(self) -> int | None:
        """Read one block; return its captured octets, or None at the end."""
        packets = next(self._blocks, None)
        if packets is None:
            self.ended = True
            return None
        times = np.maximum.accumulate(np.maximum(packets.times, self.last[0]))
        self.parts.append((packets, times))
        self.last = int(times[-1]), self.file
        return _octets(packets)

    def up_to(self, limit: tuple[int, int]) -> list[Part]:
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


def _octets(packets: PacketBlock) -> int:
    return int((packets.stops - packets.starts).sum())


def _merged(parts: list[Part], block_size: int) -> Iterator[PacketBlock]:
    """Yield the packets of `parts` in order, in blocks of about `block_size` octets.

    Small parts share a block; large ones are split into blocks that contain only their own octets.
    """
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
    """Return the packets in a block that contains only their own octets."""
    data = packets.data
    pieces = [data[start:stop] for start, stop in zip(packets.starts.tolist(), packets.stops.tolist(), strict=True)]
    stops = (packets.stops - packets.starts).cumsum()
    starts = stops - (packets.stops - packets.starts)
    return replace(packets, data=b"".join(pieces), starts=starts, stops=stops)


def join(parts: list[Part]) -> PacketBlock:
    """Join packets of several files into one block, sorted by time."""
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
