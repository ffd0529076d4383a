"""New connections that open within one block, read all at once.

From SYN to the end of the opening, their octets equal those of an earlier connection. Most short connections also end
in the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.connection.outcome import Outcome
from zmtpscope.dissect.fast_path.identities import Identities
from zmtpscope.dissect.fast_path.known import BlockRows, KnownConnection, emit_end, emit_learned
from zmtpscope.dissect.fast_path.openings import (
    LONGEST,
    LearnedEvent,
    LearnedFact,
    LearnedNote,
    Openings,
    Path,
    Segment,
    Step,
)
from zmtpscope.dissect.fast_path.segment_runs import Messages
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.record_writer import RecordWriter, count_event, count_finding, put_events
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.plain_state import Counts
from zmtpscope.dissect.tcp.connection import Connection, TcpState
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Deferred, Flows
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.records import to_text


class NewConnections:
    """New connections with the same opening: entry i of each column belongs to connection i.

    Columns with two rows contain side 0 and side 1.
    """

    def __init__(self, path: Path, pairs: Int64, rows: Int64, block: SegmentBlock, directions: Directions) -> None:
        self.path, self.opening = path, path.opening
        self.block, self.keys, self.directions = block, block.keys, directions
        self.pairs = pairs
        """Directions of the block, by side."""
        self.rows = rows
        """The rows of the block that carry each segment of the path."""
        self.is_over: Bool = directions.fin_rows[pairs[0]] >= 0
        """Whether both sides have sent FIN; otherwise neither has."""
        self.slots: Int64 = np.empty(0, np.int64)
        """Slot of side 0; side 1 has the next one."""
        self.places: dict[int, int] = {}
        """Entry by slot of side 0."""
        self.is_here: Bool = np.ones(pairs.shape[1], np.bool_)
        """Whether the fast path reads the connection's part of the block; otherwise the slow path does."""
        self.tcp: dict[int, Connection] = {}
        """Open connections, by entry."""
        self.writers: dict[int, RecordWriter] = {}

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
        """Return the slots of ended connections with an incomplete last message."""
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

    # -- opening connections -------------------------------------------------------------------------------------------

    def deferred(self, flows: Flows) -> list[Deferred]:
        """Return callbacks that open the connections at their SYN, and close the ended ones."""
        block = self.block
        continuing, over = self._continuing(), self.over()
        pairs, directions = self.pairs[:, over], self.directions
        begins = directions.first_rows[self.pairs[0]]
        starts, keys = arrivals_of(block, begins[over]), [self.keys[direction] for direction in pairs[0].tolist()]
        states = [_final_states(directions, each, block) for each in pairs]
        last_times = block.times[directions.last_rows[pairs]].max(axis=0)
        opened = zip(over, begins[over].tolist(), keys, starts, zip(*states, strict=True), strict=True)
        closed = zip(over, directions.fin_rows[pairs].max(axis=0).tolist(), last_times.tolist(), strict=True)
        return [
            *(
                (row, partial(self._open, flows, place, row))
                for place, row in zip(continuing, begins[continuing].tolist(), strict=True)
            ),
            *((row, partial(self._open_ended, flows, place, *of_flow)) for place, row, *of_flow in opened),
            *((row, partial(self._close, flows, place, time)) for place, row, time in closed),
        ]

    def _open(self, flows: Flows, place: int, row: int) -> None:
        client = self.pairs[0, place]
        self.tcp[place] = flows.begin(self.keys[client], row, self.directions.first_sequence[client])

    def _open_ended(
        self, flows: Flows, place: int, key: bytes, start: Arrival, states: tuple[TcpState, TcpState]
    ) -> None:
        self.tcp[place] = flows.begin_and_end(key, start, states)

    def _close(self, flows: Flows, place: int, time: int) -> None:
        """Remember a connection that ended in this block at `time`, so that late packets open no new one."""
        flows.remember_closed(self.tcp[place], time)

    # -- records ------------------------------------------------------------------------------------------------------

    def emit(self, sink: Sink) -> None:
        """Write the records of these connections, which follow one learned path of segments.

        If no output needs records, events of ended connections are only counted.
        """
        places = list(self.tcp) if sink.options.records else self._continuing()
        counted = [] if sink.options.records else self.over()
        writers = [self.writer_of(place, sink) for place in places]
        identities = [self.identities(place) for place in places]
        for decided, step in enumerate(self.path.steps):
            for learned in step.learned:
                arrivals = self._arrivals(decided, learned.first, places)
                if isinstance(learned, LearnedEvent):
                    fields = [learned.fields(each) for each in identities]
                    streams = [writer.streams[learned.side] for writer in writers]
                    put_events(sink, learned.event, fields, streams, arrivals)
                    count_event(sink.summary, learned.event, len(counted))
                    continue
                for place, writer, named, at in zip(places, writers, identities, arrivals, strict=True):
                    emit_learned(writer, self.tcp[place], learned, named, at)
                if counted:
                    self._count(learned, counted, self._arrivals(decided, learned.first, counted), sink)

    def _count(
        self, learned: LearnedNote | LearnedFact, places: list[int], arrivals: Iterator[Arrival], sink: Sink
    ) -> None:
        """Count a finding, or report a fact, of several connections, each with its packet."""
        for place, at in zip(places, arrivals, strict=True):
            if isinstance(learned, LearnedFact):
                emit_learned(self.writer_of(place, sink), self.tcp[place], learned, self.identities(place), at)
            else:
                (client, _), endpoint = self.tcp[place].addresses
                count_finding(sink.summary, learned.finding, 1, endpoint, client, at)

    def _arrivals(self, decided: int, first: int, places: list[int]) -> Iterator[Arrival]:
        """Yield, by connection, the packet with the segment `first` of the path, and the ordinal of the segment
        `decided`."""
        block, rows = self.block, self.rows[first, places]
        ordinals = block.ordinal + ORDINALS * self.rows[decided, places]
        return map(Arrival, ordinals.tolist(), block.packets[rows].tolist(), block.times[rows].tolist())

    def writer_of(self, place: int, sink: Sink) -> RecordWriter:
        writer = self.writers.get(place)
        if writer is None:
            tcp = self.tcp[place]
            writer = self.writers[place] = RecordWriter(sink, tcp.ends(), tcp.listener)
        return writer

    def identities(self, place: int) -> Identities:
        if not any(self.path.identities):
            return None, None
        found: list[str | None] = [None, None]
        for side, row, identity in zip(self.path.sides, self.rows[:, place], self.path.identities, strict=True):
            if identity is not None:
                begin = int(self.block.starts[row])
                found[side] = to_text(self.block.data[begin + identity.start : begin + identity.stop])
        return found[0], found[1]

    def identity(self, slot: int) -> str | None:
        return self.opening.identities_with(self.identities(self.places[slot & ~1]))[slot & 1]

    def side(self, slot: int, sink: Sink) -> PlainSide:
        number = slot & 1
        like = self.opening.sides[number]
        assert like is not None
        return like._replace(stream=self.writer_of(self.places[slot & ~1], sink).streams[number])

    # -- end of connections -------------------------------------------------------------------------------------------

    def over(self) -> list[int]:
        over: list[int] = (self.is_here & self.is_over).nonzero()[0].tolist()
        return over

    def _continuing(self) -> list[int]:
        continuing: list[int] = (self.is_here & ~self.is_over).nonzero()[0].tolist()
        return continuing

    def finish(self, sink: Sink, side_states: SideStates) -> None:
        """Write and count the outcome of ended connections."""
        over = self.over()
        counts = [side_states.counts[:, self.slots[over] + number] for number in (0, 1)]
        of_each = [map(Counts._make, columns.T.tolist()) for columns in counts]
        outcomes: dict[tuple[tuple[Counts, Counts], Identities], Outcome] = {}  # few, if connections are alike
        for place, sent in zip(over, zip(*of_each, strict=True), strict=True):
            key = sent, self.identities(place)
            reached = outcomes[key] if key in outcomes else outcomes.setdefault(key, self.opening.outcome_with(*key))
            emit_end(sink, self.tcp[place], self.opening, reached, partial(self.writer_of, place, sink))
        if over:
            one, other = (Counts(*columns.sum(axis=1).tolist()) for columns in counts)
            together = self.opening.outcome_with((one, other), connections=len(over))
            outcome.count(together, [self.tcp[place] for place in over], sink.summary)

    def continuing(self, first: Step, sink: Sink, rows: BlockRows) -> Iterator[tuple[int, KnownConnection]]:
        """Yield slot and connection of each connection that continues.

        `first` is the state before the first segment.
        """
        sizes = list(map(len, self.path.octets))
        for place in self._continuing():
            one, other = self.pairs[:, place].tolist()
            known = KnownConnection((self.keys[one], self.keys[other]), first)
            segments = [
                Segment(side, rows.octets(row)[:size], rows.arrival(row))
                for side, row, size in zip(self.path.sides, self.rows[:, place].tolist(), sizes, strict=True)
            ]
            known.continue_from(self.tcp[place], self.writer_of(place, sink), self.path, segments)
            yield int(self.slots[place]), known


