"""Facts about messages that one proxy sends to another repeatedly."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.diagnosis.moments import Moment

MAX_TIMES = 8
"""Minimum number of times a message must come."""


@dataclass(slots=True, eq=False)
class ObservedRound:
    """An identical message that came several times on one connection."""

    first: Moment
    last_ns: int
    count: int = 0
    times: list[int] = field(default_factory=list)
    """The first times at which it came (ns)."""

    def come(self, ns: int) -> None:
        """Count another arrival."""
        self.count += 1
        self.last_ns = ns
        if len(self.times) < MAX_TIMES:
            self.times.append(ns)
