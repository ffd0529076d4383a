"""The packet that brought an octet, or decided something, and when."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.capture.segments import ORDINALS


class Arrival(NamedTuple):
    """The segment that carried an octet: `ordinal` orders segments over the run, `packet` names the packet."""

    ordinal: int
    packet: int
    time: int


class Stamp(NamedTuple):
    """When a packet was captured (ns), and its reference, which decides between equal times."""

    time: int
    packet: int


def stamp(arrival: Arrival) -> Stamp:
    """The packet of a segment."""
    return Stamp(arrival.time, arrival.packet)


def decided_by_time(ordinal: int) -> int:
    """The ordinal of what time alone decided in front of the segment `ordinal`."""
    return (ordinal - 1) | 1


def is_decided_by_time(ordinal: int) -> bool:
    """Whether this is no segment's."""
    return bool(ordinal % ORDINALS)
