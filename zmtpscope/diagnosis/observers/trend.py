"""Trends of durations, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import log2

MAX_GROUPS = 32
"""Maximum number of groups of equal size. Above it, groups are merged in pairs."""


@dataclass(slots=True)
class Trend:
    """Durations (ns) in groups of `size` successive ones. Each group is a sum of logarithms (base 2), so that a few
    long durations count little.

    `rest` is the sum of the last, incomplete group.
    """

    size: int = 1
    groups: list[float] = field(default_factory=list)
    rest: float = 0.0
    rest_count: int = 0

    @property
    def count(self) -> int:
        """The number of durations."""
        return self.size * len(self.groups) + self.rest_count

    def add(self, durations: Iterable[int]) -> None:
        """Add the next durations."""
        rest, count = self.rest, self.rest_count
        for duration in durations:
            rest += log2(duration) if duration > 1 else 0.0
            count += 1
            if count == self.size:
                self.groups.append(rest)
                rest, count = 0.0, 0
                if len(self.groups) == MAX_GROUPS:
                    self.groups = [one + other for one, other in zip(self.groups[::2], self.groups[1::2], strict=True)]
                    self.size *= 2
        self.rest, self.rest_count = rest, count

    def typical(self) -> list[int]:
        """Return the geometric mean of each complete group (ns)."""
        return [round(2 ** (total / self.size)) for total in self.groups]
