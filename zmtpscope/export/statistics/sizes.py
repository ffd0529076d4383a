"""Message sizes: exact counts for few different sizes, otherwise counts by range.

There are `PARTS` ranges between two powers of two. A size is reported as the middle of its range, which differs by less
than 2 %.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PART_BITS = 5
PARTS = 1 << PART_BITS
LARGEST_BITS = 40
LARGEST = (1 << LARGEST_BITS) - 1
"""Octets; larger sizes count as this."""

RANGES = PARTS * (LARGEST_BITS - PART_BITS + 1)
MAX_SIZES = 128
"""Different sizes to count exactly."""


class Sizes:
    """`least` and `most` are always exact, percentiles if `is_exact`."""

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
        """Return for each part from 0 to 1 the smallest size that this part of the messages does not exceed."""
        counts = self._counts()
        if not counts:
            return [None] * len(parts)
        sums = np.cumsum([count for _, count in counts])
        places = [int(np.searchsorted(sums, np.ceil(part * sums[-1]))) for part in parts]
        return [min(max(counts[place][0], self.least), self.most) for place in places]

    def _counts(self) -> list[tuple[int, int]]:
        """Return sizes, or the middles of ranges, with their counts, ascending."""
        if self._by_range is None:
            return sorted(self._by_size.items())
        ranges = np.flatnonzero(self._by_range).tolist()
        return [(_middle_of(each), int(self._by_range[each])) for each in ranges]


def _range_of(size: int) -> int:
    """Below `PARTS`, each size is a range."""
    shift = max(0, size.bit_length() - PART_BITS - 1)
    return shift * PARTS + (size >> shift)


def _middle_of(number: int) -> int:
    shift = max(0, number // PARTS - 1)
    return ((number - shift * PARTS) << shift) + ((1 << shift) >> 1)
