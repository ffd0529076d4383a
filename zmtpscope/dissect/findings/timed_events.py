from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.zmtp.events import Command, Greeting


class TimedEvent(NamedTuple):
    """A greeting or command of one side, with the time of its arrival.

    `arrival` has packet and time of its first octet, and the ordinal of the segment that completed it.
    """

    arrival: Arrival
    side: int
    event: Greeting | Command
    certain: bool
    """Whether the stream was read without a break up to here."""

    @property
    def source(self) -> int:
        return self.event.regime.source

    @property
    def record(self) -> str:
        return type(self.event).__name__.lower()


def order(timed: TimedEvent) -> tuple[int, int, int]:
    """Return a sort key for capture order."""
    return timed.arrival.ordinal, timed.side, timed.event.start
