from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.zmtp.reader import Finding


class MustBeSilent(NamedTuple):
    """A side must not send any more after `time`: the id of the finding if it does, and the reason."""

    id: str
    ordinal: int
    time: int
    reason: str


class Fault(NamedTuple):
    """An error of a side: when it arrived, the finding, and the identity of its record."""

    arrival: Arrival
    finding: Finding
    reference: str


class SideState:
    """The state of one side, for findings that compare both sides."""

    greeting: TimedEvent | None = None
    step: TimedEvent | None = None
    refused: int | None = None
    """Ordinal of the first ERROR."""
    subject: str | None = None
    """The side's credentials, as the subject of a sentence."""
    awaited: int | None = None
    """Ordinal of the first NULL READY, until octets follow it."""
    behind_ready: Arrival | None = None
    """First segment with octets after that READY."""
    must_be_silent: MustBeSilent | None = None
    has_spoken_noted: bool = False
    type_event: TimedEvent | None = None

    def early_traffic(self, version: str | None) -> Arrival | None:
        """Return the segment with messages or other traffic directly after READY in 3.1, or None.

        ERROR is no traffic.
        """
        if self.step is None or self.step.event.fields["name"] != "READY" or version != "3.1":
            return None
        return self.behind_ready
