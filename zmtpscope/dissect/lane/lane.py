"""The lane: a fast path that reads the plain sessions of many connections at once.

A busy broker has thousands of connections, and a block has few segments of each. On the slow path, a connection costs
many times more than reading its messages. So the lane takes connections that have completed their handshakes, or that
open like earlier ones: they need little state, and their data in a block is read as columns.

Other data (out of order, not a plain message frame) releases the connection before its data in the current block is
consumed. The connection continues on the slow path as if it had never been in the lane, so results are equal with and
without the lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

import numpy as np

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.lane import requests
from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.known import NOT_HERE, BlockRows, KnownConnection, Ways
from zmtpscope.dissect.lane.new_connections import NewConnections, begin_at_once, find
from zmtpscope.dissect.lane.openings import Openings
from zmtpscope.dissect.lane.payloads import Claims, JsonMessages, ask, look_inside
from zmtpscope.dissect.lane.publishing import published
from zmtpscope.dissect.lane.sessions import Sessions
from zmtpscope.dissect.lane.sides import MAX_HELD, PlainSide
from zmtpscope.dissect.lane.turns import Messages, Rows, Turns, go_on
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.tcp.connection import TcpState, reverse
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Deferred, Flows
from zmtpscope.dissect.tcp.sequence import MODULUS, distance
from zmtpscope.payloads.side import MAX_UNCLAIMED


class BlockUnderWay:
    """The results of the lane for the current block, until `give` writes them."""

    def __init__(self, block: SegmentBlock, directions: Directions) -> None:
        self.block = block
        self.directions = directions
        self.new_connections: list[NewConnections] = []
        """Connections with their whole opening in the block."""
        self.opening: dict[KnownConnection, Ways] = {}
        """Connections with a part of their opening in the block, with their directions."""
        self.closing: dict[int, Ways] = {}
        """Connections that end in the block: their directions, by slot of side 0."""
        self.acknowledged: dict[int, int] = {}
        """By slot: the acknowledgment number of each closing side before its end."""
        self.finishing: dict[int, tuple[int, int]] = {}
        """Connections with the FIN of one side in the block: that side and the row, by slot of side 0."""
        self.sides: list[PlainSide] = []
        """The side of each turn."""
        self.messages: Messages | None = None
        """The messages of all turns."""
        self.alternating: requests.Alternating | None = None
        """Connections whose requests and replies alternate."""
        self.arrived: Arrived | None = None
        self.passed_by: Bool = np.empty(0, np.bool_)
        """A mask of the turns whose messages need no dissection."""
        self.claimed: Sequence[Claims | JsonMessages] = ()
        """Payloads that were recognised without dissection."""
        self.texts: Bool | None = None
        """A mask of the messages that are plain text."""
        self.json: Bool | None = None
        """A mask of the messages that are JSON."""
        self.topics: Int64 = np.empty(0, np.int64)
        """The topic sizes of published messages."""

    @cached_property
    def rows(self) -> BlockRows:
        """Rows of the block, for single lookups."""
        return BlockRows(self.block)

    def arrival(self, row: int) -> Arrival:
        """Return the segment of a row."""
        return self.rows.arrival(row)


class Lane:
    """Reads the connections in the lane.

    Call `take` for a block, let the flow table read the rest, then `give` to write the results.
    """

    def __init__(self, sink: Sink, flows: Flows) -> None:
        self.sink = sink
        self.flows = flows
        options = sink.options
        self.is_open = not (options.details or options.index or options.frames or options.keys is not None)
        """Whether the lane is used: not if details of single units or CURVE keys are requested."""
        self.learns = self.is_open and not options.decode_as
        """Whether connections may enter at their SYN: not if `-d` rules may select them."""
        self.openings = Openings(options)
        self.sessions = Sessions(sink)
        self.remembered = self.sessions.remembered
        self.under_way: BlockUnderWay | None = None

    @property
    def messages(self) -> int:
        """Number of messages of the connections in the lane."""
        return int(self.remembered.counts[0].sum())

    @property
    def known_connections(self) -> int:
        """Number of connections that were in the lane from their SYN on and have completed their opening."""
        return sum(isinstance(each, KnownConnection) for each in self.sessions.connections.values())

    def adopt(self, connection: ZmtpConnection) -> None:
        """Take the connection into the lane from the next block on, if it is suitable and worthwhile."""
        if self.is_open:
            self.sessions.adopt(connection)

    def release_all(self) -> None:
        """Move all connections to the slow path."""
        self.sessions.release_all()

    def release_one(self, key: bytes) -> None:
        """Move the connection of a direction to the slow path, if it is in the lane."""
        self.sessions.release_one(key)

    def release_late(self, now: int) -> None:
        """Release connections whose openings take too long, and those that one side closed."""
        self.sessions.release_late(now)

    def drain(self) -> list[ZmtpConnection]:
        """Return and forget the released connections that had been in the lane from their SYN on."""
        released, self.sessions.released = self.sessions.released, []
        return released

    # -- reading a block ----------------------------------------------------------------------------------------------

    def take(self, block: SegmentBlock, directions: Directions, *, takes_new: bool) -> tuple[Bool, list[Deferred]]:
        """Read a block. Return a mask of the directions that are done, and callbacks that open and close their
        connections.

        New connections enter only if `takes_new`.
        """
        here = self.sessions
        now = self.under_way = BlockUnderWay(block, directions)
        takes_new = takes_new and self.learns and self.sink.budget.has_room_for_names
        if takes_new:
            self._enter_new_connections(now)
        if here.opening or takes_new:
            self._take_openings(now, takes_new=takes_new)
        slots = np.array([here.slots.get(key, -1) for key in block.keys], np.int64)
        for new_connections in now.new_connections:
            slots[new_connections.ways] = new_connections.slots, new_connections.slots + 1
        is_here: Bool = slots >= 0
        if is_here.any():
            self._take_sessions(now, slots, is_here)
        done: Bool = np.array([slot >= 0 and slot & ~1 in here.connections for slot in slots.tolist()], np.bool_)
        self._pass(now, slots, done)
        now.opening = {each: ways for each, ways in now.opening.items() if each.is_here}
        for ways in now.opening.values():
            done[[way for way in ways if way != NOT_HERE]] = True
        return done, self._deferred(now)

    def _enter_new_connections(self, now: BlockUnderWay) -> None:
        """Add connections with their whole opening in the block."""
        here, directions, keys = self.sessions, now.directions, now.block.keys
        begins = directions.is_clean & (directions.flags_of_first & (SYN | ACK) == SYN)
        ways: list[Ways] = []
        for one in begins.nonzero()[0].tolist():
            key = keys[one]
            other = directions.numbers.get(reverse(key))
            if other is not None and not (key in here.slots or key in here.opening or key in self.flows.sides):
                ways.append((one, other))
        if not ways:
            return
        columns = np.array(ways, np.int64).T
        columns = columns[:, begin_at_once(directions, columns)]
        now.new_connections = find(now.block, directions, columns, self.openings)
        for new_connections in now.new_connections:
            here.enter_all(new_connections)
            self.openings.count(is_lost=False)

    def _take_openings(self, now: BlockUnderWay, *, takes_new: bool) -> None:
        """Read openings that are not wholly in the block."""
        directions, numbers, seen = now.directions, now.directions.numbers, set[bytes]()
        for new_connections in now.new_connections:
            seen.update([now.block.keys[way] for way in new_connections.ways.ravel().tolist()])
        here = self.sessions
        for number, key in enumerate(now.block.keys):
            if key in seen or key in here.slots:
                continue
            each = here.opening.get(key)
            if each is not None:
                ways = numbers.get(each.keys[0], NOT_HERE), numbers.get(each.keys[1], NOT_HERE)
            elif not (takes_new and directions.first_flags[number] & SYN) or key in self.flows.sides:
                continue
            else:
                keys = key, reverse(key)
                ways = number, numbers.get(keys[1], NOT_HERE)
                if not _begins(directions, ways) or not self.openings.is_worth_a_try():
                    continue
                each = KnownConnection(keys, self.openings.first)
                here.begin(each)
            seen.update(each.keys)
            if not each.take(now.rows, directions, ways, self.openings):
                here.lose(each)
                self.openings.count(is_lost=True)
                continue
            now.opening[each] = ways
            if each.opening is not None:
                here.enter(each)
                self.openings.count(is_lost=False)
        if here.entering:
            here.begin_entering()

    def _take_sessions(self, now: BlockUnderWay, slots: Int64, is_here: Bool) -> None:
        """Read the data of connections that have slots."""
        directions, remembered = now.directions, self.remembered
        in_order = directions.is_plain & (directions.first_sequences == remembered.next[slots])
        has_octets = directions.octet_counts > 0
        fits = in_order & (~has_octets | (remembered.sends[slots] != 0)) & ~self._are_late(now, slots, has_octets)
        for new_connections in now.new_connections:
            fits[new_connections.ways] = True
        for slot in set((slots[is_here & ~fits] & ~1).tolist()):
            if not self._begins_or_ends(now, slot):
                self.sessions.send_away(slot)
        arrived = now.arrived = Arrived(now.block, directions, remembered.end[slots])
        sending = np.flatnonzero(is_here & has_octets)
        now.messages = self._read_frames(now, arrived, sending, slots[sending])
        self._look_inside(now, now.messages)
        if now.closing:
            turns = {slot: turn for turn, slot in enumerate(now.messages.slots.tolist())}
            for slot in [slot for slot in now.closing if not self._is_whole(now, slot, turns)]:
                self.sessions.send_away(slot)
            self._keep_answered(now, np.array(list(now.closing)))
        for new_connections in now.new_connections:
            for slot in new_connections.not_whole(now.messages, remembered).tolist():
                self.sessions.send_away(slot)
            self._keep_answered(now, new_connections.slots[new_connections.is_over])

    def _are_late(self, now: BlockUnderWay, slots: Int64, has_octets: Bool) -> Bool:
        """Return a mask of the directions with octets that arrive later than awaited, and so may cause a finding."""
        directions, remembered = now.directions, self.remembered
        late = has_octets & (remembered.awaited_from[slots] >= 0)
        first = directions.carrying_rows[directions.carrying_begins[:-1][late]]
        late[late] = now.block.times[first] > remembered.awaited_until[slots[late]]
        return late

    def _keep_answered(self, now: BlockUnderWay, ending: Int64) -> None:
        """Release connections that end in the block with an open request."""
        assert now.alternating is not None
        for slot in ending[now.alternating.waiting(ending, self.remembered)].tolist():
            self.sessions.send_away(slot)

    def _begins_or_ends(self, now: BlockUnderWay, slot: int) -> bool:
        """Whether a connection entered in this block, or ends in it in the usual way."""
        here, directions, remembered = self.sessions.connections[slot], now.directions, self.remembered
        if not isinstance(here, KnownConnection):
            return False
        numbers = directions.numbers
        ways = numbers.get(here.keys[0], NOT_HERE), numbers.get(here.keys[1], NOT_HERE)
        if slot not in self.sessions.entering:
            for number, way in enumerate(ways):
                if way == NOT_HERE:
                    continue
                if not directions.clean[way] or directions.first_flags[way] & SYN:
                    return False
                if directions.first_sequence[way] != remembered.next[slot + number]:
                    return False
                if directions.octets[way] and not remembered.sends[slot + number]:
                    return False
        fins = [number for number, way in enumerate(ways) if way != NOT_HERE and directions.fin_row[way] >= 0]
        if any(slot + number in remembered.fins for number in fins):
            return False
        if len(fins) == 2 or (fins and slot + 1 - fins[0] in remembered.fins):
            now.closing[slot] = ways
        elif fins:
            now.finishing[slot] = fins[0], directions.fin_row[ways[fins[0]]]
        return bool(fins) or slot in self.sessions.entering

    def _is_whole(self, now: BlockUnderWay, slot: int, turns: dict[int, int]) -> bool:
        """Whether a connection ends after complete messages, without missing octets that a side has acknowledged."""
        remembered, directions, ways, messages = self.remembered, now.directions, now.closing[slot], now.messages
        here = self.sessions.connections.get(slot)
        assert messages is not None
        if not isinstance(here, KnownConnection):
            return False
        last = directions.last_fin(ways)
        for number, way in enumerate(ways):
            place, octets = slot + number, 0 if way == NOT_HERE else directions.octets[way]
            turn, end = turns.get(place), int(remembered.end[place]) + octets
            position, opened = (
                (int(remembered.position[place]), remembered.open[place])
                if turn is None
                else (messages.positions[turn], messages.open[turn])
            )
            if position != end or opened:
                return False
            other = ways[1 - number]
            if other == NOT_HERE or directions.first_row[other] > last:
                acknowledged = int(remembered.acknowledged[slot + 1 - number])
            else:
                acknowledged = directions.acknowledgment_until(other, last)
            now.acknowledged[slot + 1 - number] = acknowledged
            behind = int(remembered.next[place]) + octets + (place not in remembered.fins)
            if distance(acknowledged, behind % MODULUS) > 0:
                return False
        return True

    def _read_frames(self, now: BlockUnderWay, arrived: Arrived, directions: Int64, slots: Int64) -> Messages:
        """Read the frames of these directions, which have octets. Release connections with other data than plain
        frames."""
        here = self.sessions
        is_here = [slot in here.sides for slot in slots.tolist()]
        turns = Turns(self.remembered, arrived, directions[is_here], slots[is_here])
        now.sides = [here.sides[slot] for slot in turns.slots.tolist()]
        messages = Messages(turns)
        now.alternating, not_alternating = requests.alternating(messages, arrived)
        now.topics, unmatched = published(messages, now.sides)
        for leaving in (turns.slots[turns.others], turns.slots[messages.too_long], not_alternating, unmatched):
            for slot in leaving.tolist():
                here.send_away(slot)
        return messages

    def _look_inside(self, now: BlockUnderWay, messages: Messages) -> None:
        """Find the turns whose messages need no dissection, and the messages that are plain text or JSON.

        Releases connections without rules whose payloads can only be dissected with both sides.
        """
        slots, asked, sides = messages.slots.tolist(), self.sessions.asked, now.sides
        if asked is None or not len(messages):
            now.passed_by = np.ones(len(slots), np.bool_)
            return
        socket_types = [side.regime.socket_type for side in sides]
        inside = look_inside(messages, socket_types, self.sessions.payloads, asked)
        now.passed_by, now.texts, now.json, now.claimed = inside.passed_by, inside.texts, inside.json, inside.claimed
        for claimed in inside.claimed:
            for turn in claimed.turns.nonzero()[0].tolist():
                if sides[turn].judge is not None or not self.sessions.hears_all(slots[turn]):
                    now.passed_by[turn] = False
        asking = (~now.passed_by).nonzero()[0].tolist()
        judges = {sides[turn].judge for turn in asking if sides[turn].judge is not None}
        for turn in asking:
            if sides[turn].judge is None and inside.is_followed[turn]:
                self.sessions.send_away(slots[turn])
        if judges:  # rules that check both sides need all messages of a block dissected, or none
            now.passed_by &= [side.judge not in judges for side in sides]

    def _pass(self, now: BlockUnderWay, slots: Int64, done: Bool) -> None:
        """Advance the state of the directions that are done."""
        block, directions, remembered = now.block, now.directions, self.remembered
        chosen, rows, octets = slots[done], directions.last_rows[done], directions.octet_counts[done]
        remembered.next[chosen] = (remembered.next[chosen] + octets) % MODULUS
        remembered.acknowledged[chosen] = directions.acknowledgments[done]
        remembered.blocks[chosen] += 1
        remembered.last[:, chosen] = block.ordinal + ORDINALS * rows, block.packets[rows], block.times[rows]

    def _deferred(self, now: BlockUnderWay) -> list[Deferred]:
        """Return callbacks that open or close connections still in the lane, with their rows."""
        found: list[Deferred] = []
        first_row = now.directions.first_row
        for each, ways in now.opening.items():
            if each.tcp is None:
                found.append((first_row[ways[0]], partial(each.open, self.flows, first_row[ways[0]])))
        for new_connections in now.new_connections:
            found += new_connections.deferred(self.flows)
        for slot, ways in now.closing.items():
            known = self.sessions.connections.get(slot)
            if isinstance(known, KnownConnection):
                last = now.directions.last_fin(ways)
                one, other = (self._finished(now, place, way) for place, way in enumerate(ways, slot))
                found.append((last, partial(known.close, self.flows, last, (one, other))))
        return found

    def _finished(self, now: BlockUnderWay, slot: int, way: int) -> TcpState:
        """Return the final state of a side whose connection ends in the block. `way` is its direction."""
        state, octets = self.remembered.tcp(slot), 0 if way == NOT_HERE else now.directions.octets[way]
        fin = state.fin or now.arrival(now.directions.fin_row[way])
        return TcpState.after(state.initial, state.octets + octets, now.acknowledged[slot], fin, fin)

    # -- writing the results ------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Write the results of the current block. The flow table must have opened its connections."""
        now, self.under_way = self.under_way, None
        if now is None:
            return
        for new_connections in now.new_connections:
            new_connections.emit(self.sink)
            self.openings.count_entered(new_connections.path.steps[-1], len(new_connections.tcp))
        for each in now.opening:
            each.emit(self.sink)
        for entering in self.sessions.entering.values():
            self.openings.count_entered(entering.steps[-1])
        self.sessions.settle()
        for new_connections in now.new_connections:
            self.sessions.settle_new_connections(new_connections, self.openings.first, now.rows)
        if now.messages is not None and now.arrived is not None:
            self._give_messages(now, now.messages, now.arrived)
        if now.alternating is not None:
            requests.remember(now.alternating, self.remembered)
        for slot, (number, row) in now.finishing.items():
            known = self.sessions.connections.get(slot)
            if isinstance(known, KnownConnection):
                self.remembered.finish(slot + number, now.arrival(row))
        for slot in now.closing:
            self._finish(slot)
        for new_connections in now.new_connections:
            new_connections.finish(self.sink, self.remembered)
            self.sessions.dismiss(new_connections)
        if now.messages is not None:
            self._let_go(now.messages)

    def _finish(self, slot: int) -> None:
        """Finish the connection in a slot, unless it was released."""
        known = self.sessions.connections.get(slot)
        if isinstance(known, KnownConnection) and known.tcp is not None and known.tcp.closed:
            known.finish(self.sink, (self.remembered.counts_of(slot), self.remembered.counts_of(slot + 1)))
            self.sessions.remove(slot)

    def _give_messages(self, now: BlockUnderWay, messages: Messages, arrived: Arrived) -> None:
        """Count the messages of connections that are still in the lane, and make rows if they are wanted."""
        slots, remembered = messages.slots.tolist(), self.remembered
        here = [turn for turn, slot in enumerate(slots) if slot in self.sessions.sides]
        if not here:
            return
        chosen = np.array(here, np.int64)
        judged = self._give_rows(now, messages, arrived, chosen)
        self._pass_by(now, messages, chosen)
        held = int(remembered.memory[messages.slots[chosen]].sum())
        go_on(messages, arrived, chosen)
        self.sink.budget.take(int(remembered.memory[messages.slots[chosen]].sum()) - held)
        for each, is_looked_into in judged.items():
            each.write(is_looked_into=is_looked_into)

    def _let_go(self, messages: Messages) -> None:
        """Release connections that use too much memory, or all if the common limit is exceeded."""
        held = self.remembered.held
        for slot in [slot for slot in messages.slots.tolist() if len(held.get(slot, b"")) > MAX_HELD]:
            self.sessions.send_away(slot)
        if self.sink.budget.is_exceeded:
            self.release_all()

    def _give_rows(
        self, now: BlockUnderWay, messages: Messages, arrived: Arrived, chosen: Int64
    ) -> dict[MessageRows, bool]:
        """Make rows of the messages of these turns, if they are wanted.

        Return the objects that check the messages, each with whether its messages need no dissection.
        """
        slots, counts = messages.slots.tolist(), messages.counts.messages
        wanted = counts[chosen] > 0
        if not self.sink.options.records:
            wanted &= (self.remembered.is_judged[messages.slots[chosen]] != 0) | ~now.passed_by[chosen]
        judged: dict[MessageRows, bool] = {}
        plain: dict[int, PlainSide] = {}
        """Sides of turns whose messages are neither checked nor dissected."""
        rows: Rows | None = None
        for turn in chosen[wanted].tolist():
            side, is_passed_by = self.sessions.side_of(slots[turn]), bool(now.passed_by[turn])
            if side.judge is None and is_passed_by:
                if side.is_written:
                    plain[turn] = side
                continue
            if side.wants_rows or not is_passed_by:
                rows = rows or Rows(messages, arrived, now.texts, now.json, now.topics)
                table = rows.table_of([turn], [side], are_passed_by=is_passed_by)
                if side.judge is None or side.reading is None:
                    parts = [*table.by_sender()]
                    self._ask(slots[turn], parts)
                    self.sink.batch.messages += parts if side.is_written else []
                else:
                    side.reading.messages.in_clear.message_runs += table.by_sender()
                    judged[side.judge] = judged.get(side.judge, True) and is_passed_by
            if side.judge is not None and side.payloads is not None and side.is_looked_into and is_passed_by:
                side.payloads.side.pass_by(int(counts[turn]))
        if plain:
            rows = rows or Rows(messages, arrived, now.texts, now.json, now.topics)
            self.sink.batch.messages.append(rows.table_of([*plain], [*plain.values()], are_passed_by=True))
        return judged

    def _ask(self, slot: int, runs: list[MessageTable]) -> None:
        """Dissect the messages of a side, and write their findings."""
        payloads, facts = self.sessions.payloads_of(slot), self.sessions.facts_of(slot)
        for run in runs:
            for arrival, finding, unit in ask(payloads, run, facts):
                note = Note(slot & 1, finding, arrival, arrival.ordinal, unit=unit, source=run.source)
                self.sessions.writer_of(slot).note(note)

    def _pass_by(self, now: BlockUnderWay, messages: Messages, chosen: Int64) -> None:
        """Count the messages of these turns as not dissected, unless rules or dissectors read their sides."""
        if self.sessions.asked is None:
            return
        rest = now.passed_by.copy()
        for claimed in now.claimed:
            for turn in chosen[(claimed.turns & now.passed_by)[chosen]].tolist():
                claimed.take(turn, self.sessions.payloads_of(int(messages.slots[turn])))
            rest &= ~claimed.turns
        chosen = chosen[rest[chosen]]
        for turn in chosen.tolist() if self.sessions.payloads else ():
            payloads = self.sessions.payloads.get(int(messages.slots[turn]))
            if payloads is None or now.sides[turn].judge is not None:
                continue
            if self.sink.options.records or payloads.wants_rows:
                payloads.side.pass_by(int(messages.counts.messages[turn]))
        slots, counts = messages.slots[chosen], messages.counts.messages[chosen]
        unclaimed = self.remembered.unclaimed[slots]
        is_looked_into = (unclaimed <= MAX_UNCLAIMED) | self.sink.options.records
        is_looked_into &= self.remembered.is_judged[slots] == 0
        self.remembered.unclaimed[slots] = unclaimed + np.where(is_looked_into, counts, 0)


def _begins(directions: Directions, ways: Ways) -> bool:
    """Whether a connection between two different sockets begins in these directions, in order."""
    one, other = ways
    if one == other or not directions.clean[one]:
        return False
    if other == NOT_HERE:
        return directions.begin_a_connection(one, None)
    return directions.clean[other] and directions.begin_a_connection(one, other)
