"""Octets that were sent again and again, and that the other side did not acknowledge."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope.meaning.across.knowledge import Knowledge, once
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed import ObservedConnection, ObservedOutage, ObservedSide

LEAST_ATTEMPTS = 2
"""So often something was sent again, or probed, before it is told: one packet may be lost, or captured twice."""


class Outage(NamedTuple):
    """What `sender` sent on a connection was not acknowledged. `since` is the first message of that kind, or the first
    packet that was sent again; `messages` may not have arrived, or `are_more` than that."""

    connection: ObservedConnection
    sender: int
    outage: ObservedOutage
    since: Moment
    messages: int
    are_more: bool

    @property
    def is_over(self) -> bool:
        """Whether it was acknowledged in the end."""
        return self.outage.is_acknowledged is True

    @property
    def fails_by_size(self) -> bool:
        """Whether all that was sent again is larger than any message before, of which some arrived."""
        sizes = self.connection.sides[self.sender].sizes
        return sizes is not None and 0 < sizes.before < self.outage.smallest and self.outage.smallest >= LEAST_MTU


LEAST_MTU = 500
"""Octets of payload; every path takes smaller packets (RFC 791, 3.1: 576 octets with headers)."""


@once
def outages(knowledge: Knowledge) -> list[Outage]:
    """One of each side that had any: the last, if it goes on or ended the connection, else the longest."""
    found = []
    for connection in knowledge.connections:
        if connection.values is None or connection.values["only_side"] is None:
            for number, side in enumerate(connection.sides):
                outage = _told(side)
                if outage is not None:
                    found.append(_outage(connection, number, side, outage))
    return found


def _told(side: ObservedSide) -> ObservedOutage | None:
    some = [each for each in side.outages if each.retransmissions + each.probes >= LEAST_ATTEMPTS]
    if not some:
        return None
    return some[-1] if some[-1].is_acknowledged is False else max(some, key=_duration)


def _duration(outage: ObservedOutage) -> int:
    return outage.duration_ns


def _outage(connection: ObservedConnection, sender: int, side: ObservedSide, outage: ObservedOutage) -> Outage:
    lost = first_lost(side) if outage is side.last_outage else None
    if lost is None:
        return Outage(connection, sender, outage, outage.moment, 0, are_more=False)
    return Outage(connection, sender, outage, *lost)


class Lost(NamedTuple):
    """The first message of a side that was never acknowledged, how many there are from there on, and whether there are
    more that are not remembered."""

    since: Moment
    messages: int
    are_more: bool


def first_lost(side: ObservedSide) -> Lost | None:
    """None where all that a side sent was acknowledged, or is not known not to be."""
    last, outage = side.last_messages, side.last_outage
    if last is None or outage is None:
        return None
    times, packets, ends = last.columns
    rows = np.flatnonzero(ends > outage.offset)
    if not len(rows):
        return None
    since = Moment.of_packet(int(times[rows[0]]), int(packets[rows[0]]), last.files)
    return Lost(since, len(rows), len(rows) == len(times) and not last.are_all)
