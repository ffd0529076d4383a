"""The packet that carried an octet, or caused a decision, and its time."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.capture.segments import ORDINALS


class Arrival(NamedTuple):
    """The segment that carried an octet: `ordinal` orders segments over the run, `packet` is the packet reference."""

    ordinal: int
    packet: int
    time: int


class Stamp(NamedTuple):
    """Capture time of a packet (ns), and its reference, which orders equal times."""

    time: int
    packet: int


def stamp(arrival: Arrival) -> Stamp:
    """Return the stamp of a segment's packet."""
    return Stamp(arrival.time, arrival.packet)


def decided_by_time(ordinal: int) -> int:
    """Return the ordinal for decisions by time alone before the segment `ordinal`."""
    return (ordinal - 1) | 1


def is_decided_by_time(ordinal: int) -> bool:
    """Whether the ordinal belongs to such a decision and not to a segment."""
    return bool(ordinal % ORDINALS)
