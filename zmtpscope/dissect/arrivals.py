from __future__ import annotations

from typing import NamedTuple

from zmtpscope.capture.segments import ORDINALS


class Arrival(NamedTuple):
    """The segment that carried an octet, or that made something certain.

    `ordinal` orders the segments of a run, `packet` is a packet reference.
    """

    ordinal: int
    packet: int
    time: int


class Stamp(NamedTuple):
    """Capture time (ns) of a packet, and its reference, which orders equal times."""

    time: int
    packet: int


def stamp(arrival: Arrival) -> Stamp:
    return Stamp(arrival.time, arrival.packet)


def decided_by_time(ordinal: int) -> int:
    """Return the ordinal for results of the passing of time, which precede the segment `ordinal`."""
    return (ordinal - 1) | 1


def is_decided_by_time(ordinal: int) -> bool:
    """Whether the ordinal stands for the passing of time, and not for a segment."""
    return bool(ordinal % ORDINALS)
