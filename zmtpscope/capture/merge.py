"""Several files as one capture, packet by packet in time order.

A file is opened when the time of its first packet is reached, so files that do not overlap are read one after the
other and their blocks are handed on untouched; only where files overlap are packets copied together.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from zmtpscope.capture.errors import CaptureProblem
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.packets import PacketRun
from zmtpscope.capture.segments import FILE_SHIFT

NEVER = (1 << 63, 0)
"""Behind every time."""


class Stretch(NamedTuple):
    """Packets of one link type, and for each its packet reference (see `segments.FILE_SHIFT`)."""

    run: PacketRun
    references: array[int]


def read_merged(
    files: list[CaptureFile], block_size: int, problems: list[CaptureProblem]
) -> Iterator[tuple[bytes, list[Stretch]]]:
    """The octets of a block and its packets, in order. Of equal times, the file that was named first comes first."""
    if len(files) == 1:
        for runs in files[0].blocks(block_size, problems):
            yield runs[0].data, [numbered(0, run) for run in runs]
        return
    heads = [
        ((file.first_time(block_size, problems), file.index), Cursor(file, block_size, problems)) for file in files
    ]
    heapify(heads)
    together = Together()
    while heads:
        _, cursor = heappop(heads)
        if not cursor.runs and not cursor.advance():
            continue
        limit = heads[0][0] if heads else NEVER
        if cursor.untouched and (cursor.latest(), cursor.file.index) <= limit:
            if together.stretches:
                yield together.take()
            yield cursor.runs[0].data, [numbered(cursor.file.index, run) for run in cursor.runs]
            cursor.runs = []
        else:
            together.add(cursor.file.index, *cursor.up_to(limit))
            if len(together.octets) >= block_size:
                yield together.take()
        if cursor.runs or cursor.advance():
            heappush(heads, (cursor.key(), cursor))
    if together.stretches:
        yield together.take()


def numbered(file: int, run: PacketRun) -> Stretch:
    """The packets of a run of one file."""
    first = file << FILE_SHIFT | run.first
    return Stretch(run, array("q", list(range(first, first + len(run)))))


class Cursor:
    """Where the reading of one file stands: packet `at` of the first of `runs`."""

    def __init__(self, file: CaptureFile, block_size: int, problems: list[CaptureProblem]) -> None:
        self.file = file
        self.runs: list[PacketRun] = []
        self.at = 0
        self.untouched = False
        """Nothing of the block at hand has been taken."""
        self._open = (block_size, problems)
        self._blocks: Iterator[list[PacketRun]] | None = None

    def advance(self) -> bool:
        """Go to the file's next block; False at its end."""
        if self._blocks is None:
            self._blocks = self.file.blocks(*self._open)
        self.runs = next(self._blocks, [])
        self.at = 0
        self.untouched = True
        return bool(self.runs)

    def key(self) -> tuple[int, int]:
        """The time of the next packet, and what decides between equal times."""
        return self.runs[0].times[self.at], self.file.index

    def latest(self) -> int:
        """The largest time in the block at hand."""
        return max(max(run.times) for run in self.runs)

    def up_to(self, limit: tuple[int, int]) -> tuple[PacketRun, int, int]:
        """Take packets, at least one, of the run at hand while none of another file comes before them.

        Gives the run, the first packet taken and the one behind the last.
        """
        run, begin = self.runs[0], self.at
        end = begin + 1
        latest = limit[0] if self.file.index < limit[1] else limit[0] - 1
        while end < len(run) and run.times[end] <= latest:
            end += 1
        self.untouched = False
        self.at = end
        if end == len(run):
            del self.runs[0]
            self.at = 0
        return run, begin, end


class Together:
    """A block that is put together from the packets of several files."""

    def __init__(self) -> None:
        self.octets = bytearray()
        self.stretches: list[Stretch] = []

    def add(self, file: int, run: PacketRun, begin: int, end: int) -> None:
        """Copy packets `begin` to `end` of `run` behind those that are there."""
        if not self.stretches or self.stretches[-1].run.link != run.link:
            self.stretches.append(Stretch(PacketRun(b"", run.link, 0), array("q")))
        copy, references = self.stretches[-1]
        starts, stops = run.starts, run.stops
        shift = len(self.octets) - starts[begin]
        self.octets += run.data[starts[begin] : stops[end - 1]]
        reference = (file << FILE_SHIFT | run.first) + begin
        for index in range(begin, end):
            if index in run.missing:
                copy.missing[len(copy.times)] = run.missing[index]
            copy.starts.append(starts[index] + shift)
            copy.stops.append(stops[index] + shift)
            copy.times.append(run.times[index])
            references.append(reference)
            reference += 1

    def take(self) -> tuple[bytes, list[Stretch]]:
        """The block, ready; an empty one is begun."""
        data, stretches = bytes(self.octets), self.stretches
        for stretch in stretches:
            stretch.run.data = data
        self.octets, self.stretches = bytearray(), []
        return data, stretches
