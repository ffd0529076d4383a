"""TCP reassembly: turn the segments of one side into pieces of its octet stream, and holes.

The first copy of an octet is used. Octets delivered before count as `repeated`. Octets behind a hole are compared with
later copies, and differing ones count as `conflicting`. decisions/analyser.md ("Waiting is bounded") defines when a
hole is declared; octets for a declared hole are `late`, and never decoded.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

import numpy as np

from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.out_of_order import AckMark, Hole, OutOfOrder, Piece, Waiting, differing, joined, position_of
from zmtpscope.dissect.tcp.sequence import MODULUS, distance

HOLE_PACKETS = 64
"""Packets of a connection after which a hole that the other side has acknowledged is declared."""
HOLE_TIME = 1_000_000_000
"""Nanoseconds, by the connection's clock, after which such a hole is declared."""
SIDE_OCTETS, SIDE_SEGMENTS = 8 << 20, 8192
"""Maximum octets, and segments, that wait after one hole."""
ALL_OCTETS = 64 << 20
"""Waiting after all holes of a run. When exceeded, the hole that has waited longest is declared."""
REMEMBERED_HOLES = 64
"""Declared holes per side, to distinguish late octets from repeated ones."""

SNAP_LENGTH = "snap length"
ACKNOWLEDGED, NEVER_ACKNOWLEDGED = "acknowledged by the receiver", "not acknowledged by the receiver up to the end"


class WaitingOctets:
    """The number of waiting octets of all sides in a run, to limit their sum."""

    def __init__(self) -> None:
        self.total = 0
        self.sides: dict[TcpSide, None] = {}
        """Sides with waiting segments, the longest waiting first."""


