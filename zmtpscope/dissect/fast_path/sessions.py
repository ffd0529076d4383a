"""The connections on the fast path.

They enter at their SYN if they open like earlier ones, or after their handshakes (adopted). A released connection
continues on the slow path as if it had never been on the fast path.
"""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.fast_path.known import BlockRows, KnownConnection
from zmtpscope.dissect.fast_path.new_connections import NewConnections
from zmtpscope.dissect.fast_path.openings import LONGEST, Step
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import PlainSide, plain_sides
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.payload_rows import PayloadRows, SideFacts, side_payloads
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.plain_state import Counts, PlainState
from zmtpscope.dissect.tcp.connection import Connection

FEWEST_BLOCKS, STAYS_OUT = 2, 8
"""A connection released after fewer blocks than the first number is not adopted again in as many blocks as the
second."""


class Sessions:
    """The connections on the fast path.

    Each has two slots, indexes of its sides in `SideStates`: an even one for side 0, and the next one for side 1.
    """

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.opening: dict[bytes, KnownConnection] = {}
        """Connections in their opening, by the key of either direction."""
        self.slots: dict[bytes, int] = {}
        """Slots of connections after their opening, by the flow key of either direction."""
        self.connections: dict[int, ZmtpConnection | KnownConnection | NewConnections] = {}
        """Connections by slot of side 0. All slots of one `NewConnections` refer to it."""
        self.sides: dict[int, PlainSide] = {}
        """By slot, the sides whose messages the fast path reads."""
        self.entering: dict[int, KnownConnection] = {}
        """Connections that complete their opening in the current block, by slot of side 0."""
        self.payloads: dict[int, PayloadRows] = {}
        """Payload state of sides whose messages are dissected, by slot; messages of others are only counted."""
        self.side_states = SideStates()
        self.released: list[ZmtpConnection] = []
        self._free: list[int] = []
        self.asked = asked_about(sink.options)
        """The payload state for a side without one of its own, or None."""

    # -- entering ------------------------------------------------------------------------------------------------------

    def adopt(self, connection: ZmtpConnection) -> None:
        """Move a connection to the fast path from the next block on, if it is suitable and worthwhile."""
        if connection.stays_out:
            connection.stays_out -= 1
            return
        sides = plain_sides(connection) if connection.is_quiet() else None
        if sides is None:
            return
        if not sides:
            connection.stays_out = STAYS_OUT
            return
        one, other = connection.tcp.tcp
        slot = self._slot(connection, (one.key, other.key), sides)
        for each, state in enumerate(connection.leave(sides), slot):
            self.side_states.resume(each, self.sides.get(each), state)
            self.sink.budget.take(int(self.side_states.memory[each]))
            payloads = state.payloads
            if payloads is not None and (self.sides[each].judge is not None or payloads.was_asked):
                self.payloads[each] = payloads

    def begin(self, each: KnownConnection) -> None:
        self.opening.update(dict.fromkeys(each.keys, each))

    def enter(self, each: KnownConnection) -> None:
        """Assign slots (indexes in `SideStates`) to a connection that completes its handshakes in the current block."""
        assert each.opening is not None
        for key in each.keys:
            del self.opening[key]
        here = {number: side for number, side in enumerate(each.opening.sides) if side is not None}
        self.entering[self._slot(each, each.keys, here)] = each

    def begin_entering(self) -> None:
        for slot, each in self.entering.items():
            for place, state in enumerate(each.leave(), slot):
                self.side_states.resume(place, self.sides.get(place), state)

    def enter_all(self, new_connections: NewConnections) -> None:
        """Assign slots (indexes in `SideStates`) to new connections, whose handshakes are complete within the block."""
        while len(self._free) < len(new_connections):
            self._free += reversed(self.side_states.grow())
        slots = [self._free.pop() for _ in range(len(new_connections))]
        new_connections.begin(np.array(slots), self.side_states)
        self.connections.update(dict.fromkeys(slots, new_connections))
        for number, side in enumerate(new_connections.opening.sides):
            if side is not None:
                self.sides.update(dict.fromkeys([slot + number for slot in slots], side))

    def settle_new_connections(self, new_connections: NewConnections, first: Step, rows: BlockRows) -> None:
        """Treat new connections that continue after the current block as regular ones.

        `first` is the state of handshakes before their first segment.
        """
        for slot, known in new_connections.continuing(first, self.sink, rows):
            self._enter(slot, known, known.keys, known.stay(self.sink.budget))
            self._begin_other_sides(slot)

    def settle(self) -> None:
        """Treat the connections that entered in the current block as regular ones, after the block."""
        for slot, each in self.entering.items():
            self.sides.update((slot + number, side) for number, side in each.stay(self.sink.budget).items())
            self._begin_other_sides(slot)
        self.entering = {}

    def _begin_other_sides(self, slot: int) -> None:
        """Store how many octets have arrived on the sides of a connection that the fast path does not read.

        `slot` is the index of its side 0 in `SideStates`.
        """
        for place in (slot, slot + 1):
            if place not in self.sides:
                self.side_states.end[place] = self.side_states.position[place]

    def _slot(
        self, connection: ZmtpConnection | KnownConnection, keys: tuple[bytes, bytes], sides: dict[int, PlainSide]
    ) -> int:
        if not self._free:
            self._free += reversed(self.side_states.grow())
        slot = self._free.pop()
        self._enter(slot, connection, keys, sides)
        return slot

    def _enter(
        self,
        slot: int,
        connection: ZmtpConnection | KnownConnection,
        keys: tuple[bytes, bytes],
        sides: dict[int, PlainSide],
    ) -> None:
        self.connections[slot] = connection
        self.slots[keys[0]], self.slots[keys[1]] = slot, slot + 1
        for number, side in sides.items():
            self.sides[slot + number] = side

    def side_of(self, slot: int) -> PlainSide:
        here = self.connections[slot & ~1]
        if isinstance(here, NewConnections):
            self.sides[slot] = here.side(slot)
        return self.sides[slot]

    # -- payloads -----------------------------------------------------------------------------------------------------

    def payloads_of(self, slot: int) -> PayloadRows:
        payloads = self.payloads.get(slot)
        if payloads is None:
            connection, side = self.connections[slot & ~1], self.sides[slot]
            if isinstance(connection, ZmtpConnection) and side.payloads is not None:
                payloads = side.payloads
            else:
                payloads = asked_about(self.sink.options)
            assert payloads is not None
            payloads.side.unclaimed = int(self.side_states.unclaimed[slot])
            self.payloads[slot] = payloads
        return payloads

    def facts_of(self, slot: int) -> SideFacts:
        connection, number = self.connections[slot & ~1], slot & 1
        if not isinstance(connection, ZmtpConnection):
            side = slot if isinstance(connection, NewConnections) else number
            return SideFacts(connection.identity(side), [], True)
        identity = connection.streams[number].identity_at(int(self.side_states.end[slot]))
        return SideFacts(identity, [], connection.tcp.tcp[number].begun)

    def has_seen_all(self, slot: int) -> bool:
        """Whether the dissectors of a side have received all its messages so far.

        `slot` is the index of the side in `SideStates`.
        """
        if isinstance(self.connections.get(slot & ~1), ZmtpConnection):
            return self.payloads_of(slot).has_seen_all(self.facts_of(slot))
        payloads = self.payloads.get(slot)
        return payloads is None or not payloads.unseen

    def writer_of(self, slot: int) -> RecordWriter:
        connection = self.connections[slot & ~1]
        if isinstance(connection, NewConnections):
            return connection.writer_of(connection.places[slot & ~1], self.sink)
        assert connection.writer is not None
        return connection.writer

    # -- leaving ------------------------------------------------------------------------------------------------------

    def release_unsuitable(self, slot: int) -> None:
        """Release a connection with unsuitable data.

        `slot` is the index of its side 0 in `SideStates`. After few blocks on the fast path, it is not adopted again
        soon.
        """
        slot &= ~1
        here = self.connections.get(slot)
        if here is None:
            return
        was_brief = self.side_states.blocks[slot : slot + 2].max() < FEWEST_BLOCKS
        if isinstance(here, ZmtpConnection):
            here.stays_out = STAYS_OUT if was_brief else 0
        elif isinstance(here, NewConnections):
            here.path.steps[-1].in_vain += 1
        elif was_brief:
            here.steps[-1].in_vain += 1
            here.steps[-1].entered -= slot not in self.entering
        self.release(slot)

    def release(self, slot: int) -> None:
        """Move a connection to the slow path, if it is still on the fast path.

        `slot` is the index of its side 0 in `SideStates`.
        """
        slot &= ~1
        here = self.connections.get(slot)
        if here is None:
            return
        if slot in self.entering:
            each = self.entering.pop(slot)  # undo the block, because unsuitable data follows the opening
            self.remove(slot)
            each.step_back()
            self.lose(each)
            return
        if isinstance(here, NewConnections):
            here.leave(slot)
            self._forget([slot])
            return
        states = self._leave(slot), self._leave(slot + 1)
        tcp = states[0].tcp, states[1].tcp
        connection = here.read_again(self.sink, tcp) if isinstance(here, KnownConnection) else here
        assert connection is not None
        connection.resume(states)
        self.remove(slot)
        if here is not connection:
            self.released.append(connection)

    def _leave(self, slot: int) -> PlainState:
        if slot not in self.sides:
            return PlainState(self.side_states.tcp(slot))
        self.sink.budget.take(-int(self.side_states.memory[slot]))
        is_counted = slot in self.payloads or self.side_states.unclaimed[slot]
        return self.side_states.leave(slot)._replace(payloads=self.payloads_of(slot) if is_counted else None)

    def remove(self, slot: int) -> None:
        here = self.connections[slot]
        assert not isinstance(here, NewConnections)
        for key in here.keys if isinstance(here, KnownConnection) else [tcp.key for tcp in here.tcp.tcp]:
            del self.slots[key]
        self._forget([slot])

    def dismiss(self, new_connections: NewConnections) -> None:
        self._forget(new_connections.slots[new_connections.over()].tolist())

    def _forget(self, slots: list[int]) -> None:
        """Free these slots of side 0, and the slots of side 1 after them."""
        both = [slot + number for slot in slots for number in (0, 1)]
        for slot in slots:
            del self.connections[slot]
        for slot in both:
            self.sides.pop(slot, None)
        for slot in self.payloads.keys() & both if self.payloads else ():
            del self.payloads[slot]
        self.side_states.clear(both)
        self._free += slots

    def lose(self, each: KnownConnection) -> None:
        """Move a connection with incomplete handshakes to the slow path."""
        for key in each.keys:
            self.opening.pop(key, None)
        each.is_here = False
        if each.tcp is None:
            return
        connection = each.read_again(self.sink, each.state)
        if connection is not None:
            self.released.append(connection)

    def end_of_capture(self) -> dict[Connection, tuple[KnownConnection, tuple[Counts, Counts]]]:
        """Remove all connections at the end of the capture.

        Returns the connections that entered at their SYN and have sent only complete messages, with the counts of their
        messages; the caller closes and finishes them. All others are released.
        """
        found, states = {}, self.side_states
        for slot, known in [*self.connections.items()]:
            if isinstance(known, KnownConnection) and known.tcp is not None and states.is_between_messages(slot):
                known.tcp.resume((states.tcp(slot), states.tcp(slot + 1)))
                found[known.tcp] = known, (states.counts_of(slot), states.counts_of(slot + 1))
                self.remove(slot)
        self.release_all()
        return found

    def drain(self) -> list[ZmtpConnection]:
        """Remove and return the released connections that were on the fast path from their SYN on."""
        released, self.released = self.released, []
        return released

    def release_all(self) -> None:
        for slot in list(self.connections):
            self.release(slot)
        for each in list(dict.fromkeys(self.opening.values())):
            self.lose(each)

    def release_one(self, key: bytes) -> None:
        """Move the connection with this flow key to the slow path, if it is on the fast path."""
        if key in self.slots:
            self.release(self.slots[key])
        elif key in self.opening:
            self.lose(self.opening[key])

    def release_late(self, now: int) -> None:
        """Release half-closed connections, and connections with slow handshakes, at the time `now` (ns)."""
        for slot in list(self.side_states.fins):
            self.release(slot)
        for each in list(dict.fromkeys(self.opening.values())):
            if each.segments and each.segments[0].arrival.time + LONGEST <= now:
                self.lose(each)


def asked_about(options: Options) -> PayloadRows | None:
    """Return the payload state for sides without one of their own; None without dissectors."""
    side = side_payloads(options, lambda rule: False)
    return None if side is None else PayloadRows(options, side)
