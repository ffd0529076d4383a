"""Outages: times during which a side sent the same octets or keepalive probes again and again without an answer.

See RFC 9293, 3.8.1 and 3.8.4. `retransmissions.py` detects outages.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival

ACKNOWLEDGED = "acknowledged"
"""An end of an outage, besides the ends of stalls (`until` of its record)."""


class Repeat(NamedTuple):
    """A segment that was sent again although its octets had been acknowledged.

    `sequence` is its sequence number, `next` the next one of its side.
    """

    at: Arrival
    sequence: int
    next: int
    length: int


class Unanswered:
    """Octets or keepalive probes that a side sends again, while the other side has not acknowledged them.

    With `acknowledged_before` they had been acknowledged; `position` and `edge` are then after the octets.
    """

    __slots__ = (
        "acknowledged_before",
        "answers",
        "begin",
        "edge",
        "largest",
        "position",
        "probes",
        "retransmissions",
        "smallest",
        "unreachable",
    )

    def __init__(self, begin: Arrival, position: int, edge: int) -> None:
        self.begin = begin
        """First packet that was sent again."""
        self.position = position
        """Stream offset of the first unacknowledged octet."""
        self.edge = edge
        """Sequence number of that octet."""
        self.acknowledged_before = False
        self.retransmissions = self.probes = 0
        self.smallest = self.largest = 0
        """Smallest and largest size of the retransmitted segments, in octets."""
        self.answers = 0
        """Packets that the other side sent since `begin`."""
        self.unreachable: int | None = None
        """Reason why they were not delivered, by the last ICMP message (see `UNREACHABLE`)."""


class Outage(NamedTuple):
    """One outage, or `intervals` combined ones.

    Of combined outages, counts and `duration` are sums; `until` and `end` belong to the last. Times are packet times
    (ns); `decided` is the ordinal of the segment that ended the outage. With `acknowledged_before`, the octets were
    sent again after their acknowledgment.
    """

    begin: Arrival
    position: int
    duration: int
    until: str
    end: int
    retransmissions: int
    probes: int
    smallest: int
    largest: int
    answers: int
    decided: int
    longest: int
    intervals: int = 1
    unreachable: int | None = None
    acknowledged_before: bool = False

    def joined(self, later: Outage) -> Outage:
        return later._replace(
            begin=self.begin,
            position=self.position,
            duration=self.duration + later.duration,
            retransmissions=self.retransmissions + later.retransmissions,
            probes=self.probes + later.probes,
            smallest=min(self.smallest, later.smallest),
            largest=max(self.largest, later.largest),
            answers=self.answers + later.answers,
            longest=max(self.longest, later.longest),
            intervals=self.intervals + later.intervals,
        )
