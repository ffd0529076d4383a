"""Distributions and trends of durations, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log2

from zmtpscope import compiled


def median(values: Iterable[float]) -> float:
    """Return the median, like `statistics.median`, whose module is slow to import."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


EXACT = 1 << 20
"""Logarithms are multiples of 1 / EXACT, so that their sums are exact."""

STEPS = 16
"""Steps for each factor of two: a duration is exact to 2.2 %."""

STEP = EXACT // STEPS


@compiled.where_possible
def logarithms(durations: Iterable[int]) -> list[int]:
    """Return the logarithm (base 2) of each duration times `EXACT`, rounded; 0 for durations below 2 ns."""
    return [round(log2(duration) * EXACT) if duration > 1 else 0 for duration in durations]


@dataclass(slots=True)
class Distribution:
    """A distribution of durations (ns) in bounded memory: exact minimum and maximum, and counts in steps of 4.4 %."""

    count: int = 0
    least: int | None = None
    most: int | None = None
    steps: dict[int, int] = field(default_factory=dict)
    """Durations by step; a step begins at 2^(step / `STEPS`) ns."""

    def add(self, durations: Sequence[int], trend: Trend | None = None) -> None:
        """Add durations (ns) to the distribution, and to `trend` if it is given."""
        if not durations:
            return
        self.count += len(durations)
        self._extend(min(durations), max(durations))
        steps, found = self.steps, logarithms(durations)
        for logarithm in found:
            step = logarithm // STEP
            steps[step] = steps.get(step, 0) + 1
        if trend is not None:
            trend.add_logarithms(found)

    def merge(self, other: Distribution) -> None:
        if other.least is None or other.most is None:
            return
        self.count += other.count
        self._extend(other.least, other.most)
        for step, count in other.steps.items():
            self.steps[step] = self.steps.get(step, 0) + count

    def quantile(self, part: float) -> int | None:
        """Return the duration (ns) below which the fraction `part` of all durations lies, for example the median for
        0.5."""
        if self.least is None or self.most is None:
            return None
        left = part * self.count
        for step in sorted(self.steps):
            left -= self.steps[step]
            if left <= 0:
                return int(min(max(2 ** ((step + 0.5) / STEPS), self.least), self.most))
        return self.most

    def above(self, duration: int) -> int:
        """Return the number of durations above `duration` (ns), exact to a step of 4.4 %."""
        step = logarithms([duration])[0] // STEP
        return sum(count for each, count in self.steps.items() if each > step)

    @property
    def median(self) -> int | None:
        return self.quantile(0.5)

    def _extend(self, least: int, most: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)


MAX_GROUPS = 32
"""Groups in a trend. If there are more, they are merged in pairs."""


@dataclass(slots=True)
class Trend:
    """How durations (ns) develop: their geometric mean in groups of `size` successive ones.

    Each group is stored as the sum of logarithms (base 2), so that a few long durations count little. `rest` is the sum
    of the last, incomplete group.
    """

    size: int = 1
    groups: list[float] = field(default_factory=list)
    rest: float = 0.0
    rest_count: int = 0

    @property
    def count(self) -> int:
        return self.size * len(self.groups) + self.rest_count

    def add(self, durations: Iterable[int]) -> None:
        self.add_logarithms(logarithms(durations))

    def add_logarithms(self, logarithms: Sequence[int]) -> None:
        """Add durations as results of `logarithms`. The groups do not depend on the division into calls of
        this method."""
        begin, stop = 0, len(logarithms)
        while begin < stop:
            end = min(begin + self.size - self.rest_count, stop)
            self.rest += sum(logarithms[begin:end]) / EXACT
            self.rest_count += end - begin
            begin = end
            if self.rest_count == self.size:
                self._end_group()

    def _end_group(self) -> None:
        self.groups.append(self.rest)
        self.rest, self.rest_count = 0.0, 0
        if len(self.groups) == MAX_GROUPS:
            self.groups = [one + other for one, other in zip(self.groups[::2], self.groups[1::2], strict=True)]
            self.size *= 2

    def typical(self) -> list[int]:
        """Return the typical duration (ns), the geometric mean, of each complete group of successive durations."""
        return [round(2 ** (total / self.size)) for total in self.groups]