def arrivals_of(block: SegmentBlock, rows: Int64) -> list[Arrival]:
    ordinals = block.ordinal + ORDINALS * rows
    return list(map(Arrival, ordinals.tolist(), block.packets[rows].tolist(), block.times[rows].tolist()))


def _final_states(directions: Directions, pairs: Int64, block: SegmentBlock) -> list[TcpState]:
    """Return the final states of sides that are entirely in the block, with their FINs."""
    fins = arrivals_of(block, directions.fin_rows[pairs])
    columns = directions.first_sequences, directions.octet_counts, directions.acknowledgments
    return list(map(TcpState.after, *[column[pairs].tolist() for column in columns], fins, fins))


def find(block: SegmentBlock, directions: Directions, pairs: Int64, openings: Openings) -> list[NewConnections]:
    """Return the connections with known openings, among candidates with the directions `pairs`."""
    found: list[NewConnections] = []
    for path in openings.paths():
        rows, fits = _following(path, block, directions, pairs)
        if fits.any():
            openings.remember(path)
            found.append(NewConnections(path, pairs[:, fits], rows[:, fits], block, directions))
            pairs = pairs[:, ~fits]
    return found


def begin_at_once(directions: Directions, pairs: Int64) -> Bool:
    """Return a mask of the connections that begin in a block, are in order, and have FINs of both sides or of neither.

    The answer must directly follow the SYN, and more must follow a repeated SYN.
    """
    one, other = pairs
    flags, first, syn, second, has_fin = (
        directions.flags_of_first & (SYN | ACK),
        directions.first_rows,
        directions.syn_rows,
        directions.second_rows,
        directions.fin_rows >= 0,
    )
    is_early = (second[one] != first[one]) & (second[one] < first[other])
    fits: Bool = directions.is_clean[one] & directions.is_clean[other] & (one != other)
    fits &= (flags[one] == SYN) & (flags[other] == SYN | ACK) & (first[one] < first[other]) & ~is_early
    fits &= (first[one] == syn[one]) | (syn[one] < directions.last_rows[one])
    fits &= has_fin[one] == has_fin[other]
    return fits


