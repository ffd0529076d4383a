"""What one side said and when: what the findings about both sides are made of."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.zmtp.events import Command, Greeting


class TimedEvent(NamedTuple):
    """Something one side said. `arrival` has packet and time of its first octet, and the ordinal of the segment that
    made it decidable."""

    arrival: Arrival
    side: int
    event: Greeting | Command
    certain: bool
    """The stream was read without a break up to here."""

    @property
    def source(self) -> int:
        """Which octets its offsets count in."""
        return self.event.regime.source

    @property
    def record(self) -> str:
        """The type of its record."""
        return type(self.event).__name__.lower()


def order(timed: TimedEvent) -> tuple[int, int, int]:
    """The order of capture."""
    return timed.arrival.ordinal, timed.side, timed.event.start