class Reassembler:
    """Reassembles all segments except the next one in order (the slow path), and appends pieces to sides.

    Octets that the block does not contain as needed (trimmed overlaps, octets that waited) become extra rows.
    """

    def __init__(self) -> None:
        self.waiting = WaitingOctets()
        self.captured = b""
        self.extra = bytearray()
        self.first_ordinal = 0
        self.plain_rows = 0
        self.starts, self.stops, self.packets, self.times = (array("q") for _ in range(4))
        self.cut: dict[int, int] = {}
        self.hops: dict[int, int] = {}
        self.origins: list[int] = []
        self.touched: dict[TcpSide, None] = {}
        """Sides that received octets, holes or an end in this block, in order of first touch."""

    def begin(self, block: SegmentBlock) -> None:
        """Start a block of packets.

        A piece of a stream is an index of a segment in the block, or a higher index for octets that are not in the
        block.
        """
        self._begin(block.data, block.cut)
        self.hops = block.hops
        self.first_ordinal = block.ordinal
        self.plain_rows = len(block)
        columns = (block.starts, block.stops, block.packets, block.times)
        self.starts, self.stops, self.packets, self.times = (array("q", column.tobytes()) for column in columns)

    def begin_end(self, time: int) -> None:
        """Start the end of the capture at `time` (ns), after the last block."""
        self._begin(b"", {})
        self.first_ordinal = self.next_ordinal
        self.plain_rows = 1
        self.starts, self.stops, self.packets, self.times = (array("q", (each,)) for each in (0, 0, 0, time))

    def begin_tick(self) -> int:
        """Start results of the passing of time, after the last block; return their ordinal."""
        self.end_block()
        return self.first_ordinal - 1

    def end_block(self) -> None:
        self.first_ordinal = self.next_ordinal
        self.plain_rows = 0
        self.starts, self.stops, self.packets, self.times = (array("q") for _ in range(4))
        self._begin(b"", {})
        self.hops = {}

    @property
    def next_ordinal(self) -> int:
        """The ordinal of the first segment after the last block."""
        return self.first_ordinal + ORDINALS * self.plain_rows

    def _begin(self, captured: bytes, cut: dict[int, int]) -> None:
        self.captured, self.cut = captured, cut
        self.extra, self.origins, self.touched = bytearray(), [], {}

    def ordinals(self) -> array[int]:
        """Return for each row the ordinal of the segment that made it part of its stream."""
        plain = self.first_ordinal + ORDINALS * np.arange(self.plain_rows, dtype=np.int64)
        return array("q", plain.tobytes()) + array("q", self.origins)

    def data(self) -> bytes:
        """Return the captured octets of the block, followed by the octets of extra rows."""
        return self.captured + bytes(self.extra) if self.extra else self.captured

    def _row(self, start: int, stop: int, packet: int, time: int, ordinal: int) -> int:
        for column, value in zip(
            (self.starts, self.stops, self.packets, self.times), (start, stop, packet, time), strict=True
        ):
            column.append(value)
        self.origins.append(ordinal)
        return len(self.starts) - 1

    def segment(self, side: TcpSide, index: int, sequence: int, at: Arrival) -> None:
        """Read the payload of a segment at any position of the stream.

        `index` is that of the segment in the block, `sequence` its sequence number.
        """
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
        """Count `length` octets from stream offset `position` on, which were delivered before.

        They count as late if they belong to a declared hole, otherwise as repeated.
        """
        stop = position + length
        declared = side.out_of_order.declared if side.out_of_order is not None else ()
        late = sum(max(0, min(end, stop) - max(begin, position)) for begin, end in declared if end > position)
        if position < 0:  # before the first octet of a stream without a captured start
            late += min(length, -position)
        side.late += late
        side.repeated += length - late

    def _deliver(self, side: TcpSide, row: int, length: int) -> None:
        side.pieces.append(row)
        self.touched[side] = None
        side.next = (side.next + length) % MODULUS
        side.delivered += length

    def _hole(self, side: TcpSide, octets: int, reason: str, shown: Piece, decided: int, ordinal: int) -> None:
        side.holes.append(Hole(len(side.pieces), octets, reason, shown.packet, shown.time, ordinal, decided))
        side.out_of_order = side.out_of_order or OutOfOrder()
        side.out_of_order.declared.append((side.delivered, side.delivered + octets))
        del side.out_of_order.declared[:-REMEMBERED_HOLES]
        self.touched[side] = None
        side.next = (side.next + octets) % MODULUS
        side.delivered += octets

    def _wait(self, side: TcpSide, position: int, octets: bytes, missing: int, at: Arrival) -> None:
        """Store the new octets of a segment after a hole, from stream offset `position` on.

        `missing` octets after them were not captured. The range becomes one entry, so the next copy costs one
        comparison instead of one per waiting segment.
        """
        out_of_order = side.out_of_order = side.out_of_order or OutOfOrder()
        waiting = out_of_order.waiting
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
        self._replace(out_of_order, first, place, joined(covering, begin, stop))
        if waiting:
            self.waiting.sides.setdefault(side)

    @staticmethod
    def _place_of(waiting: list[Waiting], position: int) -> int:
        """Return the index of the first waiting entry that ends after stream offset `position`."""
        place = bisect_right(waiting, position, key=position_of)
        return place - 1 if place and waiting[place - 1].stop > position else place

    def _replace(self, out_of_order: OutOfOrder, first: int, last: int, fresh: list[Waiting]) -> None:
        old = out_of_order.waiting[first:last]
        if fresh != old:
            gained = sum(len(each.octets) for each in fresh) - sum(len(each.octets) for each in old)
            out_of_order.octets += gained
            self.waiting.total += gained
            out_of_order.segments += sum(len(each.pieces) for each in fresh) - sum(len(each.pieces) for each in old)
            out_of_order.waiting[first:last] = fresh

    def _drain(self, side: TcpSide, decided: int, ordinal: int) -> None:
        """Deliver the waiting octets that are next in order now.

        `decided` and `ordinal` are time and ordinal of the segment that makes them next.
        """
        out_of_order = side.out_of_order
        if out_of_order is None:
            return
        waiting = out_of_order.waiting
        count = 0
        while count < len(waiting) and waiting[count].position <= side.delivered:
            segment = waiting[count]
            count += 1
            out_of_order.octets -= len(segment.octets)
            out_of_order.segments -= len(segment.pieces)
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
            out_of_order.marks.clear()
            out_of_order.clock = None

    def wait_for_end(self, side: TcpSide, at: Arrival) -> None:
        """Wait for octets before a FIN, as for any hole; `at` is the FIN."""
        assert side.finish is not None
        end = Waiting(side.finish, b"", 0, [Piece(0, at.packet, at.time)])
        side.out_of_order = side.out_of_order or OutOfOrder()
        place = bisect_right(side.out_of_order.waiting, side.finish, key=position_of)
        self._replace(side.out_of_order, place, place, [end])
        self.waiting.sides.setdefault(side)

    def declare(self, side: TcpSide, reason: str, decided: int, ordinal: int) -> None:
        """Give up the octets before the first waiting segment, for this `reason`.

        `decided` and `ordinal` are time and ordinal of the segment that shows the loss. The hole refers to the first
        packet after it.
        """
        assert side.out_of_order is not None
        first = side.out_of_order.waiting[0]
        self._hole(side, first.position - side.delivered, reason, first.pieces[0], decided, ordinal)
        self._drain(side, decided, ordinal)

    def advance_clock(self, side: TcpSide, now: int, ordinal: int) -> None:
        """Give up holes after their time limit: no packet of the connection arrived until `now` (ns).

        `ordinal` is the segment that shows this.
        """
        if side.out_of_order is None:
            return
        waiting, marks = side.out_of_order.waiting, side.out_of_order.marks
        while waiting and marks and now - marks[0].time >= HOLE_TIME:
            mark = marks.pop(0)
            acknowledged = max(side.out_of_order.acknowledged_long, mark.position)
            side.out_of_order.acknowledged_long = acknowledged
            while waiting and acknowledged > side.delivered:
                self.declare(side, ACKNOWLEDGED, mark.time + HOLE_TIME, ordinal)

    def apply_limits(self, side: TcpSide, peer: TcpSide, at: Arrival) -> None:
        """Give up holes of `side` that exceed the limits for waiting, after the packet `at` of `peer`."""
        out_of_order = side.out_of_order
        if out_of_order is None or not out_of_order.waiting:
            return
        marks = out_of_order.marks
        now = out_of_order.clock = at.time if out_of_order.clock is None else max(out_of_order.clock, at.time)
        out_of_order.packets += 1
        acknowledged = side.delivered + distance(peer.acknowledged, side.next) if peer.acknowledged >= 0 else 0
        if not marks or acknowledged > marks[-1].position:
            marks.append(AckMark(acknowledged, out_of_order.packets, now))
        while out_of_order.packets - marks[0].packets >= HOLE_PACKETS or now - marks[0].time >= HOLE_TIME:
            out_of_order.acknowledged_long = max(out_of_order.acknowledged_long, marks[0].position)
            del marks[0]
            if not marks:
                break
        if out_of_order.octets > SIDE_OCTETS or out_of_order.segments > SIDE_SEGMENTS:
            self.declare(side, "limit of waiting octets", at.time, at.ordinal)
        while out_of_order.waiting and out_of_order.acknowledged_long > side.delivered:
            self.declare(side, ACKNOWLEDGED, at.time, at.ordinal)

    def apply_limit_of_all(self, at: Arrival) -> None:
        """Give up holes if the waiting octets of all sides in the run exceed their limit."""
        while self.waiting.total > ALL_OCTETS:
            self.declare(next(iter(self.waiting.sides)), "limit of all waiting octets", at.time, at.ordinal)

    def give_up(self, side: TcpSide, peer: TcpSide, at: Arrival) -> None:
        """Give up all holes of a side that has ended, and deliver the octets after them."""
        while side.waits:
            reason = "end of the connection"
            if peer.acknowledged >= 0:
                reason = ACKNOWLEDGED if distance(peer.acknowledged, side.next) > 0 else NEVER_ACKNOWLEDGED
            self.declare(side, reason, at.time, at.ordinal)
