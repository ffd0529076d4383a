"""The fast path: reads the plain messages of many connections at once.

A busy broker has thousands of connections, and a block has few segments of each. On the slow path, a connection costs
many times more than parsing its messages. The fast path therefore takes connections that have completed their
handshakes, or that open like earlier ones: they need little state, and their data in a block is parsed as columns.
Other data (out of order, not a plain message frame) releases the connection before its data in the block is consumed.
The slow path continues it as if it had never been on the fast path, so results are equal with and without it.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.fast_path import requests
from zmtpscope.dissect.fast_path.carrying_rows import CarryingRows
from zmtpscope.dissect.fast_path.current_block import CurrentBlock
from zmtpscope.dissect.fast_path.known import KnownConnection
from zmtpscope.dissect.fast_path.new_connection_records import NewConnectionRecords
from zmtpscope.dissect.fast_path.openings import Openings
from zmtpscope.dissect.fast_path.payloads import ask, look_inside, nothing_inside
from zmtpscope.dissect.fast_path.publishing import published
from zmtpscope.dissect.fast_path.segment_runs import Messages, Rows, SegmentRuns, store_progress
from zmtpscope.dissect.fast_path.segments_read import segments_read
from zmtpscope.dissect.fast_path.sessions import Sessions
from zmtpscope.dissect.fast_path.sides import MAX_HELD, PlainSide
from zmtpscope.dissect.fast_path.whole_openings import find
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.tcp.connection import TcpState, reverse
from zmtpscope.dissect.tcp.directions import NOT_HERE, Directions
from zmtpscope.dissect.tcp.flows import Changes, Flows, change
from zmtpscope.dissect.tcp.sequence import MODULUS, distance
from zmtpscope.payloads.side import MAX_UNCLAIMED


class FastPath:
    """Reads a block of packets: call `take`, let the flow table read the other segments, then call `give` to write the
    results."""

    def __init__(self, sink: Sink, flows: Flows) -> None:
        self.sink = sink
        self.flows = flows
        options = sink.options
        self.is_open = not (options.details or options.frames or options.keys is not None)
        """Whether the fast path is used: not for details of single units, nor with CURVE keys."""
        self.learns = self.is_open and not options.decode_as
        """Whether connections may enter at their SYN: not with `-d` rules, which may select them."""
        self.openings = Openings(options)
        self.sessions = Sessions(sink)
        self.side_states = self.sessions.side_states
        self.current: CurrentBlock | None = None

    @property
    def messages(self) -> int:
        return int(self.side_states.counts[0].sum())

    @property
    def known_connections(self) -> int:
        """Number of connections that were on the fast path from their SYN on, and have completed their handshakes."""
        return sum(isinstance(each, KnownConnection) for each in self.sessions.connections.values())

    def adopt(self, connection: ZmtpConnection) -> None:
        """Move a connection to the fast path from the next block on, if it is suitable and worthwhile."""
        if self.is_open:
            self.sessions.adopt(connection)

    # -- reading a block ----------------------------------------------------------------------------------------------

    def take(
        self, block: SegmentBlock, directions: Directions, *, takes_new: bool
    ) -> tuple[Bool, list[Changes], list[Changes]]:
        """Read a block.

        Returns which directions it has read, and the openings and closings of their connections in the flow table. New
        connections enter only if `takes_new`.
        """
        here = self.sessions
        current = self.current = CurrentBlock(block, directions)
        takes_new = takes_new and self.learns and self.sink.budget.has_room_for_names
        if here.opening or takes_new:
            self._take_openings(current, takes_new=takes_new)
        slots = np.full(len(block.keys), -1)
        if here.slots:
            slots = np.array([here.slots.get(key, -1) for key in block.keys], np.int64)
        for new_connections in current.new_connections:
            slots[new_connections.pairs] = new_connections.slots, new_connections.slots + 1
        is_here: Bool = slots >= 0
        if is_here.any():
            self._take_sessions(current, slots, is_here)
        done: Bool = np.array([slot >= 0 and slot & ~1 in here.connections for slot in slots.tolist()], np.bool_)
        self._advance(current, slots, done)
        current.opening = {each: pair for each, pair in current.opening.items() if each.is_here}
        for pair in current.opening.values():
            done[[direction for direction in pair if direction != NOT_HERE]] = True
        current.done, current.slots = done, slots
        return done, self._opening(current), self._closing(current)

    def _beginning(self, current: CurrentBlock) -> dict[int, int]:
        """Return the directions that open new connections in order, each with its opposite direction or `NOT_HERE`."""
        here, directions, keys = self.sessions, current.directions, current.block.keys
        ones = np.flatnonzero(directions.flags_of_first & (SYN | ACK) == SYN)
        ones = ones[directions.begin_connections(ones, directions.opposites[ones])]
        others = directions.opposites[ones].tolist()
        busy = here.slots, here.opening, self.flows.sides
        return {
            one: other
            for one, other in zip(ones.tolist(), others, strict=True)
            if not any(keys[one] in each for each in busy)
        }

    def _enter_new_connections(self, current: CurrentBlock, beginning: dict[int, int], is_seen: bytearray) -> None:
        """Read the connections whose handshakes are complete within the block.

        `beginning` are the directions that open new connections, with their opposites. Directions marked in `is_seen`
        are skipped, and those of the connections are marked.
        """
        pairs = [pair for pair in beginning.items() if pair[1] != NOT_HERE and not is_seen[pair[0]]]
        if not pairs:
            return
        found = find(current.block, current.directions, np.array(pairs, np.int64).T, self.openings)
        for new_connections in found:
            self.sessions.enter_all(new_connections)
            self.openings.count(is_lost=False)
            np.frombuffer(is_seen, np.bool_)[new_connections.pairs] = True
        current.new_connections += found

    def _take_openings(self, current: CurrentBlock, *, takes_new: bool) -> None:
        here, directions, keys = self.sessions, current.directions, current.block.keys
        beginning = self._beginning(current) if takes_new else {}
        is_seen = bytearray(len(keys))
        self._enter_new_connections(current, beginning, is_seen)
        for number, key in enumerate(keys):
            if is_seen[number] or key in here.slots:
                continue
            each = here.opening.get(key)
            if each is not None:
                pair = directions.pair_of(each.keys)
            elif number in beginning and self.openings.is_worth_a_try():
                pair = number, beginning[number]
                each = KnownConnection((key, reverse(key)), self.openings.first)
                here.begin(each)
            else:
                continue
            for direction in pair:
                if direction != NOT_HERE:
                    is_seen[direction] = True
            known = self.openings.whole
            if not each.take(current.rows, directions, pair, self.openings):
                here.lose(each)
                self.openings.count(is_lost=True)
                continue
            current.opening[each] = pair
            if each.opening is not None:
                here.enter(each)
                self.openings.count(is_lost=False)
            if self.openings.whole > known:
                self._enter_new_connections(current, beginning, is_seen)
        if here.entering:
            here.begin_entering()

    def _take_sessions(self, current: CurrentBlock, slots: Int64, is_here: Bool) -> None:
        directions, side_states = current.directions, self.side_states
        in_order = directions.is_plain & (directions.first_sequences == side_states.next[slots])
        has_octets = directions.octet_counts > 0
        fits = in_order & (~has_octets | (side_states.sends[slots] != 0)) & ~self._are_late(current, slots, has_octets)
        for new_connections in current.new_connections:
            fits[new_connections.pairs] = True
        for slot in set((slots[is_here & ~fits] & ~1).tolist()):
            if not self._begins_or_ends(current, slot):
                self.sessions.release_unsuitable(slot)
        carrying = current.carrying = CarryingRows(current.block, directions, side_states.end[slots])
        sending = np.flatnonzero(is_here & has_octets)
        current.messages = self._read_frames(current, carrying, sending, slots[sending])
        self._look_inside(current, current.messages)
        if current.closing:
            runs = {slot: run for run, slot in enumerate(current.messages.slots.tolist())}
            for slot in [slot for slot in current.closing if not self._is_whole(current, slot, runs)]:
                self.sessions.release_unsuitable(slot)
            self._keep_answered(current, np.array(list(current.closing)))
        for new_connections in current.new_connections:
            for slot in new_connections.not_whole(current.messages, side_states).tolist():
                self.sessions.release_unsuitable(slot)
            self._keep_answered(current, new_connections.slots[new_connections.is_over])

    def _are_late(self, current: CurrentBlock, slots: Int64, has_octets: Bool) -> Bool:
        """Return which directions have octets that arrive so late that they may cause a finding.

        `slots` are the indexes of the directions in `SideStates`; `has_octets` is which of them have octets at all.
        """
        directions, side_states = current.directions, self.side_states
        late = has_octets & (side_states.awaited_from[slots] >= 0)
        first = directions.carrying_rows[directions.carrying_begins[:-1][late]]
        late[late] = current.block.times[first] > side_states.awaited_until[slots[late]]
        return late

    def _keep_answered(self, current: CurrentBlock, ending: Int64) -> None:
        assert current.alternating is not None
        for slot in ending[current.alternating.waiting(ending, self.side_states)].tolist():
            self.sessions.release_unsuitable(slot)

    def _begins_or_ends(self, current: CurrentBlock, slot: int) -> bool:
        """Whether a connection enters the fast path in this block, or ends in it in the usual way.

        `slot` is the index of its side 0 in `SideStates`.
        """
        here, directions, side_states = self.sessions.connections[slot], current.directions, self.side_states
        if not isinstance(here, KnownConnection):
            return False
        pair = directions.pair_of(here.keys)
        if slot not in self.sessions.entering:
            for number, direction in enumerate(pair):
                if direction == NOT_HERE:
                    continue
                if not directions.clean[direction] or directions.first_flags[direction] & SYN:
                    return False
                if directions.first_sequence[direction] != side_states.next[slot + number]:
                    return False
                if directions.octets[direction] and not side_states.sends[slot + number]:
                    return False
        fins = [
            number
            for number, direction in enumerate(pair)
            if direction != NOT_HERE and directions.fin_row[direction] >= 0
        ]
        if any(slot + number in side_states.fins for number in fins):
            return False
        if len(fins) == 2 or (fins and slot + 1 - fins[0] in side_states.fins):
            current.closing[slot] = pair
        elif fins:
            current.finishing[slot] = fins[0], directions.fin_row[pair[fins[0]]]
        return bool(fins) or slot in self.sessions.entering

    def _is_whole(self, current: CurrentBlock, slot: int, runs: dict[int, int]) -> bool:
        """Whether a connection ends after complete messages, with all octets that a side has acknowledged.

        `slot` is the index of its side 0 in `SideStates`; `runs` maps directions to their indexes in the messages.
        """
        side_states, directions, pair = self.side_states, current.directions, current.closing[slot]
        here, messages = self.sessions.connections.get(slot), current.messages
        assert messages is not None
        if not isinstance(here, KnownConnection):
            return False
        last = directions.last_fin(pair)
        for number, direction in enumerate(pair):
            place, octets = slot + number, 0 if direction == NOT_HERE else directions.octets[direction]
            run, end = runs.get(place), int(side_states.end[place]) + octets
            position, opened = (
                (int(side_states.position[place]), side_states.open[place])
                if run is None
                else (messages.positions[run], messages.open[run])
            )
            if position != end or opened:
                return False
            other = pair[1 - number]
            if other == NOT_HERE or directions.first_row[other] > last:
                acknowledged = int(side_states.acknowledged[slot + 1 - number])
            else:
                acknowledged = directions.acknowledgment_until(other, last)
            current.acknowledged[slot + 1 - number] = acknowledged
            behind = int(side_states.next[place]) + octets + (place not in side_states.fins)
            if distance(acknowledged, behind % MODULUS) > 0:
                return False
        return True

    def _read_frames(self, current: CurrentBlock, carrying: CarryingRows, directions: Int64, slots: Int64) -> Messages:
        """Parse the frames of these directions, which have octets. Releases connections with other data.

        `slots` are the indexes of the directions in `SideStates`.
        """
        here = self.sessions
        is_here = [slot in here.sides for slot in slots.tolist()]
        runs = SegmentRuns(self.side_states, carrying, directions[is_here], slots[is_here])
        current.sides = [here.sides[slot] for slot in runs.slots.tolist()]
        messages = Messages(runs)
        current.alternating, not_alternating = requests.alternating(messages, carrying)
        current.topics, unmatched = published(messages, current.sides)
        for leaving in (runs.slots[runs.others], runs.slots[messages.too_long], not_alternating, unmatched):
            for slot in leaving.tolist():
                here.release_unsuitable(slot)
        return messages

    def _look_inside(self, current: CurrentBlock, messages: Messages) -> None:
        """Find the messages that need no payload dissector, and those that are plain text or JSON.

        Releases connections whose payloads can be dissected only with both sides, unless rules check their messages.
        """
        slots, asked, sides = messages.slots.tolist(), self.sessions.asked, current.sides
        if asked is None or not len(messages):
            current.inside = nothing_inside(len(slots))
            return
        socket_types = [side.regime.socket_type for side in sides]
        inside = current.inside = look_inside(messages, socket_types, self.sessions.payloads, asked)
        undissected = inside.undissected
        for claimed in inside.claimed:
            for run in claimed.runs.nonzero()[0].tolist():
                if sides[run].judge is not None or not self.sessions.has_seen_all(slots[run]):
                    undissected[run] = False
        asking = (~undissected).nonzero()[0].tolist()
        judges = {sides[run].judge for run in asking if sides[run].judge is not None}
        for run in asking:
            if sides[run].judge is None and inside.is_followed[run]:
                self.sessions.release_unsuitable(slots[run])
        if judges:  # rules that check both sides need all messages of a block dissected, or none
            undissected &= [side.judge not in judges for side in sides]

    def _advance(self, current: CurrentBlock, slots: Int64, done: Bool) -> None:
        block, directions, side_states = current.block, current.directions, self.side_states
        chosen, rows, octets = slots[done], directions.last_rows[done], directions.octet_counts[done]
        side_states.next[chosen] = (side_states.next[chosen] + octets) % MODULUS
        side_states.acknowledged[chosen] = directions.acknowledgments[done]
        side_states.blocks[chosen] += 1
        side_states.last[:, chosen] = block.ordinal + ORDINALS * rows, block.packets[rows], block.times[rows]

    def _opening(self, current: CurrentBlock) -> list[Changes]:
        """Return the openings of connections that are still on the fast path."""
        found: list[Changes] = [each for new in current.new_connections for each in new.opening_of(self.flows)]
        for each, pair in current.opening.items():
            if each.tcp is None:
                row = current.directions.first_row[pair[0]]
                found.append(change(row, partial(each.open, self.flows)))
        return found

    def _closing(self, current: CurrentBlock) -> list[Changes]:
        """Return the closings of connections that are still on the fast path."""
        found = [new.closing_of(self.flows) for new in current.new_connections]
        for slot, pair in current.closing.items():
            known = self.sessions.connections.get(slot)
            if isinstance(known, KnownConnection):
                one, other = (self._finished(current, place, direction) for place, direction in enumerate(pair, slot))
                close = partial(known.close, self.flows, (one, other))
                found.append(change(current.directions.last_fin(pair), close))
        return found

    def _finished(self, current: CurrentBlock, slot: int, direction: int) -> TcpState:
        """Return the final TCP state of a side whose connection ends in the block.

        `slot` is the index of the side in `SideStates`, `direction` its number in the block.
        """
        state, octets = self.side_states.tcp(slot), 0 if direction == NOT_HERE else current.directions.octets[direction]
        fin = state.fin or current.rows.arrival(current.directions.fin_row[direction])
        return TcpState.after(state.initial, state.octets + octets, current.acknowledged[slot], fin, fin)

    # -- writing the results ------------------------------------------------------------------------------------------

    def give(self) -> None:
        """Write the results of the block. The flow table must have opened its connections before."""
        current, self.current = self.current, None
        if current is None:
            return
        if self.sink.options.index:
            self.sink.batch.segments += segments_read(current, self.sessions)
        records = [NewConnectionRecords(new_connections, self.sink) for new_connections in current.new_connections]
        for each_records, new_connections in zip(records, current.new_connections, strict=True):
            each_records.emit()
            self.openings.count_entered(new_connections.path.steps[-1], len(new_connections.numbers))
        for each in current.opening:
            each.emit(self.sink)
        for entering in self.sessions.entering.values():
            self.openings.count_entered(entering.steps[-1])
        self.sessions.settle()
        for new_connections in current.new_connections:
            self.sessions.settle_new_connections(new_connections, self.openings.first, current.rows)
        if current.messages is not None and current.carrying is not None:
            self._give_messages(current, current.messages, current.carrying)
        if current.alternating is not None:
            requests.remember(current.alternating, self.side_states)
        for slot, (number, row) in current.finishing.items():
            known = self.sessions.connections.get(slot)
            if isinstance(known, KnownConnection):
                self.side_states.finish(slot + number, current.rows.arrival(row))
        for slot in current.closing:
            self._finish(slot)
        for each_records, new_connections in zip(records, current.new_connections, strict=True):
            each_records.finish(self.side_states)
            self.sessions.dismiss(new_connections)
        if current.messages is not None:
            self._release_over_limits(current.messages)

    def _finish(self, slot: int) -> None:
        known = self.sessions.connections.get(slot)
        if isinstance(known, KnownConnection) and known.tcp is not None and known.tcp.closed:
            known.finish(self.sink, (self.side_states.counts_of(slot), self.side_states.counts_of(slot + 1)))
            self.sessions.remove(slot)

    def _give_messages(self, current: CurrentBlock, messages: Messages, carrying: CarryingRows) -> None:
        """Count the messages of connections that are still on the fast path, and make message rows if needed."""
        slots, side_states = messages.slots.tolist(), self.side_states
        here = [run for run, slot in enumerate(slots) if slot in self.sessions.sides]
        if not here:
            return
        chosen = np.array(here, np.int64)
        judged = self._give_rows(current, messages, carrying, chosen)
        self._count_undissected(current, messages, chosen)
        held = int(side_states.memory[messages.slots[chosen]].sum())
        store_progress(messages, carrying, chosen)
        self.sink.budget.take(int(side_states.memory[messages.slots[chosen]].sum()) - held)
        for each, is_looked_into in judged.items():
            each.write(is_looked_into=is_looked_into)

    def _release_over_limits(self, messages: Messages) -> None:
        """Release connections that use too much memory; all of them if their sum exceeds the common limit."""
        held = self.side_states.held
        for slot in [slot for slot in messages.slots.tolist() if len(held.get(slot, b"")) > MAX_HELD]:
            self.sessions.release_unsuitable(slot)
        if self.sink.budget.is_exceeded:
            self.sessions.release_all()

    def _give_rows(
        self, current: CurrentBlock, messages: Messages, carrying: CarryingRows, chosen: Int64
    ) -> dict[MessageRows, bool]:
        """Make tables of the messages of the chosen sides, if an output or a rule needs them.

        Returns the objects that check the messages, each with whether its messages need no dissection.
        """
        slots, counts = messages.slots.tolist(), messages.counts.messages
        wanted = counts[chosen] > 0
        if not self.sink.options.records:
            wanted &= (self.side_states.is_judged[messages.slots[chosen]] != 0) | ~current.inside.undissected[chosen]
        judged: dict[MessageRows, bool] = {}
        plain: dict[int, PlainSide] = {}
        """Sides of runs whose messages are neither checked nor dissected."""
        rows: Rows | None = None
        for run in chosen[wanted].tolist():
            side, is_undissected = self.sessions.side_of(slots[run]), bool(current.inside.undissected[run])
            if side.judge is None and is_undissected:
                if side.is_written:
                    plain[run] = side
                continue
            if side.wants_rows or not is_undissected:
                rows = rows or Rows(messages, carrying, current.inside.texts, current.inside.json, current.topics)
                table = rows.table_of([run], [side], are_undissected=is_undissected)
                if side.judge is None or side.reading is None:
                    parts = [*table.by_sender()]
                    self._ask(slots[run], parts)
                    self.sink.batch.messages += parts if side.is_written else []
                else:
                    side.reading.messages.in_clear.message_runs += table.by_sender()
                    judged[side.judge] = judged.get(side.judge, True) and is_undissected
            if side.judge is not None and side.payloads is not None and side.is_looked_into and is_undissected:
                side.payloads.side.pass_by(int(counts[run]))
        if plain:
            rows = rows or Rows(messages, carrying, current.inside.texts, current.inside.json, current.topics)
            self.sink.batch.messages.append(rows.table_of([*plain], [*plain.values()], are_undissected=True))
        return judged

    def _ask(self, slot: int, tables: list[MessageTable]) -> None:
        payloads, facts = self.sessions.payloads_of(slot), self.sessions.facts_of(slot)
        for table in tables:
            for arrival, finding, unit in ask(payloads, table, facts):
                note = Note(slot & 1, finding, arrival, arrival.ordinal, unit=unit, source=table.source)
                self.sessions.writer_of(slot).note(note)

    def _count_undissected(self, current: CurrentBlock, messages: Messages, chosen: Int64) -> None:
        """Count the messages of the chosen sides as not dissected, unless rules or dissectors read their sides."""
        if self.sessions.asked is None:
            return
        rest = current.inside.undissected.copy()
        for claimed in current.inside.claimed:
            for run in chosen[(claimed.runs & current.inside.undissected)[chosen]].tolist():
                claimed.take(run, self.sessions.payloads_of(int(messages.slots[run])))
            rest &= ~claimed.runs
        chosen = chosen[rest[chosen]]
        for run in chosen.tolist() if self.sessions.payloads else ():
            payloads = self.sessions.payloads.get(int(messages.slots[run]))
            if payloads is None or current.sides[run].judge is not None:
                continue
            if self.sink.options.records or payloads.wants_rows:
                payloads.side.pass_by(int(messages.counts.messages[run]))
        slots, counts = messages.slots[chosen], messages.counts.messages[chosen]
        unclaimed = self.side_states.unclaimed[slots]
        is_looked_into = (unclaimed <= MAX_UNCLAIMED) | self.sink.options.records
        is_looked_into &= self.side_states.is_judged[slots] == 0
        self.side_states.unclaimed[slots] = unclaimed + np.where(is_looked_into, counts, 0)
