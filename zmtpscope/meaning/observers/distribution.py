"""How durations are distributed: counts that can be added up, small whatever they count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2

STEPS = 16
"""Of each factor of two: a duration is known to 2.2 %."""


@dataclass(slots=True)
class Distribution:
    """Of durations (ns): how many, the least and the most exactly, and the others as counts in steps of 4.4 %."""

    count: int = 0
    least: int | None = None
    most: int | None = None
    steps: dict[int, int] = field(default_factory=dict)
    """How many lie in each step: from 2^(step / `STEPS`) ns on."""

    def add(self, durations: Sequence[int]) -> None:
        """Count some more."""
        if not durations:
            return
        self.count += len(durations)
        self._extend(min(durations), max(durations))
        steps = self.steps
        for duration in durations:
            step = int(log2(duration) * STEPS) if duration > 1 else 0
            steps[step] = steps.get(step, 0) + 1

    def merge(self, other: Distribution) -> None:
        """Count what another one has counted, too."""
        if other.least is None or other.most is None:
            return
        self.count += other.count
        self._extend(other.least, other.most)
        for step, count in other.steps.items():
            self.steps[step] = self.steps.get(step, 0) + count

    def quantile(self, part: float) -> int | None:
        """The duration that `part` of them (0 to 1) do not exceed; None where there are none."""
        if self.least is None or self.most is None:
            return None
        left = part * self.count
        for step in sorted(self.steps):
            left -= self.steps[step]
            if left <= 0:
                return int(min(max(2 ** ((step + 0.5) / STEPS), self.least), self.most))
        return self.most

    @property
    def median(self) -> int | None:
        """Half of them are no longer."""
        return self.quantile(0.5)

    def _extend(self, least: int, most: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)
