"""Outages: times during which a side sent the same octets or keepalive probes again and again without an answer.

See RFC 9293, 3.8.1 and 3.8.4. This module holds the state; `retransmissions.py` detects outages.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival

ACKNOWLEDGED = "acknowledged"
"""How an outage ended, in addition to the values for stalls: the field `until` of its record."""


class Unanswered:
    """Octets that a side sent again, or its keepalive probes, while the other side has not acknowledged them."""

    __slots__ = (
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
        """Stream offset of the first octet without an acknowledgment."""
        self.edge = edge
        """Sequence number of that octet."""
        self.retransmissions = self.probes = 0
        self.smallest = self.largest = 0
        """Smallest and largest size of the retransmitted segments."""
        self.answers = 0
        """Number of packets that the other side sent meanwhile."""
        self.unreachable: int | None = None
        """Why a host or router did not deliver them, by its last ICMP message (see `UNREACHABLE`)."""


class Outage(NamedTuple):
    """One outage, or `stretches` of them joined: counts and `duration` are sums, `longest` is the longest one, `until`
    and `end` belong to the last.

    Times are packet times (ns); `decided` is the ordinal of the segment that ended the outage.
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
    stretches: int = 1
    unreachable: int | None = None

    def joined(self, later: Outage) -> Outage:
        """Return this outage joined with a later one."""
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
            stretches=self.stretches + later.stretches,
        )
