"""What came out of order: segments that wait behind a hole, and how long to wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Piece(NamedTuple):
    """So many octets that one segment brought."""

    length: int
    packet: int
    time: int


class Waiting(NamedTuple):
    """Octets behind a hole, all of one segment, or of several that follow one another; `position` is the stream offset
    of the first."""

    position: int
    octets: bytes
    missing: int
    """Octets that follow `octets` and were cut off by the snap length."""
    pieces: list[Piece]
    """Which segments brought them; at least one, which may be without octets."""

    @property
    def stop(self) -> int:
        """Stream offset behind the last of `octets`."""
        return self.position + len(self.octets)


class AckMark(NamedTuple):
    """The other side had acknowledged up to stream offset `position` after `packets` packets, at `time`."""

    position: int
    packets: int
    time: int


def position_of(segment: Waiting) -> int:
    return segment.position


@dataclass(slots=True, eq=False)
class Hole:
    """Octets that the capture lost, in front of piece number `at` of the side's pieces."""

    at: int
    octets: int
    reason: str
    packet: int
    time: int
    ordinal: int
    decided: int
    """When it was given up, by the clock of the connection."""


class OutOfOrder:
    """What a side needs from its first hole on: the segments behind it, and how long to wait for it."""

    __slots__ = ("acknowledged_long", "clock", "declared", "marks", "octets", "packets", "segments", "waiting")

    def __init__(self) -> None:
        self.waiting: list[Waiting] = []
        """What is behind the hole, by position; entries never overlap."""
        self.octets = self.segments = 0
        """How many octets these are, and how many pieces of segments."""
        self.packets = 0
        """Packets of the connection while segments waited."""
        self.clock: int | None = None
        """The largest time of the packets of the connection since segments began to wait (ns)."""
        self.marks: list[AckMark] = []
        """How far the other side had acknowledged, packet by packet, for as long as a hole may still be filled."""
        self.acknowledged_long = 0
        """Stream offset up to which it had acknowledged when that time was over."""
        self.declared: list[tuple[int, int]] = []
        """The last holes that were given up: stream offsets."""


def differing(one: bytes, other: bytes) -> int:
    """How many octets of two copies differ."""
    if one == other:
        return 0
    return int(np.count_nonzero(np.frombuffer(one, np.uint8) != np.frombuffer(other, np.uint8)))


def joined(covering: list[Waiting], begin: int, stop: int) -> list[Waiting]:
    """Entries that follow one another, those within the offsets `begin..stop` as one."""
    inside = [each for each in covering if each.position >= begin and each.stop <= stop]
    if len(inside) < 2:
        return covering
    pieces = [piece for each in inside for piece in each.pieces if piece.length]
    octets = b"".join([each.octets for each in inside])
    one = Waiting(inside[0].position, octets, inside[-1].missing, pieces)
    first = covering.index(inside[0])
    return [*covering[:first], one, *covering[first + len(inside) :]]


def entries(pieces: list[int], holes: list[Hole]) -> Iterator[list[int] | Hole]:
    """Pieces and holes of one side in stream order, pieces in runs as long as can be."""
    done = 0
    for hole in holes:
        if hole.at > done:
            yield pieces[done : hole.at]
            done = hole.at
        yield hole
    if done < len(pieces):
        yield pieces[done:]
