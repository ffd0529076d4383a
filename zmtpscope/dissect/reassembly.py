"""TCP reassembly: the segments of one side become pieces of its octet stream, holes included.

The policy on overlap: the first copy of an octet wins. Octets delivered before are `repeated`; octets that wait behind
a hole are compared with what arrives again, and those that differ are `conflicting`. A hole is declared by the rules of
architecture.md ("Waiting is bounded"); octets that arrive for a declared hole are `late`, and never decoded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zmtpscope.capture.segments import ORDINALS, SegmentBlock

if TYPE_CHECKING:
    from zmtpscope.dissect.arrivals import Arrival
    from zmtpscope.dissect.connection import Connection

HOLE_PACKETS = 64
"""A hole that the other side acknowledged past is declared after this many more packets of the connection ..."""
HOLE_TIME = 1_000_000_000
"""... or this many nanoseconds by the clock of the connection."""
SIDE_OCTETS, SIDE_SEGMENTS = 8 << 20, 8192
"""What may wait behind one hole of one side."""
ALL_OCTETS = 64 << 20
"""What may wait behind all holes of a run; the hole that has waited longest gives way."""
REMEMBERED_HOLES = 64
"""How many declared holes a side remembers to tell late octets from repeated ones."""

SNAP_LENGTH = "snap length"
ACKNOWLEDGED = "acknowledged by the receiver"

MODULUS = 1 << 32
HALF = 1 << 31


def distance(later: int, earlier: int) -> int:
    """`later - earlier` in sequence space (RFC 1982), in -2^31 .. 2^31 - 1."""
    return (later - earlier + HALF) % MODULUS - HALF


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


class Mark(NamedTuple):
    """The other side had acknowledged up to stream offset `position` after `packets` packets, at `time`."""

    position: int
    packets: int
    time: int


def _position(segment: Waiting) -> int:
    return segment.position


@dataclass(slots=True)
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


class Behind:
    """What a side needs from its first hole on: the segments behind it, and what tells how long to wait for it."""

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
        self.marks: list[Mark] = []
        """How far the other side had acknowledged, packet by packet, for as long as a hole may still be filled."""
        self.acknowledged_long = 0
        """Stream offset up to which it had acknowledged when that time was over."""
        self.declared: list[tuple[int, int]] = []
        """The last holes that were given up: stream offsets."""


class WaitingOctets:
    """The waiting octets of all sides of a run, so that their sum stays bounded."""

    def __init__(self) -> None:
        self.total = 0
        self.sides: dict[TcpSide, None] = {}
        """Sides with waiting segments, the one that began to wait first in front."""


class TcpSide:
    """One direction of one TCP connection.

    `next` is the sequence number of the next octet of the stream, `plain` the same number while segments may take the
    plain way (in order, no hole open), else -1. `pieces` are indices into the columns of the current block.
    """

    __slots__ = (
        "acknowledged",
        "begun",
        "behind",
        "captured",
        "conflicting",
        "connection",
        "delivered",
        "ended",
        "fin",
        "finish",
        "holes",
        "initial",
        "key",
        "late",
        "next",
        "number",
        "peer",
        "pieces",
        "plain",
        "repeated",
        "seen",
    )

    def __init__(self, connection: Connection, number: int, key: bytes) -> None:
        self.connection = connection
        self.number = number
        self.key = key
        self.peer: TcpSide = self
        self.plain = -1
        self.next = -1
        self.begun = False
        """The stream is known from its first octet: its SYN was seen, or the other side's acknowledgment of it."""
        self.initial = -1
        """Sequence number of the SYN, -1 where none was seen."""
        self.seen = False
        self.acknowledged = -1
        """The last acknowledgment number that this side sent, -1 before the first."""
        self.pieces: list[int] = []
        self.holes: list[Hole] = []
        self.delivered = 0
        """Stream offset of `next` (octets and holes in front of it)."""
        self.behind: Behind | None = None
        """None while the side never had a hole."""
        self.fin: Arrival | None = None
        """The first segment with a FIN of the side."""
        self.finish: int | None = None
        """Stream offset at which the FIN stands."""
        self.ended = False
        self.captured = self.repeated = self.conflicting = self.late = 0
        """Captured payload octets, and those of them that never reached the stream."""

    @property
    def waits(self) -> bool:
        """Whether segments wait behind a hole."""
        return self.behind is not None and bool(self.behind.waiting)

    def resume_plain(self) -> None:
        """Let the next octets come on the plain way, if this side can say which those are."""
        if self.next >= 0 and self.acknowledged >= 0 and not self.ended:
            self.plain = self.next

    def has_spoken(self) -> bool:
        """Whether octets of this side were captured."""
        return bool(self.delivered or self.pieces) or self.plain not in (-1, self.next)


