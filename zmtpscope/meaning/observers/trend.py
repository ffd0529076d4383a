"""How durations change in the order in which they come, in little room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log2

MOST_GROUPS = 32
"""Of equal size; two become one where there are so many."""


@dataclass(slots=True)
class Trend:
    """Groups of `size` durations (ns), one after the other: the sum of the logarithms (base 2) of each, so that a few
    that are long do not count for much; and that of those behind, `rest`, which are no whole group yet."""

    size: int = 1
    groups: list[float] = field(default_factory=list)
    rest: float = 0.0
    rest_count: int = 0

    @property
    def count(self) -> int:
        """How many durations there were."""
        return self.size * len(self.groups) + self.rest_count

    def add(self, durations: Iterable[int]) -> None:
        """The next ones."""
        rest, count = self.rest, self.rest_count
        for duration in durations:
            rest += log2(duration) if duration > 1 else 0.0
            count += 1
            if count == self.size:
                self.groups.append(rest)
                rest, count = 0.0, 0
                if len(self.groups) == MOST_GROUPS:
                    self.groups = [one + other for one, other in zip(self.groups[::2], self.groups[1::2], strict=True)]
                    self.size *= 2
        self.rest, self.rest_count = rest, count

    def typical(self) -> list[int]:
        """The geometric mean of each whole group (ns)."""
        return [round(2 ** (total / self.size)) for total in self.groups]
