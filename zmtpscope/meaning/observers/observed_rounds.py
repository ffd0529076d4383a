"""What is remembered of messages that one proxy sends to another again and again."""

from __future__ import annotations

from dataclasses import dataclass, field

from zmtpscope.meaning.moments import Moment

MOST_TIMES = 8
"""How often it has to come."""


@dataclass(slots=True, eq=False)
class ObservedRound:
    """A message that came several times on one connection, octet by octet the same."""

    first: Moment
    last_ns: int
    count: int = 0
    times: list[int] = field(default_factory=list)
    """When it came (ns), the first times."""

    def come(self, ns: int) -> None:
        """It came, once more."""
        self.count += 1
        self.last_ns = ns
        if len(self.times) < MOST_TIMES:
            self.times.append(ns)
