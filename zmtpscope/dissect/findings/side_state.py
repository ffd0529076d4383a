"""State of one side of a connection, for findings that compare both sides."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.findings.timed_events import TimedEvent
from zmtpscope.zmtp.reader import Finding


class MustBeSilent(NamedTuple):
    """A side must close: the finding if it sends more, the ordinal and time since when, and the reason."""

    id: str
    ordinal: int
    time: int
    reason: str


class Fault(NamedTuple):
    """An error in the octets of a side: its time, its finding, and the reference of the record."""

    arrival: Arrival
    finding: Finding
    reference: str


class SideState:
    """State of one side so far."""

    greeting: TimedEvent | None = None
    step: TimedEvent | None = None
    """Last handshake command."""
    refused: int | None = None
    """Ordinal of the first ERROR."""
    subject: str | None = None
    """Credentials of the side, as the subject of a sentence."""
    awaited: int | None = None
    """Ordinal of the first NULL READY, while no octet after it has been read."""
    behind_ready: Arrival | None = None
    """First segment with octets after that READY."""
    must_be_silent: MustBeSilent | None = None
    has_spoken_noted: bool = False
    type_event: TimedEvent | None = None

    def early_traffic(self, version: str | None) -> Arrival | None:
        """Return the segment with traffic sent directly after READY in 3.1, if any; ERROR is not traffic."""
        if self.step is None or self.step.event.fields["name"] != "READY" or version != "3.1":
            return None
        return self.behind_ready
