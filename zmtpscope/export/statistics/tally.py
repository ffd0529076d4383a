"""Messages of a batch, added up by a number that each of them has: by its run, or by its topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.export.statistics.sizes import LARGEST

BARS = 64
"""Into so many stretches the time of a capture is divided, at most."""

LEAST_BAR_NS = 1_000_000
"""No bar is shorter."""
FEW_CELLS = 1 << 18
"""So many combinations of two numbers are counted in an array of all of them."""


class Pairs(NamedTuple):
    """`counts[i]` messages have the number `numbers[i]` and the value `values[i]`; each pair is there once, sorted."""

    numbers: Int64
    values: Int64
    counts: Int64

    @classmethod
    def of(cls, numbers: Int64, values: Int64, weights: Int64 | None = None) -> Self:
        """Those of messages, or of other pairs that stand for `weights` messages each."""
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
        """The same with `to[number]` in place of each number."""
        return Pairs.of(to[self.numbers], self.values, self.counts)


@dataclass
class Scale:
    """The bars of a run: each is `width_ns` wide, the first begins at `start_ns`. The busiest interval is looked for
    among those of `interval_ns`."""

    interval_ns: int
    width_ns: int
    start_ns: int | None = None
    latest_ns: int = 0
    """The latest time that has a bar."""

    def halvings(self, first: int, last: int) -> int:
        """How often the bars have to be joined, two and two, so that there is one for the time `last`; they are as wide
        then. `first` is the earliest time there is."""
        if self.start_ns is None:
            self.start_ns = first
        count, self.latest_ns = 0, max(self.latest_ns, last)
        while last - self.start_ns >= BARS * self.width_ns:
            self.width_ns *= 2
            count += 1
        return count

    def bars(self, times: Int64) -> Int64:
        """The bars of times."""
        assert self.start_ns is not None
        return np.maximum(times - self.start_ns, 0) // self.width_ns

    def bars_until(self, latest: int) -> int:
        """How many there are up to a time."""
        if self.start_ns is None:
            return 0
        return min(BARS, (max(latest, self.latest_ns) - self.start_ns) // self.width_ns + 1)


class Tally(NamedTuple):
    """Messages by number: arrays by it, and pairs of it with sizes, intervals and bars. `orders` and `times` are of the
    first message of each, and mean nothing where there is none."""

    messages: Int64
    octets: Int64
    frames: Int64
    orders: Int64
    times: Int64
    sizes: Pairs
    intervals: Pairs
    bars: Pairs

    @classmethod
    def of(
        cls,
        numbers: Int64,
        count: int,
        times: Int64,
        octets: Int64,
        frames: Int64,
        orders: Int64,
        scale: Scale,
        sized: Bool | None = None,
    ) -> Self:
        """Of messages in order; numbers are below `count`. Sizes are of all, or of those `sized`."""
        first = np.zeros(count, np.int64)
        first[numbers[::-1]] = np.arange(len(numbers))[::-1]
        octets = np.minimum(octets, LARGEST)
        return cls(
            np.bincount(numbers, minlength=count),
            np.bincount(numbers, octets, count).astype(np.int64),
            np.bincount(numbers, frames, count).astype(np.int64),
            orders[first],
            times[first],
            Pairs.of(numbers, octets) if sized is None else Pairs.of(numbers[sized], octets[sized]),
            Pairs.of(numbers, times // scale.interval_ns),
            Pairs.of(numbers, scale.bars(times)),
        )