class Reassembler:
    """The side path: everything but the next segment in order. Appends pieces to sides, and rows to the block for
    octets that do not stand in it as they are needed (trimmed overlaps, octets that waited)."""

    def __init__(self) -> None:
        self.waiting = WaitingOctets()
        self.captured = b""
        self.extra = bytearray()
        self.first_ordinal = 0
        self.plain_rows = 0
        self.starts: list[int] = []
        self.stops: list[int] = []
        self.packets: list[int] = []
        self.times: list[int] = []
        self.cut: dict[int, int] = {}
        self.origins: list[int] = []
        self.touched: dict[Connection, None] = {}
        """Connections that got octets, holes or an end in this block, in order of first touch."""

    def begin(self, block: SegmentBlock) -> None:
        """Start on `block`. Rows are those of the block, and behind them the side path's own."""
        self._begin(block.data, block.cut)
        self.first_ordinal = block.ordinal
        self.plain_rows = len(block)
        columns = (block.starts, block.stops, block.packets, block.times)
        self.starts, self.stops, self.packets, self.times = (column.tolist() for column in columns)

    def begin_end(self, time: int) -> None:
        """Start on what comes behind the last block: one row without octets, at the time at which the capture ends."""
        self._begin(b"", {})
        self.first_ordinal = self.next_ordinal
        self.plain_rows = 1
        self.starts, self.stops, self.packets, self.times = [0], [0], [0], [time]

    def begin_tick(self) -> int:
        """Start on what time alone decides behind the last block: no rows. The ordinal of all of that."""
        self.end_block()
        return self.first_ordinal - 1

    def end_block(self) -> None:
        """The last block was read: nothing of it is needed any more."""
        self.first_ordinal = self.next_ordinal
        self.plain_rows = 0
        self.starts, self.stops, self.packets, self.times = [], [], [], []
        self._begin(b"", {})

    @property
    def next_ordinal(self) -> int:
        """The ordinal of the first segment behind the last block."""
        return self.first_ordinal + ORDINALS * self.plain_rows

    def _begin(self, captured: bytes, cut: dict[int, int]) -> None:
        self.captured, self.cut = captured, cut
        self.extra, self.origins, self.touched = bytearray(), [], {}

    def ordinals(self) -> list[int]:
        """For each row, the ordinal of the segment that made it part of its stream."""
        first = self.first_ordinal
        return [*range(first, first + ORDINALS * self.plain_rows, ORDINALS), *self.origins]

    def data(self) -> bytes:
        """The octets that the rows of the block refer to, the side path's own behind the captured ones."""
        return self.captured + bytes(self.extra) if self.extra else self.captured

    def _row(self, start: int, stop: int, packet: int, time: int, ordinal: int) -> int:
        for column, value in zip(
            (self.starts, self.stops, self.packets, self.times), (start, stop, packet, time), strict=True
        ):
            column.append(value)
        self.origins.append(ordinal)
        return len(self.starts) - 1

    def segment(self, side: TcpSide, index: int, sequence: int, at: Arrival) -> None:
        """Take the payload of entry `index`, which is the segment `at`, whatever its place in the stream."""
        start, stop = self.starts[index], self.stops[index]
        missing = self.cut.get(index, 0)
        side.captured += stop - start
        if side.next < 0 or not (side.begun or side.delivered or side.waits):
            side.next = sequence
        ahead = distance(sequence, side.next)
        if ahead == 0 and not side.waits:
            if start < stop:
                self._deliver(side, index, stop - start)
            if missing:
                self._hole(side, missing, SNAP_LENGTH, Piece(0, at.packet, at.time), at.time, at.ordinal)
            return
        position = side.delivered + ahead
        octets = self.captured[start:stop]
        if ahead < 0:
            known = min(-ahead, len(octets))
            self._account_delivered(side, position, known)
            missing = max(0, missing - max(0, -ahead - len(octets)))
            position, octets = position + known, octets[known:]
            if not octets:
                position = side.delivered
        self._wait(side, position, octets, missing, at)
        self._drain(side, at.time, at.ordinal)

    def _account_delivered(self, side: TcpSide, position: int, length: int) -> None:
        """Count octets that lie in front of `next`: late where they belong to a declared hole, else repeated."""
        stop = position + length
        declared = side.behind.declared if side.behind is not None else ()
        late = sum(max(0, min(end, stop) - max(begin, position)) for begin, end in declared if end > position)
        if position < 0:  # in front of the first octet of a stream whose start was not captured
            late += min(length, -position)
        side.late += late
        side.repeated += length - late

    def _deliver(self, side: TcpSide, row: int, length: int) -> None:
        side.pieces.append(row)
        self.touched[side.connection] = None
        side.next = (side.next + length) % MODULUS
        side.delivered += length

    def _hole(self, side: TcpSide, octets: int, reason: str, shown: Piece, decided: int, ordinal: int) -> None:
        side.holes.append(Hole(len(side.pieces), octets, reason, shown.packet, shown.time, ordinal, decided))
        side.behind = side.behind or Behind()
        side.behind.declared.append((side.delivered, side.delivered + octets))
        del side.behind.declared[:-REMEMBERED_HOLES]
        self.touched[side.connection] = None
        side.next = (side.next + octets) % MODULUS
        side.delivered += octets

    def _wait(self, side: TcpSide, position: int, octets: bytes, missing: int, at: Arrival) -> None:
        """Keep what is new of a segment. What it covers becomes one entry, so that the next copy of it costs one
        comparison and not one for each segment that waits."""
        behind = side.behind = side.behind or Behind()
        waiting = behind.waiting
        place = first = self._place_of(waiting, position)
        begin, stop = position, position + len(octets)
        covering: list[Waiting] = []
        while place < len(waiting) and waiting[place].position < stop:
            held = waiting[place]
            if held.position > position:
                new = octets[position - begin : held.position - begin]
                covering.append(Waiting(position, new, 0, [Piece(len(new), at.packet, at.time)]))
                position = held.position
            shared = min(stop, held.stop)
            known = held.octets[position - held.position : shared - held.position]
            conflicting = differing(known, octets[position - begin : shared - begin])
            side.conflicting += conflicting
            side.repeated += shared - position - conflicting
            covering.append(held)
            position = shared
            place += 1
        end = max(stop, covering[-1].stop) if covering else stop
        cut_end = max([stop + missing, *(held.stop + held.missing for held in covering)])
        if place < len(waiting):
            cut_end = min(cut_end, waiting[place].position)
        missing = max(0, cut_end - end)
        if position < stop or missing > (covering[-1].missing if covering else 0):
            new = octets[position - begin :]
            covering.append(Waiting(end - len(new), new, missing, [Piece(len(new), at.packet, at.time)]))
        self._replace(behind, first, place, joined(covering, begin, stop))
        if waiting:
            self.waiting.sides.setdefault(side)

    @staticmethod
    def _place_of(waiting: list[Waiting], position: int) -> int:
        """Where among the waiting entries stands the first that ends behind `position`."""
        place = bisect_right(waiting, position, key=_position)
        return place - 1 if place and waiting[place - 1].stop > position else place

    def _replace(self, behind: Behind, first: int, last: int, fresh: list[Waiting]) -> None:
        """Put `fresh` in the place of the waiting entries `first..last`."""
        old = behind.waiting[first:last]
        if fresh != old:
            gained = sum(len(each.octets) for each in fresh) - sum(len(each.octets) for each in old)
            behind.octets += gained
            self.waiting.total += gained
            behind.segments += sum(len(each.pieces) for each in fresh) - sum(len(each.pieces) for each in old)
            behind.waiting[first:last] = fresh

    def _drain(self, side: TcpSide, decided: int, ordinal: int) -> None:
        """Deliver what waited and is next now, as the segment `ordinal` tells, at the time `decided`."""
        behind = side.behind
        if behind is None:
            return
        waiting = behind.waiting
        count = 0
        while count < len(waiting) and waiting[count].position <= side.delivered:
            segment = waiting[count]
            count += 1
            behind.octets -= len(segment.octets)
            behind.segments -= len(segment.pieces)
            self.waiting.total -= len(segment.octets)
            stop = len(self.captured) + len(self.extra)
            self.extra += segment.octets
            for length, packet, time in segment.pieces:
                start, stop = stop, stop + length
                if length:
                    self._deliver(side, self._row(start, stop, packet, time, ordinal), length)
            after = waiting[count].position if count < len(waiting) else None
            missing = segment.missing if after is None else min(segment.missing, after - side.delivered)
            if missing > 0:
                self._hole(side, missing, SNAP_LENGTH, segment.pieces[-1], decided, ordinal)
        del waiting[:count]
        if not waiting:
            self.waiting.sides.pop(side, None)
            behind.marks.clear()
            behind.clock = None

    def wait_for_end(self, side: TcpSide, at: Arrival) -> None:
        """A FIN stands behind octets that are not there: wait for them as for any hole."""
        assert side.finish is not None
        end = Waiting(side.finish, b"", 0, [Piece(0, at.packet, at.time)])
        side.behind = side.behind or Behind()
        place = bisect_right(side.behind.waiting, side.finish, key=_position)
        self._replace(side.behind, place, place, [end])
        self.waiting.sides.setdefault(side)

    def declare(self, side: TcpSide, reason: str, decided: int, ordinal: int) -> None:
        """Give up the octets in front of the first waiting segment of `side`, at the time `decided`, as the segment
        `ordinal` tells. The packet that shows the hole is the first one behind it, whatever told that it stays."""
        assert side.behind is not None
        first = side.behind.waiting[0]
        self._hole(side, first.position - side.delivered, reason, first.pieces[0], decided, ordinal)
        self._drain(side, decided, ordinal)

    def pass_time(self, side: TcpSide, now: int, ordinal: int) -> None:
        """Nothing of the connection has come until `now`: give up what has been missing for long enough."""
        behind = side.behind
        while behind is not None and behind.waiting and behind.marks and now - behind.marks[0].time >= HOLE_TIME:
            mark = behind.marks.pop(0)
            behind.acknowledged_long = max(behind.acknowledged_long, mark.position)
            while behind.waiting and behind.acknowledged_long > side.delivered:
                self.declare(side, ACKNOWLEDGED, mark.time + HOLE_TIME, ordinal)

    def weigh(self, side: TcpSide, at: Arrival) -> None:
        """Apply the waiting limits to `side` after the packet `at` of its connection."""
        behind = side.behind
        if behind is None or not behind.waiting:
            return
        marks = behind.marks
        now = behind.clock = at.time if behind.clock is None else max(behind.clock, at.time)
        behind.packets += 1
        acknowledged = (
            side.delivered + distance(side.peer.acknowledged, side.next) if side.peer.acknowledged >= 0 else 0
        )
        if not marks or acknowledged > marks[-1].position:
            marks.append(Mark(acknowledged, behind.packets, now))
        while behind.packets - marks[0].packets >= HOLE_PACKETS or now - marks[0].time >= HOLE_TIME:
            behind.acknowledged_long = max(behind.acknowledged_long, marks[0].position)
            del marks[0]
            if not marks:
                break
        if behind.octets > SIDE_OCTETS or behind.segments > SIDE_SEGMENTS:
            self.declare(side, "limit of waiting octets", at.time, at.ordinal)
        while behind.waiting and behind.acknowledged_long > side.delivered:
            self.declare(side, ACKNOWLEDGED, at.time, at.ordinal)

    def weigh_all(self, at: Arrival) -> None:
        """Apply the limit on all waiting octets of the run."""
        while self.waiting.total > ALL_OCTETS:
            self.declare(next(iter(self.waiting.sides)), "limit of all waiting octets", at.time, at.ordinal)

    def give_up(self, side: TcpSide, at: Arrival) -> None:
        """The side ended: what waits is delivered behind its holes."""
        while side.waits:
            peer = side.peer
            is_acknowledged = peer.acknowledged >= 0 and distance(peer.acknowledged, side.next) > 0
            self.declare(side, ACKNOWLEDGED if is_acknowledged else "end of the connection", at.time, at.ordinal)


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


def reverse(key: bytes) -> bytes:
    """The key of the other direction: addresses and ports swapped."""
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
