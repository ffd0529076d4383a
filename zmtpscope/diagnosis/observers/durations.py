"""Distributions and trends of durations, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

import numpy as np

from zmtpscope.dissect.records.columns import Int64


def median(values: Iterable[float]) -> float:
    """Return the median, as `statistics.median`, whose module takes longer to import than a tiny capture."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


STEPS = 16
"""Steps for each factor of two: a duration is exact to 2.2 %."""


@dataclass(slots=True)
class Distribution:
    """Durations (ns): count, exact minimum and maximum, and counts in steps of 4.4 %."""

    count: int = 0
    least: int | None = None
    most: int | None = None
    steps: dict[int, int] = field(default_factory=dict)
    """Number of durations in each step; a step begins at 2^(step / `STEPS`) ns."""

    def add(self, durations: Sequence[int]) -> None:
        if not durations:
            return
        self.count += len(durations)
        self._extend(min(durations), max(durations))
        steps = self.steps
        for duration in durations:
            step = int(log2(duration) * STEPS) if duration > 1 else 0
            steps[step] = steps.get(step, 0) + 1

    def merge(self, other: Distribution) -> None:
        if other.least is None or other.most is None:
            return
        self.count += other.count
        self._extend(other.least, other.most)
        for step, count in other.steps.items():
            self.steps[step] = self.steps.get(step, 0) + count

    def quantile(self, part: float) -> int | None:
        """Return the duration that the fraction `part` (0 to 1) does not exceed."""
        if self.least is None or self.most is None:
            return None
        left = part * self.count
        for step in sorted(self.steps):
            left -= self.steps[step]
            if left <= 0:
                return int(min(max(2 ** ((step + 0.5) / STEPS), self.least), self.most))
        return self.most

    def above(self, duration: int) -> int:
        """Return the number of longer durations, to the exactness of a step."""
        step = int(log2(duration) * STEPS) if duration > 1 else 0
        return sum(count for each, count in self.steps.items() if each > step)

    @property
    def median(self) -> int | None:
        return self.quantile(0.5)

    def _extend(self, least: int, most: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)


EXACT = 1 << 20
"""Logarithms in a column are multiples of 1 / EXACT, so that their sums are exact."""

MAX_GROUPS = 32
"""Groups of equal size in a trend. If there are more, they are merged in pairs."""


@dataclass(slots=True)
class Trend:
    """Durations (ns) in groups of `size` successive ones, each as the sum of logarithms (base 2): a few long durations
    count little.

    `rest` is the sum of the last, incomplete group.
    """

    size: int = 1
    groups: list[float] = field(default_factory=list)
    rest: float = 0.0
    rest_count: int = 0

    @property
    def count(self) -> int:
        return self.size * len(self.groups) + self.rest_count

    def add(self, durations: Iterable[int]) -> None:
        rest, count = self.rest, self.rest_count
        for duration in durations:
            rest += log2(duration) if duration > 1 else 0.0
            count += 1
            if count == self.size:
                self._end_group(rest)
                rest, count = 0.0, 0
        self.rest, self.rest_count = rest, count

    def add_column(self, durations: Int64) -> None:
        """Add many durations. The result does not depend on how they are divided into columns."""
        logarithms = np.rint(np.log2(np.maximum(durations, 1)) * EXACT).astype(np.int64)
        sums = [0, *np.cumsum(logarithms).tolist()]
        begin, stop = 0, len(logarithms)
        while begin < stop:
            end = min(begin + self.size - self.rest_count, stop)
            self.rest += (sums[end] - sums[begin]) / EXACT
            self.rest_count += end - begin
            begin = end
            if self.rest_count == self.size:
                self._end_group(self.rest)
                self.rest, self.rest_count = 0.0, 0

    def _end_group(self, total: float) -> None:
        self.groups.append(total)
        if len(self.groups) == MAX_GROUPS:
            self.groups = [one + other for one, other in zip(self.groups[::2], self.groups[1::2], strict=True)]
            self.size *= 2

    def typical(self) -> list[int]:
        """Return the geometric mean of each complete group (ns)."""
        return [round(2 ** (total / self.size)) for total in self.groups]
