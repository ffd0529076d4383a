"""The lane: what many connections say in the midst of their sessions, read at once.

A busy broker has thousands of connections, and a block of a capture few segments of each. To take each of them through
all that may happen to a connection costs many times what it takes to read its messages. So connections that have shaken
hands are adopted here: of each there is little to remember, and what a block has brought of all of them is read as
columns.

Whatever is not the next octets in order, or no plain message frame, ends that: the connection is released in front of
it, as if it had never been here, and reads on itself. So what comes out is the same with the lane and without.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from zmtpscope.capture.segments import ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.entering import sides_in_lane
from zmtpscope.dissect.lane.known import NOT_HERE, BlockRows, KnownConnection, Ways
from zmtpscope.dissect.lane.openings import LONGEST, Openings
from zmtpscope.dissect.lane.payloads import passed_by
from zmtpscope.dissect.lane.sides import MOST_HELD, LaneSide
from zmtpscope.dissect.lane.slots import Columns
from zmtpscope.dissect.lane.turns import Messages, Rows, Turn, Turns
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.tcp.connection import reverse
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Deferred, Flows
from zmtpscope.dissect.tcp.sequence import MODULUS, distance

FEWEST_BLOCKS, STAYS_OUT = 2, 8
"""Who is released before it was read in so many blocks was adopted in vain, and is not adopted in the next ones."""

NEVER = Arrival(0, 0, 0)


class BlockUnderWay:
    """What the lane has read of a block, and has not given yet."""

    def __init__(self, block: SegmentBlock, directions: Directions) -> None:
        self.block = block
        self.directions = directions
        self.opening: dict[KnownConnection, Ways] = {}
        """Connections of whose openings it has something."""
        self.entering: dict[int, KnownConnection] = {}
        """Those of them whose openings it ends, by the slot of side 0."""
        self.closing: dict[int, Ways] = {}
        """Those that it ends, likewise."""
        self.turns = Turns()
        self.messages: Messages | None = None
        """Those of the turns."""
        self.arrived: Arrived | None = None
        self.are_passed_by: list[bool] = []
        """Of which turns nobody is to be asked what is inside the messages."""
        self.texts: Bool | None = None
        """Which of all messages are plain text."""


class Lane:
    """The connections that are read here. `take` what a block has of them, let the others take the rest of it, and then
    `give` what was read.

    Connections come here from their SYN on, where they open in a known way, or are adopted later.
    """

    def __init__(self, sink: Sink, flows: Flows) -> None:
        self.sink = sink
        self.flows = flows
        options = sink.options
        self.is_open = not (options.details or options.index or options.frames or options.keys is not None)
        """Whether connections are read here at all: not where somebody wants more than messages."""
        self.openings = Openings(options)
        self.learns = self.is_open and not options.decode_as
        """Whether connections come here from their SYN on: not where the user may have said what they are."""
        self.opening: dict[bytes, KnownConnection] = {}
        """Those whose openings are not over, by the key of either direction."""
        self.slots: dict[bytes, int] = {}
        """By key of the direction."""
        self.free: list[int] = []
        self.connections: dict[int, ZmtpConnection | KnownConnection] = {}
        """By the slot of side 0."""
        self.sides: dict[int, LaneSide] = {}
        """By slot, those whose messages are read here."""
        self.columns = Columns()
        self.released: list[ZmtpConnection] = []
        """Connections that have been here since their SYN, and read on themselves, until somebody takes them over."""
        self.under_way: BlockUnderWay | None = None

    @property
    def messages(self) -> int:
        """Messages of the connections that are here, since they were adopted."""
        return int(self.columns.counts[0].sum())

    @property
    def known_connections(self) -> int:
        """How many are here that have been so from their SYN on, and whose opening is over."""
        return sum(isinstance(each, KnownConnection) for each in self.connections.values())

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
        slot, columns = self._slot(connection, connection.tcp.key, sides), self.columns
        for number, tcp in enumerate(connection.tcp.tcp):
            tcp.leave_plain()
            side = sides.get(number)
            columns.begin(slot + number, tcp.next, tcp.acknowledged, connection.tcp.last, side is not None)
            if side is not None and side.reading is not None:
                columns.end[slot + number] = side.reading.arrivals.end
                columns.position[slot + number] = side.reading.reader.position
                self.sink.budget.take(side.memory)

    def _slot(self, connection: ZmtpConnection | KnownConnection, key: bytes, sides: dict[int, LaneSide]) -> int:
        """Give a connection a slot; `key` is that of side 0."""
        if not self.free:
            self.free += reversed(self.columns.grow())
        slot = self.free.pop()
        self.connections[slot] = connection
        self.slots[key], self.slots[reverse(key)] = slot, slot + 1
        for number, side in sides.items():
            self.sides[slot + number] = side
        return slot

    def release(self, slot: int) -> None:
        """Let the connection of this slot read on itself, if it is still here."""
        slot &= ~1
        here = self.connections.pop(slot, None)
        if here is None:
            return
        if self.under_way is not None and slot in self.under_way.entering:
            self._release_entering(slot, self.under_way.entering.pop(slot))
            return
        connection = here.read_again(self.sink) if isinstance(here, KnownConnection) else here
        assert connection is not None
        columns = self.columns
        for number, (tcp, stream) in enumerate(zip(connection.tcp.tcp, connection.streams, strict=True)):
            each, gained = slot + number, 0
            side = self.sides.pop(each, None)
            if side is not None:
                reading, end = side.reading or stream.plain_reading(), int(columns.end[each])
                assert reading is not None
                gained = end - reading.arrivals.end
                self.sink.budget.take(-side.memory)
                side.give_back(reading, end, int(columns.position[each]), columns.counts_of(each))
                if side.awaited is not None:
                    connection.relations.note_behind_ready(number, side.awaited)
            tcp.go_on(int(columns.next[each]), gained, int(columns.acknowledged[each]))
            connection.tcp.last = max(connection.tcp.last, Arrival(*columns.last[:, each].tolist()))
        connection.tcp.resume_plain()
        self._free(slot, connection.tcp.key)
        if here is not connection:
            self.released.append(connection)

    def _free(self, slot: int, key: bytes) -> None:
        """The slot of a connection is free."""
        del self.slots[key], self.slots[reverse(key)]
        self.columns.counts[:, slot : slot + 2] = 0
        self.free.append(slot)

    def _release_entering(self, slot: int, each: KnownConnection) -> None:
        """The block that has ended its opening has something else behind it: as if it had not come here in this
        block."""
        for number in (0, 1):
            self.sides.pop(slot + number, None)
        self._free(slot, each.key)
        each.steps[-1].in_vain += 1
        each.step_back([])
        self._lose(each)

    def _lose(self, each: KnownConnection) -> None:
        """Let a connection whose opening is not over read on itself."""
        self.opening.pop(each.key, None)
        self.opening.pop(reverse(each.key), None)
        if self.under_way is not None:
            self.under_way.opening.pop(each, None)
        if each.tcp is None:
            return
        connection = each.read_again(self.sink)
        each.tcp.resume_plain()
        if connection is not None:
            self.released.append(connection)

    def _send_away(self, slot: int) -> None:
        """Release a connection that says something else, which was adopted in vain if it has said little here."""
        slot &= ~1
        here = self.connections.get(slot)
        if here is None:
            return
        said_little = self.columns.blocks[slot : slot + 2].max() < FEWEST_BLOCKS
        self.release(slot)
        if isinstance(here, ZmtpConnection):
            here.stays_out = STAYS_OUT if said_little else 0
        elif said_little and here.opening is not None:
            here.steps[-1].in_vain += 1

    def release_all(self) -> None:
        """Let all connections read on themselves."""
        for slot in list(self.connections):
            self.release(slot)
        for each in list(dict.fromkeys(self.opening.values())):
            self._lose(each)

    def release_late(self, now: int) -> None:
        """Let connections read on themselves whose openings have not ended in time."""
        for each in list(dict.fromkeys(self.opening.values())):
            if each.segments and each.segments[0].arrival.time + LONGEST <= now:
                self._lose(each)

    def drain(self) -> list[ZmtpConnection]:
        """Connections that were here from their SYN on, and read on themselves now: each is given once."""
        released, self.released = self.released, []
        return released

    # -- what a block has brought ------------------------------------------------------------------------------------

    def take(self, block: SegmentBlock, directions: Directions, *, takes_new: bool) -> tuple[Bool, list[Deferred]]:
        """Read what a block has of the connections that are here, and if it `takes_new` of those that begin: which of
        its directions are done, and what opens or ends a connection in them."""
        now = self.under_way = BlockUnderWay(block, directions)
        if self.opening or (takes_new and self.learns):
            self._take_openings(now, takes_new=takes_new)
        slots = np.array([self.slots.get(key, -1) for key in block.keys], np.int64)
        is_here: Bool = slots >= 0
        if is_here.any():
            self._take_sessions(now, slots, is_here)
        done: Bool = np.array([slot >= 0 and slot & ~1 in self.connections for slot in slots.tolist()], np.bool_)
        self._pass(now, slots, done)
        for ways in now.opening.values():
            done[[way for way in ways if way != NOT_HERE]] = True
        return done, self._deferred(now)

    def _take_openings(self, now: BlockUnderWay, *, takes_new: bool) -> None:
        """Take what the block has of openings."""
        directions, numbers, rows, seen = now.directions, now.directions.numbers, None, set[bytes]()
        for number, key in enumerate(now.block.keys):
            if key in seen or key in self.slots:
                continue
            each = self.opening.get(key)
            if each is not None:
                ways = numbers.get(each.key, NOT_HERE), numbers.get(reverse(each.key), NOT_HERE)
            elif not (takes_new and directions.first_flags[number] & SYN) or key in self.flows.sides:
                continue
            else:
                ways = number, numbers.get(reverse(key), NOT_HERE)
                if not _begins(directions, ways):
                    continue
                each = KnownConnection(key, self.openings.first)
                self.opening[key] = self.opening[reverse(key)] = each
            seen.update((each.key, reverse(each.key)))
            rows = rows or BlockRows(now.block)
            if not each.take(rows, directions, ways, self.openings):
                self._lose(each)
                continue
            now.opening[each] = ways
            if each.opening is not None:
                self._enter(now, each, ways)

    def _enter(self, now: BlockUnderWay, each: KnownConnection, ways: Ways) -> None:
        """The opening of a connection is over: it has slots from now on."""
        opening, before = each.opening, each.before
        assert opening is not None
        del self.opening[each.key], self.opening[reverse(each.key)]
        sides = each.sides(self.sink)
        slot, columns = self._slot(each, each.key, sides), self.columns
        now.entering[slot] = each
        for number in (0, 1):
            next_ = before.next[number] if before.next[number] >= 0 else (each.state.initial[number] + 1) % MODULUS
            columns.begin(slot + number, next_, each.state.acknowledged[number], before.last or NEVER, number in sides)
            columns.end[slot + number], columns.position[slot + number] = before.octets(number), opening.ends[number]

    def _take_sessions(self, now: BlockUnderWay, slots: Int64, is_here: Bool) -> None:
        """Read what the block has of the connections that have slots."""
        directions, columns = now.directions, self.columns
        in_order = directions.is_plain & (directions.first_sequences == columns.next[slots])
        fits = in_order & ((directions.octet_counts == 0) | (columns.sends[slots] != 0))
        for slot in set((slots[is_here & ~fits] & ~1).tolist()):
            if not self._begins_or_ends(now, slot):
                self._send_away(slot)
        arrived = now.arrived = Arrived(now.block, directions, columns.end[slots])
        sending = np.flatnonzero(is_here & (directions.octet_counts > 0))
        self._read_frames(now, arrived, sending, slots[sending])
        now.messages = now.turns.messages()
        self._look_inside(now, now.turns.turns, now.messages)
        if now.closing:
            at = {turn.slot: turn for turn in now.turns.turns}
            for slot in [slot for slot in now.closing if not self._is_whole(slot, at)]:
                self._send_away(slot)

    def _begins_or_ends(self, now: BlockUnderWay, slot: int) -> bool:
        """Whether the connection of a slot has come here in this block, or ends in it as it should."""
        here, directions, columns = self.connections[slot], now.directions, self.columns
        if not isinstance(here, KnownConnection):
            return False
        numbers = directions.numbers
        ways = numbers.get(here.key, NOT_HERE), numbers.get(reverse(here.key), NOT_HERE)
        fins = [way != NOT_HERE and directions.fin_row[way] >= 0 for way in ways]
        if slot not in now.entering:
            for number, way in enumerate(ways):
                if way == NOT_HERE or not directions.clean[way] or directions.first_flags[way] & SYN:
                    return False
                if directions.first_sequence[way] != columns.next[slot + number]:
                    return False
                if directions.octets[way] and not columns.sends[slot + number]:
                    return False
        if any(fins):
            if not all(fins):
                return False
            now.closing[slot] = ways
        return True

    def _is_whole(self, slot: int, turns: dict[int, Turn]) -> bool:
        """Whether a connection ends behind whole messages, and each side has acknowledged no more than there is."""
        now, columns = self.under_way, self.columns
        assert now is not None
        directions, ways = now.directions, now.closing[slot]
        last = max(directions.fin_row[way] for way in ways)
        for number, way in enumerate(ways):
            turn, side = turns.get(slot + number), self.sides.get(slot + number)
            end = int(columns.end[slot + number]) + directions.octets[way]
            position = int(columns.position[slot + number]) if turn is None else turn.position
            under_way = side.under_way if turn is None and side is not None else turn and turn.open
            if position != end or under_way is not None:
                return False
            behind = int(columns.next[slot + number]) + directions.octets[way] + 1
            if distance(directions.acknowledgment_until(ways[1 - number], last), behind % MODULUS) > 0:
                return False
        return True

    def _read_frames(self, now: BlockUnderWay, arrived: Arrived, directions: Int64, slots: Int64) -> None:
        """Read the frames of these directions, which carry octets; who has sent something else is released."""
        ends, positions = arrived.stream_ends(directions).tolist(), self.columns.position[slots].tolist()
        for direction, slot, end, position in zip(directions.tolist(), slots.tolist(), ends, positions, strict=True):
            side = self.sides.get(slot)
            if side is not None and not now.turns.add(slot, side, direction, arrived.octets(direction), end, position):
                self._send_away(slot)

    def _pass(self, now: BlockUnderWay, slots: Int64, done: Bool) -> None:
        """The segments of these directions are done."""
        chosen, rows, columns, directions = slots[done], now.directions.last_rows[done], self.columns, now.directions
        octets, block = directions.octet_counts[done], now.block
        columns.next[chosen] = (columns.next[chosen] + octets) % MODULUS
        columns.end[chosen] += octets
        columns.acknowledged[chosen] = directions.acknowledgments[done]
        columns.blocks[chosen] += 1
        columns.last[:, chosen] = block.ordinal + ORDINALS * rows, block.packets[rows], block.times[rows]

    def _deferred(self, now: BlockUnderWay) -> list[Deferred]:
        """What opens or ends a connection of those that are still here, and when."""
        found: list[Deferred] = []
        first_row, fin_row, columns = now.directions.first_row, now.directions.fin_row, self.columns
        for each, ways in now.opening.items():
            if each.tcp is None:
                found.append((first_row[ways[0]], partial(each.open, self.flows, first_row[ways[0]])))
        for slot, ways in now.closing.items():
            known = self.connections.get(slot)
            if isinstance(known, KnownConnection):
                ends = int(columns.end[slot]), int(columns.end[slot + 1])
                close = partial(known.close, self.flows, now.directions, ways, ends)
                found.append((max(fin_row[way] for way in ways), close))
        return found

    def _look_inside(self, now: BlockUnderWay, turns: list[Turn], messages: Messages) -> None:
        """Find out of which turns nobody is to be asked what is inside the messages: others are released, but for those
        that are judged. And which of all messages are plain text, where that is asked for."""
        if self.sink.options.payloads is None or not len(messages.last):
            now.are_passed_by = [True] * len(turns)
            return
        found, now.texts = passed_by(turns, messages)
        asking = [turn for turn, is_passed_by in zip(turns, found.tolist(), strict=True) if not is_passed_by]
        judges = {turn.side.judge for turn in asking if turn.side.judge is not None}
        for turn in asking:
            if turn.side.judge is None:
                self._send_away(turn.slot)
        # who judges both sides of a connection looks into all messages of a block, or into none
        now.are_passed_by = [
            passed and turn.side.judge not in judges for passed, turn in zip(found.tolist(), turns, strict=True)
        ]

    # -- what was read goes out --------------------------------------------------------------------------------------

    def give(self) -> None:
        """Give what was read of the block under way, once all that it opens is open."""
        now, self.under_way = self.under_way, None
        if now is None:
            return
        for each in now.opening:
            each.say(self.sink)
        for slot, each in now.entering.items():
            assert each.writer is not None
            for number, stream in enumerate(each.writer.streams):
                if slot + number in self.sides:
                    self.sides[slot + number].stream = stream
            for step in each.steps:
                step.entered += 1
            self.openings.praise()
        if now.messages is not None and now.arrived is not None:
            self._give_messages(now, now.messages, now.arrived)
        for slot in now.closing:
            self._finish(slot)

    def _finish(self, slot: int) -> None:
        """The connection of a slot has ended in this block, unless it was released."""
        known = self.connections.get(slot)
        if not isinstance(known, KnownConnection) or known.tcp is None or not known.tcp.closed:
            return
        del self.connections[slot]
        for number in (0, 1):
            side = self.sides.pop(slot + number, None)
            self.sink.budget.take(0 if side is None else -side.memory)
        known.finish(self.sink, (self.columns.counts_of(slot), self.columns.counts_of(slot + 1)))
        self._free(slot, known.key)

    def _give_messages(self, now: BlockUnderWay, messages: Messages, arrived: Arrived) -> None:
        """Count the messages of those that are still here, and make rows of them, where those are wanted."""
        read, are_passed_by, texts = now.turns, now.are_passed_by, now.texts
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
                    if side.judge is None or side.reading is None:
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


def _begins(directions: Directions, ways: Ways) -> bool:
    """Whether a connection begins there, between two sockets, and all is in order."""
    one, other = ways
    if one == other or not directions.clean[one]:
        return False
    if other == NOT_HERE:
        return directions.begin_a_connection(one, None)
    return directions.clean[other] and directions.begin_a_connection(one, other)
