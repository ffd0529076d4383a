"""The lane: what many connections say in the midst of their sessions, read at once.

A busy broker has thousands of connections, and a block of a capture few segments of each. To take each of them through
all that may happen to a connection costs many times what it takes to read its messages. So connections that have shaken
hands are adopted here: of each there is little to remember, and what a block has brought of all of them is read as
columns.

Whatever is not the next octets in order, or no plain message frame, ends that: the connection is released in front of
it, as if it had never been here, and reads on itself. So what comes out is the same with the lane and without.
"""

from __future__ import annotations

import numpy as np

from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.entering import sides_in_lane
from zmtpscope.dissect.lane.payloads import passed_by
from zmtpscope.dissect.lane.sides import MOST_HELD, Counts, LaneSide
from zmtpscope.dissect.lane.turns import Messages, Rows, Turn, Turns
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.sequence import MODULUS

FIRST_SLOTS = 64

FEWEST_BLOCKS, STAYS_OUT = 2, 8
"""Who is released before it was read in so many blocks was adopted in vain, and is not adopted in the next ones."""


class Columns:
    """What is remembered of each side as a number, an entry for each slot: sides 0 and 1 of a connection have an even
    slot and the one behind it."""

    def __init__(self) -> None:
        self.next: Int64 = np.empty(0, np.int64)
        """The sequence number of the next octet."""
        self.acknowledged = self.next
        """The last acknowledgment number that the side sent."""
        self.end = self.next
        """The stream offset of the next octet."""
        self.position = self.next
        """That of the next frame header."""
        self.sends = self.next
        """Whether messages of the side are read in the lane; any octet of another one releases the connection."""
        self.last: Int64 = np.empty((len(Arrival._fields), 0), np.int64)
        """Its last segment, as an `Arrival`."""
        self.blocks = self.next
        """How many blocks have had something of it since it was adopted."""
        self.counts: Int64 = np.empty((len(Counts._fields), 0), np.int64)
        """What was read of it in the lane, as `Counts`."""

    def grow(self) -> range:
        """Add slots: the even ones of them."""
        begin = len(self.next)
        more = max(FIRST_SLOTS, begin)
        for name, column in vars(self).items():
            setattr(self, name, np.concatenate((column, np.zeros((*column.shape[:-1], more), np.int64)), -1))
        return range(begin, begin + more, 2)


