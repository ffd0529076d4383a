from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from zmtpscope.capture.segments import ORDINALS


class Arrival(NamedTuple):
    """The segment that carried an octet, or the segment with which a result became certain.

    `ordinal` orders the segments of a run of the program, `packet` is a packet reference.
    """

    ordinal: int
    packet: int
    time: int


class Stamp(NamedTuple):
    """Capture time (ns) of a packet, and its reference, which orders equal times."""

    time: int
    packet: int


T = TypeVar("T", bound=tuple[Any, ...])


def tuples_of(kind: type[T], *columns: Iterable[Any]) -> list[T]:
    """Return named tuples of one kind, as `map(kind, *columns)` does, without a call of Python code for each."""
    return [*map(partial(tuple.__new__, kind), zip(*columns, strict=True))]


def stamp(arrival: Arrival) -> Stamp:
    return Stamp(arrival.time, arrival.packet)


def decided_by_time(ordinal: int) -> int:
    """Return the ordinal for results of the passing of time, which precede the segment `ordinal`."""
    return (ordinal - 1) | 1


def is_decided_by_time(ordinal: int) -> bool:
    """Whether the ordinal stands for the passing of time, and not for a segment."""
    return bool(ordinal % ORDINALS)
