"""The flow table: which connection a segment belongs to, and the loop that all segments pass.

The plain way (the next octets in order, on a flow that is known) costs a dictionary look-up and an append per segment;
everything else, SYN, FIN, RST, holes, retransmissions and cut packets, goes through the side path, one call each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from zmtpscope.capture.segments import ACK, CUT, FIN, RST, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection import Connection
from zmtpscope.dissect.reassembly import MODULUS, Reassembler, TcpSide, distance, reverse

ODD = SYN | FIN | RST | CUT
MOST_OPEN = 65_536
"""How many connections may be open; one more and the oldest that has said nothing yet gives way, else the oldest."""

REMEMBERED_CLOSED = 16_384
"""How many directions of closed connections are remembered, so that their last acknowledgments open no new ones."""


class Flows:
    """All TCP connections that are open, by the key of each direction.

    `open_connection(key, first segment)` makes the connection whose side 0 sends under `key`.
    """

    def __init__(self, open_connection: Callable[[bytes, Arrival], Connection]) -> None:
        self.open_connection = open_connection
        self.most_open = MOST_OPEN
        self.sides: dict[bytes, TcpSide] = {}
        self.silent: OrderedDict[Connection, None] = OrderedDict()
        """Open connections that had said nothing when they were looked at last, the oldest in front."""
        self.closed: OrderedDict[bytes, None] = OrderedDict()
        """Keys of closed connections, the oldest in front."""
        self.late = 0
        """Payload octets that came for closed connections."""
        self.reassembler = Reassembler()
        self.packet = 0
        self.time = 0
        """The last segment of all."""

    def take(self, block: SegmentBlock) -> list[Connection]:
        """Hand every segment of `block` to its side; the connections that were touched, in order of first touch."""
        reassembler = self.reassembler
        reassembler.begin(block)
        if block.keys:
            self.packet, self.time = block.packets[-1], block.times[-1]
        touched = reassembler.touched
        look_up = self.sides.get
        # The side path appends to `starts` and `stops` while the loop runs: the loop ends with the keys.
        columns = (block.keys, block.sequences, block.acknowledgments, block.flags, block.starts, block.stops)
        index = -1
        for key, sequence, acknowledgment, flags, start, stop in zip(*columns, strict=False):
            index += 1
            side = look_up(key)
            if side is None or sequence != side.plain or flags & ODD:
                self.odd(index, key, sequence, acknowledgment, flags, stop - start)
                continue
            side.acknowledged = acknowledgment
            if stop > start:
                if not side.pieces:
                    touched[side.connection] = None
                side.pieces.append(index)
                side.plain = (sequence + stop - start) % MODULUS
        return list(touched)

    def odd(self, index: int, key: bytes, sequence: int, acknowledgment: int, flags: int, length: int) -> None:
        """The side path of one segment: whatever is not the next octets of a known flow."""
        block = self.reassembler.block
        side = self.sides.get(key)
        if side is None and key in self.closed and not flags & SYN:
            self.late += length
            return
        if side is None or self._is_new_session(side, sequence, flags):
            if side is not None:
                self._close(side.connection, index, "open", None)
            side = self._open(key, flags, index)
        connection, peer = side.connection, side.peer
        for each in (side, peer):
            if each.plain >= 0:
                self._leave_plain(each)
        side.seen = True
        self.reassembler.latest = max(self.reassembler.latest, block.times[index])
        if flags & ACK and not flags & RST:
            side.acknowledged = acknowledgment
            opens = flags & SYN or (side.begun and sequence == side.next and not side.delivered and not length)
            if peer.next < 0 and opens:  # the first ACK tells the other side's first number; a later one may be beyond
                peer.next, peer.begun = acknowledgment, True
        if flags & SYN:
            side.initial = sequence
            sequence = (sequence + 1) % MODULUS
            if side.next < 0 or not side.delivered:
                side.next, side.begun = sequence, True
            connection.opened_by = 0
        if side.next < 0:
            side.next = sequence
        if length or flags & CUT:
            self.reassembler.segment(side, index, sequence)
        if flags & FIN and side.finish is None:
            total = length + block.cut.get(index, 0)
            side.finish = side.delivered + distance((sequence + total) % MODULUS, side.next)
            if side.finish > side.delivered:
                self.reassembler.wait_for_end(side, index)
        if flags & RST:
            self._close(connection, index, "rst", side.number)
            return
        for each in (side, peer):
            self.reassembler.weigh(each, index)
            self._end(each, index)
        self.reassembler.weigh_all(index)
        if side.ended and peer.ended:
            self._close(connection, index, "fin", connection.closed_by)
            return
        if not (side.waiting or peer.waiting):
            for each in (side, peer):
                if each.next >= 0 and each.acknowledged >= 0 and not each.ended:
                    each.plain = each.next

    def _leave_plain(self, side: TcpSide) -> None:
        gained = distance(side.plain, side.next)
        side.next = side.plain
        side.delivered += gained
        side.counts.captured += gained
        side.plain = -1

    def _is_new_session(self, side: TcpSide, sequence: int, flags: int) -> bool:
        """A SYN that does not fit what is known of the flow begins a new connection on the same addresses and ports."""
        if not flags & SYN or side.initial == sequence:
            return False
        if side.initial < 0:
            return side.next >= 0 and side.next != (sequence + 1) % MODULUS
        return True

    def _open(self, key: bytes, flags: int, index: int) -> TcpSide:
        sender = 1 if flags & SYN and flags & ACK else 0
        opener, other = (reverse(key), key) if sender else (key, reverse(key))
        if len(self.sides) >= 2 * self.most_open:
            self._close(self._least_missed(), index, "evicted", None)
        connection = self.open_connection(opener, self._arrival(index))
        self.silent[connection] = None
        for side, side_key in zip(connection.tcp, (opener, other), strict=True):
            self.sides[side_key] = side
            self.closed.pop(side_key, None)
        return connection.tcp[sender]

    def _arrival(self, index: int) -> Arrival:
        block = self.reassembler.block
        return Arrival(block.ordinal + index, block.packets[index], block.times[index])

    def _end(self, side: TcpSide, index: int) -> None:
        """Note that the stream of a side is there up to its FIN."""
        if side.ended or side.finish is None or side.delivered < side.finish:
            return
        side.ended = True
        side.next = (side.next + 1) % MODULUS
        if not side.peer.ended:
            side.connection.closed_by = side.number

    def _least_missed(self) -> Connection:
        """The open connection that gives way to a new one."""
        while self.silent:
            connection, _ = self.silent.popitem(last=False)
            if not any(side.has_spoken() for side in connection.tcp):
                return connection
        return next(iter(self.sides.values())).connection

    def _close(self, connection: Connection, index: int, how: str, closed_by: int | None) -> None:
        for side in connection.tcp:
            if side.plain >= 0:
                self._leave_plain(side)
            self.reassembler.give_up(side, index)
        connection.close(how, closed_by, self._arrival(index))
        self.reassembler.touched[connection] = None
        self.silent.pop(connection, None)
        for side in connection.tcp:
            del self.sides[side.key]
            self.closed[side.key] = None
        while len(self.closed) > REMEMBERED_CLOSED:
            self.closed.popitem(last=False)

    def end_of_capture(self) -> list[Connection]:
        """No more segments will come: give up every hole and close what is open, in order of numbers."""
        reassembler = self.reassembler
        last = reassembler.block
        final = SegmentBlock(b"", last.ordinal + reassembler.plain_rows)
        final.keys.append(b"")
        for column, value in (
            (final.starts, 0),
            (final.stops, 0),
            (final.packets, self.packet),
            (final.times, self.time),
        ):
            column.append(value)
        reassembler.begin(final)
        still_open = [side.connection for side in self.sides.values() if side.number == 0]
        for connection in still_open:
            self._close(connection, 0, "open", None)
        return still_open