class Lane:
    """The connections that were adopted. `take` what a block has of them."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        options = sink.options
        self.is_open = not (options.details or options.index or options.frames or options.keys is not None)
        """Whether connections are read here at all: not where somebody wants more than messages."""
        self.slots: dict[bytes, int] = {}
        """By key of the direction."""
        self.free: list[int] = []
        self.connections: dict[int, ZmtpConnection] = {}
        """By the slot of side 0."""
        self.sides: dict[int, LaneSide] = {}
        """By slot, those whose messages are read here."""
        self.columns = Columns()

    @property
    def messages(self) -> int:
        """Messages of the connections that are here, since they were adopted."""
        return int(self.columns.counts[0].sum())

    # -- who is here -------------------------------------------------------------------------------------------------

    def adopt(self, connection: ZmtpConnection) -> None:
        """Read the connection here from the next block on, if that can be done, and is worth it."""
        if connection.stays_out:
            connection.stays_out -= 1
            return
        if not (self.is_open and connection.is_quiet()):
            return
        sides = sides_in_lane(connection)
        if not sides:
            connection.stays_out = STAYS_OUT
            return
        if not self.free:
            self.free += reversed(self.columns.grow())
        slot, columns = self.free.pop(), self.columns
        self.connections[slot] = connection
        for number, tcp in enumerate(connection.tcp.tcp):
            tcp.leave_plain()
            each, side = slot + number, sides.get(number)
            self.slots[tcp.key] = each
            columns.next[each], columns.acknowledged[each] = tcp.next, tcp.acknowledged
            columns.last[:, each], columns.counts[:, each] = connection.tcp.last, 0
            columns.sends[each], columns.blocks[each] = side is not None, 0
            if side is not None:
                self.sides[each] = side
                columns.end[each], columns.position[each] = side.reading.arrivals.end, side.reading.reader.position
                self.sink.budget.take(side.memory)

    def release(self, slot: int) -> None:
        """Let the connection of this slot read on itself, if it is still here."""
        slot &= ~1
        connection, columns = self.connections.pop(slot, None), self.columns
        if connection is None:
            return
        for number, tcp in enumerate(connection.tcp.tcp):
            each, gained = slot + number, 0
            del self.slots[tcp.key]
            side = self.sides.pop(each, None)
            if side is not None:
                end = int(columns.end[each])
                gained = end - side.reading.arrivals.end
                self.sink.budget.take(-side.memory)
                side.give_back(end, int(columns.position[each]), Counts(*columns.counts[:, each].tolist()))
            columns.counts[:, each] = 0
            tcp.go_on(int(columns.next[each]), gained, int(columns.acknowledged[each]))
            connection.tcp.last = max(connection.tcp.last, Arrival(*columns.last[:, each].tolist()))
        connection.tcp.resume_plain()
        self.free.append(slot)

    def _send_away(self, slot: int) -> None:
        """Release a connection that says something else, which was adopted in vain if it has said little here."""
        slot &= ~1
        connection = self.connections.get(slot)
        if connection is not None:
            self.release(slot)
            said_little = self.columns.blocks[slot : slot + 2].max() < FEWEST_BLOCKS
            connection.stays_out = STAYS_OUT if said_little else 0

    def release_all(self) -> None:
        """Let all connections read on themselves."""
        for slot in list(self.connections):
            self.release(slot)

    # -- what a block has brought ------------------------------------------------------------------------------------

    def take(self, block: SegmentBlock, directions: Directions) -> Bool:
        """Read what a block has of the connections that are here: which of its directions are done."""
        slots = np.array([self.slots.get(key, -1) for key in block.keys], np.int64)
        is_here: Bool = slots >= 0
        if not is_here.any():
            return is_here
        in_order = directions.is_plain & (directions.first_sequences == self.columns.next[slots])
        fits = in_order & ((directions.octet_counts == 0) | (self.columns.sends[slots] != 0))
        for slot in slots[is_here & ~fits].tolist():
            self._send_away(slot)
        arrived = Arrived(block, directions, self.columns.end[slots])
        sending = np.flatnonzero(is_here & (directions.octet_counts > 0))
        turns = self._read_frames(arrived, sending, slots[sending])
        messages = turns.messages()
        are_passed_by, texts = self._look_inside(turns.turns, messages)
        done: Bool = np.array([slot >= 0 and slot & ~1 in self.connections for slot in slots.tolist()])
        self._pass(block, directions, slots, done)
        self._give(turns, messages, arrived, are_passed_by, texts)
        return done

    def _read_frames(self, arrived: Arrived, directions: Int64, slots: Int64) -> Turns:
        """Read the frames of these directions, which carry octets; who has sent something else is released."""
        turns = Turns()
        ends, positions = arrived.stream_ends(directions).tolist(), self.columns.position[slots].tolist()
        for direction, slot, end, position in zip(directions.tolist(), slots.tolist(), ends, positions, strict=True):
            side = self.sides.get(slot)
            if side is not None and not turns.add(slot, side, direction, arrived.octets(direction), end, position):
                self._send_away(slot)
        return turns

    def _look_inside(self, turns: list[Turn], messages: Messages) -> tuple[list[bool], Bool | None]:
        """Of which turns nobody is to be asked what is inside the messages: others are released, but for those that are
        judged. And which of all messages are plain text, where that is asked for."""
        if self.sink.options.payloads is None or not len(messages.last):
            return [True] * len(turns), None
        found, texts = passed_by(turns, messages)
        asking = [turn for turn, is_passed_by in zip(turns, found.tolist(), strict=True) if not is_passed_by]
        judges = {turn.side.judge for turn in asking if turn.side.judge is not None}
        for turn in asking:
            if turn.side.judge is None:
                self._send_away(turn.slot)
        # who judges both sides of a connection looks into all messages of a block, or into none
        return [
            passed and turn.side.judge not in judges for passed, turn in zip(found.tolist(), turns, strict=True)
        ], texts

    def _pass(self, block: SegmentBlock, directions: Directions, slots: Int64, done: Bool) -> None:
        """The segments of these directions are done."""
        chosen, rows, columns = slots[done], directions.last_rows[done], self.columns
        octets = directions.octet_counts[done]
        columns.next[chosen] = (columns.next[chosen] + octets) % MODULUS
        columns.end[chosen] += octets
        columns.acknowledged[chosen] = directions.acknowledgments[done]
        columns.blocks[chosen] += 1
        columns.last[:, chosen] = block.ordinal + ORDINALS * rows, block.packets[rows], block.times[rows]

    def _give(
        self, read: Turns, messages: Messages, arrived: Arrived, are_passed_by: list[bool], texts: Bool | None
    ) -> None:
        """Count the messages of those that are still here, and make rows of them, where those are wanted."""
        here = [(number, turn) for number, turn in enumerate(read.turns) if turn.slot in self.sides]
        if not here:
            return
        counts = messages.counts()
        numbers, slots = np.array([(number, turn.slot) for number, turn in here], np.int64).T
        last = np.where(counts.messages[numbers] > 0, counts.last[numbers], self.columns.counts[-1, slots])
        self.columns.counts[:-1, slots] += [column[numbers] for column in counts[:-1]]
        self.columns.counts[-1, slots] = last
        self.columns.position[slots] = [turn.position for _, turn in here]
        rows = Rows(messages, read.turns, arrived) if any(turn.side.wants_rows for _, turn in here) else None
        edges, message_counts, taken = messages.frame_edges.tolist(), counts.messages.tolist(), 0
        judged: dict[MessageRows, bool] = {}
        for number, turn in here:
            side, count = turn.side, message_counts[number]
            if count:
                if rows is not None and side.wants_rows:
                    runs = rows.runs_of(number, turn, texts if are_passed_by[number] else None)
                    if side.judge is None:
                        self.sink.batch.runs += runs
                    else:
                        side.reading.messages.in_clear.message_runs += runs
                        judged[side.judge] = judged.get(side.judge, True) and are_passed_by[number]
                side.note_sizes(read.frames.sizes[edges[number] : edges[number + 1]])
                if side.is_looked_into and side.payloads is not None and are_passed_by[number]:
                    side.payloads.side.pass_by(count)
            taken -= side.memory
            side.go_on(arrived, turn.direction, turn.data, turn.position, turn.open, is_new=count > 0)
            taken += side.memory
        self.sink.budget.take(taken)
        for each, is_looked_into in judged.items():
            each.write(is_looked_into=is_looked_into)
        for _, turn in here:
            if len(turn.side.held) > MOST_HELD:
                self._send_away(turn.slot)
        if self.sink.budget.is_exceeded:
            self.release_all()
