"""Sums over the messages of a batch by sender or topic, and distributions of their sizes.

Senders and topics are numbers here. Sizes are counted exactly if there are few different ones, otherwise by range, of
which there are `PARTS` between two powers of two. A size is reported as the middle of its range, which differs by less
than 2 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.columns import Int64
from zmtpscope.export.top.columns import Measured, Sums

PART_BITS = 5
PARTS = 1 << PART_BITS
LARGEST_BITS = 40
LARGEST = (1 << LARGEST_BITS) - 1
"""Size in octets as which larger sizes count."""

RANGES = PARTS * (LARGEST_BITS - PART_BITS + 1)
MAX_SIZES = 128
"""Different sizes to count exactly."""


class Sizes:
    """Counts messages by size. `least` and `most` are always exact, percentiles only if `is_exact`."""

    __slots__ = ("_by_range", "_by_size", "_most_sizes", "least", "most")

    def __init__(self, most_sizes: int = MAX_SIZES) -> None:
        self.least, self.most = LARGEST, 0
        self._most_sizes = most_sizes
        self._by_size: dict[int, int] = {}
        self._by_range: NDArray[np.int64] | None = None

    @property
    def is_exact(self) -> bool:
        """Whether each size is counted separately."""
        return self._by_range is None

    def add(self, size: int, count: int) -> None:
        self.least, self.most = min(self.least, size), max(self.most, size)
        if self._by_range is not None:
            self._by_range[_range_of(size)] += count
            return
        self._by_size[size] = self._by_size.get(size, 0) + count
        if len(self._by_size) > self._most_sizes:
            self._by_range = np.zeros(RANGES, np.int64)
            for each, number in self._by_size.items():
                self._by_range[_range_of(each)] += number
            self._by_size = {}

    def merge(self, other: Sizes) -> None:
        least, most = min(self.least, other.least), max(self.most, other.most)
        for size, count in other._counts():
            self.add(size, count)
        self.least, self.most = least, most  # the middle of a range can exceed all sizes in it

    def percentiles(self, *parts: float) -> list[int | None]:
        """Return percentiles of the sizes: for 0.5 the median, for 1 the largest. None without messages."""
        counts = self._counts()
        if not counts:
            return [None] * len(parts)
        sums = np.cumsum([count for _, count in counts])
        places = [int(np.searchsorted(sums, np.ceil(part * sums[-1]))) for part in parts]
        return [min(max(counts[place][0], self.least), self.most) for place in places]

    def _counts(self) -> list[tuple[int, int]]:
        """Return (size, number of messages), ascending.

        If sizes are counted by range, the size is the middle of a range.
        """
        if self._by_range is None:
            return sorted(self._by_size.items())
        ranges = np.flatnonzero(self._by_range).tolist()
        return [(_middle_of(each), int(self._by_range[each])) for each in ranges]


def _range_of(size: int) -> int:
    """Return the number of the range that contains a size. Sizes below `PARTS` have ranges of their own."""
    shift = max(0, size.bit_length() - PART_BITS - 1)
    return shift * PARTS + (size >> shift)


def _middle_of(number: int) -> int:
    shift = max(0, number // PARTS - 1)
    return ((number - shift * PARTS) << shift) + ((1 << shift) >> 1)


BARS = 64

MIN_BAR_NS = 1_000_000
FEW_CELLS = 1 << 18
"""Maximum number of combinations of two numbers to count in one array."""


class Pairs(NamedTuple):
    """Counts of distinct pairs, sorted: `counts[i]` messages have the number `numbers[i]` and the value `values[i]`.

    A number stands for a sender or topic; a value is a size, an interval, or a bar of a histogram.
    """

    numbers: Int64
    values: Int64
    counts: Int64

    @classmethod
    def of(cls, numbers: Int64, values: Int64, weights: Int64 | None = None) -> Self:
        """Count the distinct pairs of number and value.

        Each pair stands for one message, or for `weights` messages.
        """
        low = int(values.min(initial=0))
        span = int(values.max(initial=0)) - low + 1
        cells = numbers * span + (values - low)
        if (int(numbers.max(initial=0)) + 1) * span <= FEW_CELLS:
            counts = np.bincount(cells, weights).astype(np.int64)
            found = np.flatnonzero(counts)
            return cls(found // span, found % span + low, counts[found])
        found, which = np.unique(cells, return_inverse=True)
        counts = np.bincount(which, weights).astype(np.int64)
        return cls(found // span, found % span + low, counts)

    def moved(self, to: Int64) -> Pairs:
        return Pairs.of(to[self.numbers], self.values, self.counts)


@dataclass
class Scale:
    """The scale of histograms over time, and of the busiest interval.

    Bars are `width_ns` wide, and the first starts at `start_ns`. `interval_ns` is the length of the interval for the
    busiest rate.
    """

    interval_ns: int
    width_ns: int
    start_ns: int | None = None
    latest_ns: int = 0
    """Latest time with a bar."""

    def halvings(self, first: int, last: int) -> int:
        """Widen the bars until they include the time `last`; return how often adjacent bars must be joined.

        `first` is the earliest time (ns).
        """
        if self.start_ns is None:
            self.start_ns = first
        count, self.latest_ns = 0, max(self.latest_ns, last)
        while last - self.start_ns >= BARS * self.width_ns:
            self.width_ns *= 2
            count += 1
        return count

    def bars(self, times: Int64) -> Int64:
        assert self.start_ns is not None
        return np.maximum(times - self.start_ns, 0) // self.width_ns

    def bars_until(self, latest: int) -> int:
        if self.start_ns is None:
            return 0
        return min(BARS, (max(latest, self.latest_ns) - self.start_ns) // self.width_ns + 1)


class Tally(NamedTuple):
    """Counts of messages by number (sender or topic), and their distributions over sizes, intervals and bars.

    `orders` and `times` belong to the first message of a number, and are meaningless for a number without messages.
    """

    sums: Sums
    orders: Int64
    times: Int64
    sizes: Pairs
    intervals: Pairs
    bars: Pairs

    @classmethod
    def of(cls, numbers: Int64, count: int, scale: Scale, measured: Measured) -> Self:
        """Add up messages in order.

        `numbers` has the sender or topic of each message, below `count`. Incomplete messages are left out of sizes.
        """
        first = np.zeros(count, np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        times, complete = measured.times, measured.complete
        return cls(
            measured.sums(numbers, count),
            measured.orders[first],
            times[first],
            Pairs.of(numbers[complete], np.minimum(measured.octets[complete], LARGEST)),
            Pairs.of(numbers, times // scale.interval_ns),
            Pairs.of(numbers, scale.bars(times)),
        )
