"""The times of many messages in bounded memory, which give bounds for the number of messages before any time."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.dissect.records.columns import Int64

EXACT = 32
"""Number of first events with exact times."""

MAX_SAMPLES = 64
"""Samples of the later times, one for every `stride`-th event."""


class Bounds(NamedTuple):
    least: int
    most: int


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True)
class Timeline:
    """The ascending times (ns) of `count` events. The first ones are stored exactly.

    Of the others, every `stride`-th (numbered from 1) is stored; when there are too many, `stride` doubles.
    """

    count: int = 0
    last_ns: int = 0
    stride: int = 1
    first: array[int] = field(default_factory=_numbers)
    samples: array[int] = field(default_factory=_numbers)

    def add(self, times: Int64) -> None:
        """Add one or more events; `times` (ns) ascend and are signed 64-bit numbers."""
        count, more = self.count, len(times)
        if count < EXACT:
            self.first.frombytes(times[: EXACT - count].tobytes())
        place = self.stride - count % self.stride - 1  # index of the next time to keep
        while place < more:
            room = (MAX_SAMPLES - len(self.samples)) * self.stride
            self.samples.frombytes(times[place : place + room : self.stride].tobytes())
            if len(self.samples) < MAX_SAMPLES:
                break
            del self.samples[::2]
            self.stride *= 2
            place = len(self.samples) * self.stride + self.stride - 1 - count
        self.count = count + more
        self.last_ns = int(times[-1])

    def before(self, time: int) -> Bounds:
        if time > self.last_ns:
            return Bounds(self.count, self.count)
        exact = bisect_left(self.first, time)
        if exact < len(self.first):
            return Bounds(exact, exact)
        place = bisect_left(self.samples, time)
        least = max(exact, place * self.stride)
        return Bounds(least, max(least, min(self.count - 1, (place + 1) * self.stride - 1)))

    def between(self, start: int, end: int) -> Bounds:
        if self.count and start <= self.first[0] and end > self.last_ns:
            return Bounds(self.count, self.count)
        earlier, later = self.before(start), self.before(end)
        return Bounds(max(0, later.least - earlier.most), max(0, later.most - earlier.least))
