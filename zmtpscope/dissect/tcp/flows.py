"""The flow table: maps each TCP segment to its connection and passes it to the reassembler.

Segments already read by the fast path are skipped. SYN, FIN, RST, holes, retransmissions, truncated packets and closed
windows take the slow path, one call per segment.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from zmtpscope.capture.segments import (
    ACK,
    CLOSED_WINDOW,
    CUT,
    FIN,
    ORDINALS,
    RST,
    SYN,
    UNREACHABLE,
    Column,
    Mask,
    SegmentBlock,
)
from zmtpscope.dissect.arrivals import Arrival, decided_by_time
from zmtpscope.dissect.tcp import closed_windows, retransmissions
from zmtpscope.dissect.tcp.closed_windows import SegmentHeader
from zmtpscope.dissect.tcp.connection import Connection, LastSeen, TcpSide, TcpState, reverse
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.incarnations import Incarnations
from zmtpscope.dissect.tcp.reassembly import Reassembler
from zmtpscope.dissect.tcp.recent import Recent
from zmtpscope.dissect.tcp.sequence import MODULUS, distance
from zmtpscope.dissect.tcp.stalls import Intervals

NOT_PLAIN = SYN | FIN | RST | CUT | CLOSED_WINDOW | UNREACHABLE
MAX_OPEN = 65_536
"""Open connections. When full, the oldest silent connection is evicted, or else the oldest one."""

REMEMBERED_CLOSED = 16_384
"""Directions of closed connections, so that a late acknowledgment opens no new connection."""

REMEMBERED_HOPS = 131_072
"""Directions whose last SYN (its TTL) is remembered."""

NO_ROW = 1 << 62
"""A row behind all others."""

Changes = tuple[Column, Callable[[int, int], None]]
"""Ascending rows in which the fast path opens, or closes, connections, and a function that does so for a range of them
(low, high; high excluded)."""


def change(row: int, make: Callable[[int], None]) -> Changes:
    """Return a single opening or closing of a connection, in `row`; `make` is called with the row."""
    return np.array([row]), lambda low, high: make(row)


class PendingChanges:
    """All openings, or all closings, of connections that the fast path reads in a block.

    They are made in order of rows.
    """

    def __init__(self, changes: Sequence[Changes]) -> None:
        rows = np.concatenate([np.empty(0, np.int64), *(rows for rows, _ in changes)])
        sizes = [len(rows) for rows, _ in changes]
        order = np.argsort(rows, kind="stable")
        self._rows: list[int] = rows[order].tolist()
        self._makers = np.repeat(np.arange(len(changes)), sizes)[order]
        self._numbers = np.concatenate([np.empty(0, np.int64), *map(np.arange, sizes)])[order]
        self._ends: list[int] = [*(np.flatnonzero(np.diff(self._makers)) + 1).tolist(), len(rows)]
        """Ends of the runs of one maker."""
        self._make = [make for _, make in changes]
        self._done = 0
        self.next_row = self._rows[0] if self._rows else NO_ROW
        """The row of the next change."""

    def make_until(self, row: int) -> None:
        """Open or close the connections for the rows before `row`."""
        high = bisect_left(self._rows, row, self._done)
        while self._done < high:
            end = min(high, self._ends[bisect_right(self._ends, self._done)])
            low, count = int(self._numbers[self._done]), end - self._done
            self._make[self._makers[self._done]](low, low + count)
            self._done = end
        self.next_row = self._rows[high] if high < len(self._rows) else NO_ROW


class Flows:
    """The open TCP connections, by the flow key of each direction."""

    def __init__(self) -> None:
        self.opened = 0
        self.most_open = MAX_OPEN
        self.sides: dict[bytes, TcpSide] = {}
        self.connections: dict[TcpSide, Connection] = {}
        self.ended: list[TcpSide] = []
        """Sides of connections that ended in the current block."""
        self.silent: OrderedDict[Connection, None] = OrderedDict()
        """Open connections without octets at the last check, oldest first."""
        self.closed: Recent[bytes, LastSeen] = Recent(REMEMBERED_CLOSED)
        """Last packet of closed connections by flow key."""
        self.late = 0
        """Payload octets received for closed connections."""
        self.hops: Recent[bytes, int] = Recent(REMEMBERED_HOPS)
        """TTL of the last SYN of each direction before the current block."""
        self.hops_here: dict[bytes, list[tuple[int, int]]] | None = None
        """Row and TTL of each SYN in the block, made for its first RST."""
        self.block: SegmentBlock | None = None
        self.incarnations = Incarnations()
        self.reassembler = Reassembler()
        self.directions: Directions | None = None

    def feed(
        self,
        block: SegmentBlock,
        directions: Directions | None,
        done: Mask,
        opening: Sequence[Changes] = (),
        closing: Sequence[Changes] = (),
    ) -> list[Connection]:
        """Feed the segments of `block` to their connections; return these connections, in order of first segment.

        Directions marked in `done` have been read by the fast path; `opening` and `closing` open and close their
        connections at the right rows.
        """
        self.reassembler.begin(block)
        if directions is not None:
            self.block, self.directions = block, directions
            self._take_rows(block, ~done, PendingChanges(opening), PendingChanges(closing))
            self._note_last_packets(block, directions, done)
            keys, _, hops = self._syns(block)
            self.hops.update(zip(keys, hops, strict=True))
            self.block = self.directions = self.hops_here = None
        return self._touched()

    def begin(self, key: bytes, row: int, initial: int) -> Connection:
        """Open a connection that the fast path reads. Its SYN is in `row` and has the sequence number `initial`."""
        side = self._open(key, SYN, row)
        side.initial = initial
        connection = self.connections[side]
        connection.opened_by = 0
        return connection

    def end(self, connection: Connection, row: int, states: tuple[TcpState, TcpState]) -> None:
        """Close a connection that the fast path has read: both sides sent FIN, the second one in `row`.

        `states` are final.
        """
        connection.finish(states)
        self._close_at(connection, self.arrival(row), "fin")
        del self.reassembler.touched[connection.tcp[0]]

    def last_seen(self, key: bytes) -> LastSeen | None:
        """Return the last packet of the connection, open or closed, with this flow key; None if it is unknown."""
        side = self.sides.get(key)
        if side is None:
            return self.closed.get(key)
        connection = self.connections[side]
        return LastSeen(connection.last.time, connection.tcp[0].initial)

    def pass_by(self, ones: Sequence[bytes], others: Sequence[bytes], starts: Sequence[int]) -> list[tuple[int, int]]:
        """Return numbers and incarnations of connections that begin and end in the current block, in order of their
        SYNs.

        `ones` and `others` are the keys of their directions, `starts` the times of their SYNs.
        """
        first, self.opened = self.opened + 1, self.opened + len(ones)
        self.closed.remove([*ones, *others])
        return [*zip(range(first, self.opened + 1), self.incarnations.begin_all(ones, starts), strict=True)]

    def remember_closed(self, keys: Sequence[tuple[bytes, bytes]], last_seen: Sequence[LastSeen]) -> None:
        """Store the flow keys of closed connections, so that their late packets open no new ones."""
        both = zip(last_seen, last_seen, strict=True)
        self.closed.update(zip(chain.from_iterable(keys), chain.from_iterable(both), strict=True))

    def _syns(self, block: SegmentBlock) -> tuple[list[bytes], list[int], list[int]]:
        """Return keys, rows and TTLs of the SYNs in the block."""
        rows, hops = (np.fromiter(each, np.int64, len(block.hops)) for each in (block.hops, block.hops.values()))
        is_syn = block.flags[rows] & SYN != 0
        keys = map(block.keys.__getitem__, block.flows[rows[is_syn]].tolist())
        return list(keys), rows[is_syn].tolist(), hops[is_syn].tolist()

    def _hops_of_syn(self, key: bytes, row: int) -> int | None:
        """Return the TTL of the last SYN before `row`."""
        if self.hops_here is None:
            assert self.block is not None
            self.hops_here = {}
            for each, place, hops in zip(*self._syns(self.block), strict=True):
                self.hops_here.setdefault(each, []).append((place, hops))
        before = [hops for place, hops in self.hops_here.get(key, ()) if place < row]
        return before[-1] if before else self.hops.get(key)

    @property
    def is_crowded(self) -> bool:
        return len(self.sides) > self.most_open

    def is_full(self, block: SegmentBlock) -> bool:
        """Whether a block may exceed the number of open connections, so that one is evicted."""
        return len(self.sides) + 2 * len(block.keys) > 2 * self.most_open

    def _touched(self) -> list[Connection]:
        """Return the connections with segments in this block, and forget the ended ones."""
        touched = list(dict.fromkeys([self.connections[side] for side in self.reassembler.touched]))
        for side in self.ended:
            del self.connections[side]
        self.ended.clear()
        return touched

    def _peer(self, side: TcpSide) -> TcpSide:
        return self.connections[side].tcp[1 - side.number]

    def _note_last_packets(self, block: SegmentBlock, directions: Directions, done: Mask) -> None:
        for direction in (~done).nonzero()[0].tolist():
            side = self.sides.get(block.keys[direction])
            if side is not None:
                connection = self.connections[side]
                connection.last = max(connection.last, self.arrival(directions.last_row[direction]))

    def _take_rows(self, block: SegmentBlock, left: Mask, opening: PendingChanges, closing: PendingChanges) -> None:
        """Feed the rows of the directions marked in `left` one by one; make the openings and closings between them."""
        rows = left[block.flows].nonzero()[0]
        columns = (block.flows, block.sequences, block.acknowledgments, block.flags)
        reassembler, keys, touched = self.reassembler, block.keys, self.reassembler.touched
        starts, stops, look_up = reassembler.starts, reassembler.stops, self.sides.get
        for index, flow, sequence, acknowledgment, flags in zip(
            rows.tolist(), *(column[rows].tolist() for column in columns), strict=True
        ):
            if opening.next_row < index:
                opening.make_until(index)
            if closing.next_row < index:
                closing.make_until(index)
            key, length = keys[flow], stops[index] - starts[index]
            side = look_up(key)
            if side is None or sequence != side.plain or flags & NOT_PLAIN or not flags & ACK:
                self._slow_path(index, key, sequence, acknowledgment, flags, length)
                continue
            side.acknowledged = acknowledgment
            if length:
                if not side.pieces:
                    touched[side] = None
                side.pieces.append(index)
                side.plain = (sequence + length) % MODULUS
        opening.make_until(len(block))
        closing.make_until(len(block))

    def _slow_path(self, index: int, key: bytes, sequence: int, acknowledgment: int, flags: int, length: int) -> None:
        """Process a segment that is not the next one in order of a known flow.

        `index` is its row, `key` its flow key; the others are fields of its header, and the `length` of its payload.
        """
        if flags & UNREACHABLE:
            self._note_unreachable(key, acknowledgment)
            return
        side = self._side_of(index, key, sequence, flags)
        if side is None:
            self.late += length
            return
        connection, at = self.connections[side], self.arrival(index)
        peer = connection.tcp[1 - side.number]
        for each in (side, peer):
            each.leave_plain()
        whole = length + self.reassembler.cut.get(index, 0)
        self._watch(side, peer, SegmentHeader(sequence, acknowledgment, flags, whole), at)
        side.seen = True
        if flags & ACK and not flags & RST:
            side.acknowledged = acknowledgment
            opens = flags & SYN or (side.begun and sequence == side.next and not side.delivered and not length)
            if peer.next < 0 and opens:  # the first ACK has the other side's first number; a later one may be beyond
                peer.next, peer.begun = acknowledgment, True
        if flags & SYN:
            _take_syn(connection, side, sequence, at)
            sequence = (sequence + 1) % MODULUS
        if side.next < 0:
            side.next = sequence
        if side.waits and length and sequence == side.next:
            retransmissions.fill(side, length, at)
        if length or flags & CUT:
            self.reassembler.segment(side, index, sequence, at)
        if flags & FIN and side.fin is None:
            self._take_fin(side, (sequence + whole) % MODULUS, at)
        if flags & RST:
            connection.resets_with_ack = bool(flags & ACK)
            connection.hops = self._hops_of_syn(key, index), self.reassembler.hops.get(index)
            self._close(connection, index, "rst", side)
            return
        for each, other in ((side, peer), (peer, side)):
            self.reassembler.apply_limits(each, other, at)
            self._end(each)
        self.reassembler.apply_limit_of_all(at)
        if side.ended and peer.ended:
            self._close(connection, index, "fin")
            return
        connection.resume_plain()

    def _note_unreachable(self, key: bytes, kind: int) -> None:
        """Note an ICMP message of a `kind` about a segment with this flow key."""
        side = self.sides.get(key)
        if side is not None:
            self.connections[side].unreachable = kind
            again = self._peer(side).unanswered
            if again is not None:
                again.unreachable = kind

    def _side_of(self, index: int, key: bytes, sequence: int, flags: int) -> TcpSide | None:
        """Return the side that sent the segment in row `index`, of a new connection if necessary; None if the segment
        belongs to a closed connection."""
        side = self.sides.get(key)
        if side is not None and (side.waits or self._peer(side).waits):
            at = self.arrival(index)
            self._advance_clock(self.connections[side], at.time, decided_by_time(at.ordinal))
            side = self.sides.get(key)
        closed = self.closed.get(key) if side is None else None
        if closed is not None and not flags & SYN:
            last = closed._replace(time=self.arrival(index).time)
            self.closed.update(((key, last), (reverse(key), last)))
            return None
        if side is None:
            return self._open(key, flags, index)
        if self._is_new_session(side, sequence, flags):
            self._close(self.connections[side], index, "reused")
            return self._open(key, flags, index)
        return side

    def _take_fin(self, side: TcpSide, sequence: int, at: Arrival) -> None:
        """Note the first FIN of a side, which has the number `sequence`, and wait for the octets before it."""
        finish = side.delivered + distance(sequence, side.next)
        if finish < 0:  # a copy from an earlier connection on these ports
            return
        side.fin, side.finish = at, finish
        if finish > side.delivered:
            self.reassembler.wait_for_end(side, at)

    def _watch(self, side: TcpSide, peer: TcpSide, header: SegmentHeader, at: Arrival) -> None:
        """Update the closed receive windows and the retransmissions of both sides by the segment `at` of `side`."""
        intervals: list[Intervals[Any] | None] = []
        if header.flags & CLOSED_WINDOW or side.closed_window or peer.closed_window:
            closed_windows.take(side, peer, header, at)
            intervals += side.stalls, peer.stalls
        if header.sequence != side.next or side.unanswered or peer.unanswered:
            retransmissions.take(side, peer, header, at)
            intervals += side.outages, peer.outages
        if any(each and each.apart for each in intervals) and self.connections[side].has_octets:
            self.reassembler.touched[side] = None  # otherwise no record can refer to the connection yet

    def _advance_clock(self, connection: Connection, now: int, ordinal: int) -> None:
        """Note that no packet of a connection with a hole arrived until `now` (ns), the time of the segment
        `ordinal`."""
        for side in connection.tcp:
            side.leave_plain()
            self.reassembler.advance_clock(side, now, ordinal)
            self._end(side)
        one, other = connection.tcp
        if one.ended and other.ended:
            self._close_at(connection, connection.last._replace(ordinal=ordinal), "fin")
        else:
            connection.resume_plain()

    def tick(self, now: int) -> list[Connection]:
        """Give up holes whose time limit is before `now` (ns); return their connections."""
        reassembler = self.reassembler
        ordinal = reassembler.begin_tick()
        for connection in dict.fromkeys([self.connections[side] for side in reassembler.waiting.sides]):
            self._advance_clock(connection, now, ordinal)
        return self._touched()

    def _is_new_session(self, side: TcpSide, sequence: int, flags: int) -> bool:
        """Whether a SYN with this sequence number opens a new connection on the same ports.

        It does unless it precedes the side's first octet.
        """
        if not flags & SYN or side.initial == sequence:
            return False
        if side.initial < 0:
            return side.next >= 0 and (side.next - side.delivered) % MODULUS != (sequence + 1) % MODULUS
        return True

    def _open(self, key: bytes, flags: int, index: int) -> TcpSide:
        sender = 1 if flags & SYN and flags & ACK else 0
        opener, other = (reverse(key), key) if sender else (key, reverse(key))
        if len(self.sides) >= 2 * self.most_open:
            self._close(self._least_missed(), index, "evicted")
        connection = self._new(opener, self.arrival(index), is_begun=bool(flags & SYN))
        self.silent[connection] = None
        for side, side_key in zip(connection.tcp, (opener, other), strict=True):
            self.sides[side_key] = side
            self.connections[side] = connection
        self.closed.remove((opener, other))
        return connection.tcp[sender]

    def _new(self, opener: bytes, start: Arrival, *, is_begun: bool) -> Connection:
        """Create a connection, opened by the side with flow key `opener`.

        `start` is its first packet, its SYN if `is_begun`.
        """
        self.opened += 1
        connection = Connection(self.opened, opener, start, self.incarnations.begin(opener, start.time))
        if is_begun:
            connection.listener = 1
        return connection

    def arrival(self, index: int) -> Arrival:
        rows = self.reassembler
        return Arrival(rows.first_ordinal + ORDINALS * index, rows.packets[index], rows.times[index])

    def _end(self, side: TcpSide) -> None:
        """Mark a side as ended if all octets up to its FIN are read."""
        if side.ended or side.finish is None or side.delivered < side.finish:
            return
        side.ended = True
        side.next = (side.next + 1) % MODULUS

    def _least_missed(self) -> Connection:
        """Return the connection to evict: the oldest silent one, or else the oldest."""
        while self.silent:
            connection, _ = self.silent.popitem(last=False)
            if not any(side.has_spoken() for side in connection.tcp):
                return connection
        return self.connections[next(iter(self.sides.values()))]

    def _close(self, connection: Connection, index: int, how: str, reset_by: TcpSide | None = None) -> None:
        connection.last = self._last_packet(connection, index)
        self._close_at(connection, self.arrival(index), how, reset_by)

    def _close_at(self, connection: Connection, at: Arrival, how: str, reset_by: TcpSide | None = None) -> None:
        connection.close(how, at, connection.last, reset_by)
        for side in connection.tcp:
            side.leave_plain()
            self.reassembler.give_up(side, connection.tcp[1 - side.number], connection.end)
            self._end(side)
            closed_windows.end_with_connection(side, connection.close_how, connection.last_moment)
            retransmissions.end_with_connection(side, connection.close_how, connection.last_moment)
        self.reassembler.touched[connection.tcp[0]] = None
        self.ended += connection.tcp
        self.silent.pop(connection, None)
        for side in connection.tcp:
            self.sides.pop(side.key, None)  # a connection to itself has one key
        one, other = connection.tcp
        self.remember_closed([(one.key, other.key)], [LastSeen(self._last_time(connection), one.initial)])

    def _last_time(self, connection: Connection) -> int:
        time, directions = max(connection.last.time, connection.end.time), self.directions
        for side in connection.tcp:
            number = None if directions is None else directions.numbers.get(side.key)
            if directions is not None and number is not None:  # the fast path may have read more packets of it
                time = max(time, self.arrival(directions.last_row[number]).time)
        return time

    def _last_packet(self, connection: Connection, index: int) -> Arrival:
        """Return the last packet of a connection before the row `index`."""
        directions = self.directions
        if directions is None:
            return connection.last
        row = max(directions.last_row_before(side.key, index) for side in connection.tcp)
        return connection.last if row < 0 else self.arrival(row)

    def end_of_capture(self, latest: int) -> list[Connection]:
        """Give up all holes and close all connections, in order of their numbers: the capture ends at `latest` (ns)."""
        self.reassembler.begin_end(latest)
        still_open = list(dict.fromkeys([self.connections[side] for side in self.sides.values()]))
        for connection in still_open:
            self._close(connection, 0, "open")
        return self._touched()


def _take_syn(connection: Connection, side: TcpSide, sequence: int, at: Arrival) -> None:
    """Note a SYN with the number `sequence`, or a copy of it, in the segment `at`."""
    if side.initial == sequence and side.number == 0 and not connection.has_octets:
        connection.syns, connection.last_syn = connection.syns + 1, at
        connection.is_answer_lost |= connection.tcp[1].initial >= 0
    if side.next < 0 or not side.delivered:  # otherwise it is late, and much was decided without it
        side.initial, side.next, side.begun = sequence, (sequence + 1) % MODULUS, True
    connection.opened_by = 0
