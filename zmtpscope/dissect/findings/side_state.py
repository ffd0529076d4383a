"""What is known of one side of a connection, for findings that compare it with the other."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.zmtp.reader import Finding


class MustBeSilent(NamedTuple):
    """What a side did when it went on behind something that it had to close on, and when that came."""

    id: str
    ordinal: int
    time: int
    reason: str


class Fault(NamedTuple):
    """An error in what a side sent: when, what, and the identity of the record it is about."""

    arrival: Arrival
    finding: Finding
    reference: str


class SideState:
    """What is known of one side so far."""

    greeting: TimedEvent | None = None
    step: TimedEvent | None = None
    """Its last handshake command."""
    refused: int | None = None
    """The ordinal of its first ERROR."""
    subject: str | None = None
    """What it wants to be let in by, for a sentence."""
    awaited: int | None = None
    """The ordinal of its first READY of NULL, where nothing had come behind that when it was read, ..."""
    behind_ready: Arrival | None = None
    """... and the first segment with octets behind it."""
    must_be_silent: MustBeSilent | None = None
    has_spoken_noted: bool = False
    type_event: TimedEvent | None = None

    def early_traffic(self, version: str | None) -> Arrival | None:
        """What the side sent behind its READY, where it was traffic, on 3.1: ERROR is none."""
        if self.step is None or self.step.event.fields["name"] != "READY" or version != "3.1":
            return None
        return self.behind_ready