def _following(path: Path, block: SegmentBlock, directions: Directions, pairs: Int64) -> tuple[Int64, Bool]:
    """Return, by connection, the rows with the segments of a path, and whether it follows the path to its end."""
    rows, fits = _rows_on(path, directions, pairs)
    times, lengths = block.times[rows], block.stops[rows] - block.starts[rows]
    fits &= (times[1:] >= times[:-1]).all(axis=0) & (times[-1] < times[0] + LONGEST)
    sizes = np.array([[len(octets)] for octets in path.octets])
    fits &= (lengths[:-1] == sizes[:-1]).all(axis=0) & (lengths[-1] >= sizes[-1])
    for number, (side, end) in enumerate(zip(path.opening.sides, path.opening.ends, strict=True)):
        if side is None:
            fits &= directions.octet_counts[pairs[number]] == end
    data = np.frombuffer(block.data, np.uint8)
    for row, octets, identity in zip(rows, path.octets, path.identities, strict=True):
        which, places = fits.nonzero()[0], np.arange(len(octets))
        begins = block.starts[row[which]]
        if identity is not None:
            places = np.delete(places, identity)
        is_same = data[begins[:, None] + places] == np.frombuffer(octets, np.uint8)[places]
        fits[which] = is_same.all(axis=1)
        if identity is not None:
            fits[which] &= data[begins + identity.start] != 0
    return rows, fits


def _rows_on(path: Path, directions: Directions, pairs: Int64) -> tuple[Int64, Bool]:
    """Return, by connection, the rows that may carry the segments of a path, and whether its sides alternate like the
    path.

    Other rows are meaningless.
    """
    begins, carrying = directions.carrying_begins, np.append(directions.carrying_rows, 0)
    needed = np.array([[path.sides.count(side)] for side in (0, 1)])
    first = begins[pairs]
    left = begins[pairs + 1] - first - needed
    fits: Bool = (left >= 0).all(axis=0)
    rows = np.zeros((len(path.sides), pairs.shape[1]), np.int64)
    taken = [0, 0]
    for place, side in enumerate(path.sides):
        rows[place] = carrying[np.where(fits, first[side] + taken[side], -1)]
        taken[side] += 1
    following = carrying[np.where(left > 0, first + needed, -1)]
    fits &= (rows[1:] > rows[:-1]).all(axis=0)
    fits &= ((left <= 0) | (following > rows[-1])).all(axis=0)
    return rows, fits
