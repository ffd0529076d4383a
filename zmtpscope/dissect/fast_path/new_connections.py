"""New connections with handshakes that are complete within one block and equal known ones.

`whole_openings.py` finds them. Most short connections also end in the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.arrivals import Stamp, tuples_of
from zmtpscope.dissect.fast_path.identities import Identities
from zmtpscope.dissect.fast_path.known import LISTENER, BlockRows, KnownConnection
from zmtpscope.dissect.fast_path.openings import LearnedNote, Path, Segment, Step
from zmtpscope.dissect.fast_path.segment_runs import Messages
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.identity import Stream, stream_of
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.tcp.connection import Connection, LastSeen
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Changes, Flows
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.records import to_text


class Streams(dict[int, tuple[Stream, Stream, Stream]]):
    """The `Stream`s of new connections, by index: of side 0, of side 1, and of the connection. Made on first use."""

    def __init__(self, new: NewConnections) -> None:
        super().__init__()
        self._new = new

    def __missing__(self, place: int) -> tuple[Stream, Stream, Stream]:
        number, incarnation = self._new.numbers[place]
        client = stream_of(self._new.keys_of[place][0], self._new.starts[place].time, incarnation, number)
        whole = Stream(number, client.conn_id, None, *client[3:])
        streams = self[place] = client, client.turned(), whole
        return streams


class NewConnections:
    """New connections of a block with equal handshakes: index i of each column or list is connection i.

    Columns with two rows contain side 0 and side 1.
    """

    def __init__(self, path: Path, pairs: Int64, rows: Int64, block: SegmentBlock, directions: Directions) -> None:
        self.path, self.opening = path, path.opening
        self.block, self.directions = block, directions
        self.pairs = pairs
        """Directions of the block, by side."""
        self.rows = rows
        """The rows of the block that carry each segment of the path."""
        self.is_over: Bool = directions.fin_rows[pairs[0]] >= 0
        """Whether both sides have sent FIN; otherwise neither has."""
        self.is_here: Bool = np.ones(pairs.shape[1], np.bool_)
        """Whether the fast path reads the connection's part of the block; otherwise the slow path does."""
        self.slots: Int64 = np.empty(0, np.int64)
        """Slot of side 0; side 1 has the next one."""
        self.places: dict[int, int] = {}
        """Entry by slot of side 0."""
        self.numbers: dict[int, tuple[int, int]] = {}
        """Numbers and incarnations by entry, in order of the SYNs, once the flow table knows the connections."""
        self.tcp: dict[int, Connection] = {}
        """Connections that continue after the block, by entry."""
        self.streams = Streams(self)
        self.writers: dict[int, RecordWriter] = {}
        self.begins = directions.first_rows[pairs[0]]
        """Rows of the SYNs, ascending."""
        # as lists
        last = directions.last_rows[pairs].max(axis=0)
        self.keys_of = [(block.keys[one], block.keys[other]) for one, other in pairs.T.tolist()]
        self.starts = tuples_of(Stamp, block.times[self.begins].tolist(), block.packets[self.begins].tolist())
        self.initials: list[int] = directions.first_sequences[pairs[0]].tolist()
        self.last_seen = tuples_of(LastSeen, block.times[last].tolist(), self.initials)

    def __len__(self) -> int:
        return len(self.is_over)

    def begin(self, slots: Int64, side_states: SideStates) -> None:
        self.slots, self.places = slots, {slot: place for place, slot in enumerate(slots.tolist())}
        initial, acknowledged = self.directions.first_sequences[self.pairs], self.directions.acknowledgments[self.pairs]
        for number, (side, end) in enumerate(zip(self.opening.sides, self.opening.ends, strict=True)):
            places = slots + number
            side_states.begin(places, side, end)
            side_states.initial[places], side_states.next[places] = initial[number], (initial[number] + 1) % MODULUS
            side_states.acknowledged[places] = acknowledged[number]

    def leave(self, slot: int) -> None:
        self.is_here[self.places[slot]] = False

    def not_whole(self, messages: Messages, side_states: SideStates) -> Int64:
        """Return the slots of the connections that end with an incomplete message.

        A slot is the index of side 0 in `SideStates`.
        """
        directions, pairs, slots = self.directions, self.pairs, np.array((self.slots, self.slots + 1))
        run_of = np.full(len(directions.clean), -1)
        run_of[messages.directions] = np.arange(len(messages.directions))
        runs = run_of[pairs]
        has_turn = runs >= 0
        positions, opened = side_states.position[slots], np.zeros(slots.shape, np.int64)
        positions[has_turn], opened[has_turn] = messages.positions[runs[has_turn]], messages.open[runs[has_turn]]
        is_wrong = ((positions != directions.octet_counts[pairs]) | (opened > 0)).any(axis=0)
        found: Int64 = self.slots[is_wrong & self.is_over & self.is_here]
        return found

    # -- opening, continuing and ending -------------------------------------------------------------------------------

    def over(self) -> list[int]:
        over: list[int] = (self.is_here & self.is_over).nonzero()[0].tolist()
        return over

    def _continuing(self) -> list[int]:
        continuing: list[int] = (self.is_here & ~self.is_over).nonzero()[0].tolist()
        return continuing

    def opening_of(self, flows: Flows) -> Iterator[Changes]:
        """Yield the SYNs of the ended and of the continuing connections, with functions that open them."""
        over, continuing = self.over(), self._continuing()

        def pass_by(low: int, high: int) -> None:
            places = over[low:high]
            ones, others = zip(*[self.keys_of[place] for place in places], strict=True)
            numbers = flows.pass_by(ones, others, [self.starts[place].time for place in places])
            self.numbers.update(zip(places, numbers, strict=True))

        def begin(low: int, high: int) -> None:
            for place in continuing[low:high]:
                tcp = flows.begin(self.keys_of[place][0], int(self.begins[place]), self.initials[place])
                self.tcp[place], self.numbers[place] = tcp, (tcp.number, tcp.incarnation)

        yield self.begins[over], pass_by
        yield self.begins[continuing], begin

    def closing_of(self, flows: Flows) -> Changes:
        """Return the ends of the ended connections, and a function that closes them."""
        over = np.array(self.over(), np.int64)
        ends = self.directions.fin_rows[self.pairs[:, over]].max(axis=0)
        order = np.argsort(ends)
        places: list[int] = over[order].tolist()

        def close(low: int, high: int) -> None:
            some = places[low:high]
            flows.remember_closed([self.keys_of[place] for place in some], [self.last_seen[place] for place in some])

        return ends[order], close

    def continuing(self, first: Step, sink: Sink, rows: BlockRows) -> Iterator[tuple[int, KnownConnection]]:
        """Yield (index of side 0 in `SideStates`, connection) for the connections that continue after the block.

        `first` is the state of handshakes before their first segment.
        """
        sizes = list(map(len, self.path.octets))
        for place in self._continuing():
            known = KnownConnection(self.keys_of[place], first)
            segments = [
                Segment(side, rows.octets(row)[:size], rows.arrival(row))
                for side, row, size in zip(self.path.sides, self.rows[:, place].tolist(), sizes, strict=True)
            ]
            known.continue_from(self.tcp[place], self.writer_of(place, sink), self.path, segments)
            yield int(self.slots[place]), known

    # -- the connections ----------------------------------------------------------------------------------------------

    def writer_of(self, place: int, sink: Sink) -> RecordWriter:
        writer = self.writers.get(place)
        if writer is None:
            one, other, _ = self.streams[place]
            writer = self.writers[place] = RecordWriter(sink, (one, other), LISTENER)
            for learned in itertools.chain.from_iterable([step.learned for step in self.path.steps]):
                if isinstance(learned, LearnedNote):
                    writer.count_written(learned.side, learned.finding.id)
        return writer

    @cached_property
    def identities(self) -> list[Identities]:
        """The identities that each connection announced, if they differ from the ones of earlier connections."""
        found: list[list[str | None]] = [[None] * len(self), [None] * len(self)]
        for side, rows, identity in zip(self.path.sides, self.rows, self.path.identities, strict=True):
            if identity is not None:
                data, begins = self.block.data, self.block.starts[rows].tolist()
                found[side] = [to_text(data[begin + identity.start : begin + identity.stop]) for begin in begins]
        return list(zip(*found, strict=True))

    def identity(self, slot: int) -> str | None:
        return self.opening.identities_with(self.identities[self.places[slot & ~1]])[slot & 1]

    def side(self, slot: int) -> PlainSide:
        number = slot & 1
        like = self.opening.sides[number]
        assert like is not None
        return like.of(self.streams[self.places[slot & ~1]][number])
