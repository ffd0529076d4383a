"""Outages: stretches in which a side sent the same octets again and again, or asked whether the other is there, without
an answer (RFC 9293, 3.8.1 and 3.8.4). What is remembered of them; `retransmissions.py` finds them.
"""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival

ACKNOWLEDGED = "acknowledged"
"""How an outage ended, beside the words for stalls: the field `until` of its record."""


class Unanswered:
    """What a side has sent again and the other one has not acknowledged."""

    __slots__ = ("answers", "begin", "edge", "largest", "position", "probes", "retransmissions", "smallest")

    def __init__(self, begin: Arrival, position: int, edge: int) -> None:
        self.begin = begin
        """The first packet that was sent again."""
        self.position = position
        """Stream offset of the first octet that is not acknowledged."""
        self.edge = edge
        """Its sequence number."""
        self.retransmissions = self.probes = 0
        self.smallest = self.largest = 0
        """Sizes of the segments that were sent again."""
        self.answers = 0
        """Packets of the other side that have come meanwhile."""


class Outage(NamedTuple):
    """One outage, or `stretches` of them as one: counts and `duration` of all, the `longest` of them, `until` and `end`
    of the last. Times are those of packets (ns); `decided` is the ordinal of the segment that ended it."""

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

    def joined(self, later: Outage) -> Outage:
        """This and a later one as one."""
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
