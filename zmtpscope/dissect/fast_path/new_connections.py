"""New connections that open within one block, read all at once.

From SYN to the end of the opening, their octets equal those of an earlier connection. Most short connections also end
in the block.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, Stamp, stamp
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.fast_path.identities import Identities
from zmtpscope.dissect.fast_path.known import LISTENER, BlockRows, KnownConnection, report_close
from zmtpscope.dissect.fast_path.openings import (
    LONGEST,
    LearnedEvent,
    LearnedNote,
    Openings,
    Path,
    Segment,
    Step,
)
from zmtpscope.dissect.fast_path.segment_runs import Messages
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.identity import Stream, ends_of, stream_of
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.facts import Connected, Endpoint, Origin, pair_of
from zmtpscope.dissect.records.record_writer import (
    AT_THE_END,
    RecordWriter,
    count_event,
    count_finding,
    put_events,
    put_findings,
    put_records,
)
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.plain_state import Counts
from zmtpscope.dissect.tcp.connection import NEVER, Connection, LastSeen, TcpState
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
        self.numbers: dict[int, tuple[int, int]] = {}
        """Numbers and incarnations of connections by entry, in order of their SYNs, once the flow table knows them."""
        self.tcp: dict[int, Connection] = {}
        """Connections that continue after the block, by entry."""
        self.streams: dict[int, tuple[Stream, Stream]] = {}
        self.writers: dict[int, RecordWriter] = {}
        # as lists
        rows = directions.first_rows[pairs[0]]
        self.keys_of = [(self.keys[one], self.keys[other]) for one, other in pairs.T.tolist()]
        self.begins: list[int] = rows.tolist()
        """Rows of the SYNs."""
        self.starts = list(map(Stamp, block.times[rows].tolist(), block.packets[rows].tolist()))
        self._initials: list[int] = directions.first_sequences[pairs[0]].tolist()
        self._last_times: list[int] = block.times[directions.last_rows[pairs]].max(axis=0).tolist()

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
        begins, ends = self.begins, self.directions.fin_rows[self.pairs].max(axis=0).tolist()
        opens, passes, closes = (partial(call, flows) for call in (self._open, self._pass, self._close))
        over = self.over()
        return [
            *[(begins[place], opens, place) for place in self._continuing()],
            *[(begins[place], passes, place) for place in over],
            *[(ends[place], closes, place) for place in over],
        ]

    def _open(self, flows: Flows, place: int) -> None:
        tcp = flows.begin(self.keys_of[place][0], self.begins[place], self._initials[place])
        self.tcp[place], self.numbers[place] = tcp, (tcp.number, tcp.incarnation)

    def _pass(self, flows: Flows, place: int) -> None:
        self.numbers[place] = flows.number(*self.keys_of[place], self.starts[place].time)

    def _close(self, flows: Flows, place: int) -> None:
        """Remember a connection that ended in this block, so that late packets open no new one."""
        flows.remember_closed(*self.keys_of[place], LastSeen(self._last_times[place], self._initials[place]))

    # -- records ------------------------------------------------------------------------------------------------------

    def emit(self, sink: Sink) -> None:
        """Write the records of these connections, which follow one learned path of segments.

        If no output needs records, events of ended connections are only counted.
        """
        places, records = list(self.numbers), sink.options.records
        identities = [self.identities(place) for place in places]
        for decided, step in enumerate(self.path.steps):
            for learned in step.learned:
                if isinstance(learned, LearnedEvent) and not records:
                    count_event(sink.summary, learned.event, len(places))
                    continue
                arrivals = self._arrivals(decided, learned.first, places)
                if isinstance(learned, LearnedEvent):
                    fields, streams = [learned.fields(each) for each in identities], self._streams(places, learned.side)
                    put_events(sink, learned.event, fields, streams, arrivals)
                elif isinstance(learned, LearnedNote):
                    self._count(learned, places, arrivals, sink)
                    if records:
                        put_findings(sink, learned.note(NEVER), self._streams(places, learned.side), arrivals)
                else:
                    for place, named, at in zip(places, identities, arrivals, strict=True):
                        sink.report(learned.fact(at, self._origin(place), named))

    def _count(self, learned: LearnedNote, places: list[int], arrivals: list[Arrival], sink: Sink) -> None:
        """Count a finding of several connections, each with its packet."""
        packets = dict(zip(places, map(stamp, arrivals), strict=True))
        for (client, endpoint), members in self._by_pair(places).items():
            first = min([packets[place] for place in members])
            count_finding(sink.summary, learned.finding, len(members), endpoint, client, first)

    def _by_pair(self, places: list[int]) -> dict[tuple[str, Endpoint], list[int]]:
        """Return connections by client address and endpoint."""
        found: dict[bytes, list[int]] = {}
        for place in places:
            found.setdefault(pair_of(self.keys_of[place][0]), []).append(place)
        ends = ((ends_of(self.keys_of[members[0]][0]), members) for members in found.values())
        return {(client, endpoint): members for ((client, _), endpoint), members in ends}

    def _arrivals(self, decided: int, first: int, places: list[int]) -> list[Arrival]:
        """Return, by connection, the packet with the segment `first` of the path, and the ordinal of the segment
        `decided`."""
        block, rows = self.block, self.rows[first, places]
        ordinals = block.ordinal + ORDINALS * self.rows[decided, places]
        return list(map(Arrival, ordinals.tolist(), block.packets[rows].tolist(), block.times[rows].tolist()))

    def streams_of(self, place: int) -> tuple[Stream, Stream]:
        streams = self.streams.get(place)
        if streams is None:
            number, incarnation = self.numbers[place]
            client = stream_of(self.keys_of[place][0], self.starts[place].time, incarnation, number)
            streams = self.streams[place] = client, client.turned()
        return streams

    def _streams(self, places: list[int], side: int | None) -> list[Stream]:
        """Return the streams of a side, or of whole connections."""
        streams = map(self.streams_of, places)
        return [one._replace(side=None) for one, _ in streams] if side is None else [each[side] for each in streams]

    def writer_of(self, place: int, sink: Sink) -> RecordWriter:
        writer = self.writers.get(place)
        if writer is None:
            writer = self.writers[place] = RecordWriter(sink, self.streams_of(place), LISTENER)
            for learned in itertools.chain.from_iterable([step.learned for step in self.path.steps]):
                if isinstance(learned, LearnedNote):
                    writer.count_written(learned.side, learned.finding.id)
        return writer

    def _origin(self, place: int) -> Origin:
        return Origin(self.streams_of(place)[0], self.starts[place], LISTENER, self._initials[place])

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

    def side(self, slot: int) -> PlainSide:
        number = slot & 1
        like = self.opening.sides[number]
        assert like is not None
        return like._replace(stream=self.streams_of(self.places[slot & ~1])[number])

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
        if not over:
            return
        pairs, opening = self.pairs[:, over], self.opening
        rows = self.directions.fin_rows[pairs]
        fins = [arrivals_of(self.block, each) for each in rows]
        ends = dict(zip(over, map(max, *fins), strict=True))
        keys, starts = self.keys_of, self.starts
        sink.batch.facts += [Connected(end, pair_of(keys[place][0]), starts[place]) for place, end in ends.items()]
        closers = (rows[1] < rows[0]).tolist()
        for each, closer in enumerate(map(int, closers)):
            if closer == LISTENER or opening.has_facts:
                origin = partial(self._origin, over[each])
                report_close(sink, opening, ends[over[each]], (fins[closer][each], closer), origin)
        for (_, endpoint), members in self._by_pair(over).items():
            sink.connected_to(endpoint, ends[members[0]])
        counts = [side_states.counts[:, self.slots[over] + number] for number in (0, 1)]
        if sink.options.records:
            of_each = [map(Counts._make, columns.T.tolist()) for columns in counts]
            self._write_ends(sink, fins, list(zip(over, zip(*of_each, strict=True), strict=True)))
        one, other = (Counts(*columns.sum(axis=1).tolist()) for columns in counts)
        outcome.count(opening.outcome_with((one, other), connections=len(over)), len(over), sink.summary)
        sink.summary.closes["fin"] += len(over)
        sink.summary.sums.captured += int(self.directions.octet_counts[pairs].sum())

    def _write_ends(
        self, sink: Sink, fins: list[list[Arrival]], ended: list[tuple[int, tuple[Counts, Counts]]]
    ) -> None:
        """Write the records of ended connections: entries, and counts of their messages."""
        alike: dict[tuple[tuple[Counts, Counts], Identities], dict[str, Any]] = {}  # few, if connections are alike
        fields, firsts = [], []
        for (place, counts), one, other in zip(ended, *fins, strict=True):
            end, start = max(one, other), self.starts[place]
            key = counts, self.identities(place)
            if key not in alike:
                tcp = self._connection(place, (one, other))
                alike[key] = outcome.values(self.opening.outcome_with(*key), tcp)
            fields.append(alike[key] | outcome.ends_and_times(self.streams_of(place)[0], start, one, other))
            firsts.append(Arrival(end.ordinal, start.packet, start.time))
            if place in self.writers:
                self.writers[place].counted_findings(end.ordinal)
        streams = self._streams([place for place, _ in ended], None)
        put_records(sink, "connection", 0, AT_THE_END, fields, streams, firsts)

    def _connection(self, place: int, fins: tuple[Arrival, Arrival]) -> Connection:
        """Return an ended connection with the final states of its sides."""
        number, incarnation = self.numbers[place]
        start = Arrival(0, self.starts[place].packet, self.starts[place].time)
        connection = Connection(number, self.keys_of[place][0], start, incarnation)
        connection.opened_by, connection.listener = 0, LISTENER
        directions = self.directions
        one, other = (
            TcpState.after(
                directions.first_sequence[each], directions.octets[each], directions.acknowledgment[each], fin, fin
            )
            for each, fin in zip(self.pairs[:, place].tolist(), fins, strict=True)
        )
        connection.finish((one, other))
        connection.close("fin", max(fins), max(fins), None)
        return connection

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
