from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """Octets from one segment, with its packet and time."""

    length: int
    packet: int
    time: int


class Waiting(NamedTuple):
    """Octets after a hole, from adjacent segments, that wait until the hole is filled.

    `position` is the stream offset of the first octet; `missing` octets at their end were not captured.
    """

    position: int
    octets: bytes
    missing: int
    """Further octets that the snap length cut off."""
    pieces: list[Piece]
    """The segments of the octets; at least one, possibly without octets."""

    @property
    def stop(self) -> int:
        return self.position + len(self.octets)


class AckMark(NamedTuple):
    """How far the other side had acknowledged: up to stream offset `position`, after `packets` packets, at `time`
    (ns)."""

    position: int
    packets: int
    time: int


def position_of(segment: Waiting) -> int:
    return segment.position


@dataclass(slots=True, eq=False)
class Hole:
    """Octets that the capture lost.

    They are missing before the segment with the index `at` of a side. `ordinal` and `decided` are the segment and the
    time with which the loss became certain.
    """

    at: int
    octets: int
    reason: str
    packet: int
    time: int
    ordinal: int
    decided: int
    """Time of giving up, by the connection's clock."""


class OutOfOrder:
    """The state of a side from its first hole on: waiting segments, and the limits for waiting."""

    __slots__ = ("acknowledged_long", "clock", "declared", "marks", "octets", "packets", "segments", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []
        """Waiting pieces by position; these never overlap."""
        self.octets = self.segments = 0
        """Waiting octets, and their pieces."""
        self.packets = 0
        """Packets of the connection while segments waited."""
        self.clock: int | None = None
        """Largest time of the connection's packets since segments began to wait (ns)."""
        self.marks: list[AckMark] = []
        """Acknowledgments of the other side, packet by packet, while a hole may still be filled."""
        self.acknowledged_long = 0
        """Stream offset acknowledged when the time limit passed."""
        self.declared: list[tuple[int, int]] = []
        """Start and end of the last holes that were given up."""


def differing(one: bytes, other: bytes) -> int:
    """Return how many octets differ between two copies of equal length."""
    if one == other:
        return 0
    return int(np.count_nonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8)))


def joined(covering: list[Waiting], begin: int, stop: int) -> list[Waiting]:
    """Join all waiting entries within the stream offsets `begin..stop` into one."""
    inside = [each for each in covering if each.position >= begin and each.stop <= stop]
    if len(inside) < 2:
        return covering
    pieces = [piece for each in inside for piece in each.pieces if piece.length]
    octets = b"".join([each.octets for each in inside])
    one = Waiting(inside[0].position, octets, inside[-1].missing, pieces)
    first = covering.index(inside[0])
    return [*covering[:first], one, *covering[first + len(inside) :]]


def entries(pieces: list[int], holes: list[Hole]) -> Iterator[list[int] | Hole]:
    """Yield pieces and holes in stream order, with consecutive pieces as one list."""
    done = 0
    for hole in holes:
        if hole.at > done:
            yield pieces[done : hole.at]
            done = hole.at
        yield hole
    if done < len(pieces):
        yield pieces[done:]
