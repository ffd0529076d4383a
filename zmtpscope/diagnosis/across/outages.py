"""Octets that were retransmitted without an acknowledgment."""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedOutage, ObservedSide
from zmtpscope.records import SECOND

MIN_ATTEMPTS = 2
"""Retransmissions or probes that make an outage: one packet may be lost, or captured twice."""
MIN_NS = SECOND
"""Shorter outages that still last only excuse the receiver: TCP may recover."""
LONG_NS = 3 * SECOND
"""A single retransmission is enough if the other side is then silent for this long."""


class Outage(NamedTuple):
    """A time during which data of side `sender` was not acknowledged.

    `since` is the first unacknowledged message, or else the first retransmitted packet. `messages` may not have
    arrived, and `are_more`: possibly more. `octets` is the number of unacknowledged octets of the first message, or
    None if unknown. `largest` is the size of the largest earlier message.
    """

    connection: ObservedConnection
    sender: int
    outage: ObservedOutage
    since: Moment
    messages: int
    are_more: bool
    octets: int | None
    largest: int = 0
    """Octets of the largest message before the outage, if all are known, otherwise 0."""

    @property
    def hosts(self) -> tuple[str, str]:
        return self.connection.sides[self.sender].ip, self.connection.sides[1 - self.sender].ip

    @property
    def is_first(self) -> bool:
        """Whether the data is the first of a client on this connection: the listening program may not have accepted it
        yet."""
        return self.outage.offset == 0 and self.sender != self.connection.listener

    @property
    def is_over(self) -> bool:
        """Whether the data was acknowledged in the end."""
        return self.outage.is_acknowledged is True

    @property
    def is_large(self) -> bool:
        """Whether all retransmitted segments are larger than any message that arrived before: the path may drop large
        packets.

        TCP joins small segments when it retransmits, so the first lost message must fill a segment.
        """
        if self.outage.acknowledged_before:
            return False
        sizes, smallest = self.connection.sides[self.sender].sizes, self.outage.smallest
        if self.octets is not None and self.octets < smallest:
            return False
        largest = self.largest or (0 if sizes is None else sizes.before)
        return 0 < largest < smallest and smallest >= MIN_MTU


MIN_MTU = 500
"""Payload in octets that every path carries (RFC 791, 3.1: 576 with headers)."""


@once
def outages(knowledge: Knowledge) -> list[Outage]:
    """Return one outage for each side: the last one if it continues or ended the connection, otherwise the longest."""
    found = []
    for connection in knowledge.connections:
        if connection.values is None or connection.values["only_side"] is None:
            for number, side in enumerate(connection.sides):
                outage = _main_outage(side)
                if outage is not None:
                    found.append(_outage(connection, number, side, outage))
    return found


def _main_outage(side: ObservedSide) -> ObservedOutage | None:
    some = [each for each in side.outages if _is_repeated(each) or _is_cut_off(each)]
    if not some:
        return None
    return some[-1] if some[-1].is_acknowledged is False else max(some, key=attrgetter("duration_ns"))


def _is_repeated(outage: ObservedOutage) -> bool:
    return outage.retransmissions + outage.probes >= MIN_ATTEMPTS and outage.longest_ns >= MIN_NS


def _is_cut_off(outage: ObservedOutage) -> bool:
    """Whether the other side sent nothing after the outage began; a host without a link soon stops retransmitting."""
    return outage.is_acknowledged is False and not outage.answers and outage.duration_ns >= LONG_NS


def _outage(connection: ObservedConnection, sender: int, side: ObservedSide, outage: ObservedOutage) -> Outage:
    lost = first_lost(side) if outage is side.last_outage else None
    if lost is None:
        return Outage(connection, sender, outage, outage.moment, 0, are_more=False, octets=None)
    return Outage(connection, sender, outage, *lost)


class Lost(NamedTuple):
    """Messages that were not acknowledged: the first one (`since`), their number, and whether there may be more.

    `octets` is the number of unacknowledged octets of the first message. `largest` is the size of the largest message
    before them, or 0 if it is unknown.
    """

    since: Moment
    messages: int
    are_more: bool
    octets: int
    largest: int


def first_lost(side: ObservedSide) -> Lost | None:
    """Return the messages that an outage lost, or None if there are none or they are unknown."""
    last, outage = side.last_messages, side.last_outage
    if last is None or outage is None:
        return None
    times, packets, ends = last.columns
    rows = np.flatnonzero(ends > outage.offset)
    if not len(rows):
        return None
    since = Moment.of_packet(int(times[rows[0]]), int(packets[rows[0]]), last.files)
    are_more = len(rows) == len(times) and not last.are_all
    largest = int(np.diff(ends[: rows[0]]).max(initial=0)) if last.are_all else 0
    return Lost(since, len(rows), are_more, int(ends[rows[0]]) - outage.offset, largest)
