"""A connection on the fast path from its SYN on, since its handshakes are known from earlier connections.

`openings.py` has the known handshakes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.fast_path.identities import Identities, identities_of
from zmtpscope.dissect.fast_path.openings import (
    LONGEST,
    LearnedEvent,
    LearnedNote,
    Opening,
    Openings,
    Path,
    Segment,
    Step,
    read_again,
)
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.records.facts import Close, ConnectionFact, Origin, end_facts, origin_of
from zmtpscope.dissect.records.record_writer import RecordWriter, put_events
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.plain_state import Counts, PlainState
from zmtpscope.dissect.tcp.connection import NEVER, Connection, TcpState
from zmtpscope.dissect.tcp.directions import NOT_HERE, Directions
from zmtpscope.dissect.tcp.flows import Flows

LISTENER = 1
"""The side that accepted a known connection: its SYN was captured."""

DirectionPair = tuple[int, int]
"""Indexes of the directions of side 0 and side 1."""


class BlockRows:
    """The rows of a block as `Arrival`s and octets."""

    def __init__(self, block: SegmentBlock) -> None:
        self.data, self.ordinal = block.data, block.ordinal
        columns = block.starts, block.stops, block.packets, block.times
        views: list[Sequence[int]] = [column.data for column in columns]
        self.starts, self.stops, self.packets, self.times = views

    def octets(self, row: int) -> bytes:
        return self.data[self.starts[row] : self.stops[row]]

    def arrival(self, row: int) -> Arrival:
        return Arrival(self.ordinal + ORDINALS * row, self.packets[row], self.times[row])


class KnownConnection:
    """A connection on the fast path from its SYN on; its segments so far are known from earlier connections.

    `keys` are the flow keys of side 0 and side 1.
    """

    __slots__ = ("before", "is_here", "keys", "opening", "reported", "segments", "state", "steps", "tcp", "writer")

    def __init__(self, keys: tuple[bytes, bytes], first: Step) -> None:
        self.keys = keys
        self.state = self.before = TcpState(), TcpState()
        """TCP states of both sides: now, and before the current block."""
        self.steps = [first]
        self.segments: list[Segment] = []
        """Segments of the opening so far. `steps` are the state before the first segment, and after each."""
        self.reported = 0
        """Number of segments in earlier blocks, whose records are written."""
        self.opening: Opening | None = None
        """The opening, once it is complete."""
        self.is_here = True
        """Whether the connection is still on the fast path."""
        self.tcp: Connection | None = None
        self.writer: RecordWriter | None = None

    # -- reading a block ----------------------------------------------------------------------------------------------

    def take(self, rows: BlockRows, directions: Directions, pair: DirectionPair, openings: Openings) -> bool:
        """Read the segments of a block that belong to the handshakes of this connection.

        `pair` are its two directions. Returns False, without effect, if no earlier connection had the same segments, or
        if they are out of order.
        """
        following = self._following(rows, directions, pair)
        if following is None:
            return False
        self.state = following
        if self._walk(rows, directions, pair, openings) and self._fits(directions, pair):
            return True
        self.step_back()
        return False

    def _following(
        self, rows: BlockRows, directions: Directions, pair: DirectionPair
    ) -> tuple[TcpState, TcpState] | None:
        """Return the TCP states of both sides after the block; None if it is out of order."""
        following = list(self.state)
        for side, direction in enumerate(pair):
            if direction == NOT_HERE:
                continue
            state, flags, sequence = (
                self.state[side],
                directions.first_flags[direction],
                directions.first_sequence[direction],
            )
            begins = state.initial < 0
            if not directions.clean[direction] or bool(flags & SYN) != begins:
                return None
            if begins:
                if bool(flags & ACK) != bool(side):
                    return None
                initial = sequence
            elif sequence != state.next:
                return None
            else:
                initial = state.initial
            octets, last = state.octets + directions.octets[direction], rows.arrival(directions.last_row[direction])
            following[side] = TcpState.after(initial, octets, directions.acknowledgment[direction], last)
        one, other = self.state
        if one.initial >= 0 and other.initial < 0 and not _is_answered_first(directions, pair):
            return None
        return following[0], following[1]

    def _walk(self, rows: BlockRows, directions: Directions, pair: DirectionPair, openings: Openings) -> bool:
        """Follow the segments of a block to the end of the handshakes.

        Returns whether earlier connections had the same segments.
        """
        carrying = [
            (row, side)
            for side, direction in enumerate(pair)
            if direction != NOT_HERE
            for row in directions.rows_of(direction)
        ]
        carrying.sort()
        for row, side in carrying:
            arrival, octets = rows.arrival(row), rows.octets(row)
            if not self._is_in_time(arrival):
                return False
            step = openings.behind(self.segments, self.steps[-1], side, octets)
            if step is None:
                return False
            self.steps.append(step)
            self.segments.append(Segment(side, octets, arrival))
            if step.opening is not None:
                sent = sum([len(segment.octets) for segment in self.segments if segment.side == side])
                end = len(octets) - sent + step.opening.ends[side]
                self.segments[-1] = Segment(side, octets[:end], arrival)
                self.opening = step.opening
                openings.remember(openings.path_to(step) or Path.of(self.steps[1:], self.segments))
                break
        return True

    def _is_in_time(self, arrival: Arrival) -> bool:
        """Whether a segment is not older than the last one, and within the maximum duration of handshakes."""
        if not self.segments:
            return True
        return self.segments[-1].arrival.time <= arrival.time < self.segments[0].arrival.time + LONGEST

    def _fits(self, directions: Directions, pair: DirectionPair) -> bool:
        if self.opening is None:
            return all(direction == NOT_HERE or directions.fin_row[direction] < 0 for direction in pair)
        ends = enumerate(zip(self.opening.sides, self.opening.ends, strict=True))
        return all(side is not None or self.state[number].octets == end for number, (side, end) in ends)

    def leave(self) -> Iterator[PlainState]:
        """Yield the states of both sides at the end of their handshakes, before other segments of the current block."""
        assert self.opening is not None
        for before, after, end in zip(self.before, self.state, self.opening.ends, strict=True):
            tcp = TcpState.after(after.initial, 0, -1, NEVER) if before.initial < 0 else before
            yield PlainState(tcp, position=end, begin=tcp.octets)

    def continue_from(self, tcp: Connection, writer: RecordWriter, path: Path, segments: list[Segment]) -> None:
        """Continue after handshakes that were complete in the current block. Their records are written.

        `path` are the known handshakes, `segments` the ones of this connection.
        """
        self.tcp, self.writer, self.opening = tcp, writer, path.opening
        self.steps += path.steps
        self.segments = segments
        self.reported = len(segments)

    def step_back(self) -> None:
        self.state, self.opening = self.before, None
        del self.segments[self.reported :], self.steps[self.reported + 1 :]

    # -- records ------------------------------------------------------------------------------------------------------

    def open(self, flows: Flows, row: int) -> None:
        self.tcp = flows.begin(self.keys[0], row, self.state[0].initial)

    def stay(self, budget: OctetBudget) -> dict[int, PlainSide]:
        """Count the memory of the connection after its handshakes.

        Returns, by number, the sides that the fast path reads from now on.
        """
        assert self.opening is not None
        assert self.writer is not None
        budget.hold(self.opening.holdings)
        both = zip(self.opening.sides, self.writer.streams, strict=True)
        return {number: like.of(stream) for number, (like, stream) in enumerate(both) if like is not None}

    def emit(self, sink: Sink) -> None:
        """Write the records of the handshakes for the segments in the current block."""
        assert self.tcp is not None
        if self.writer is None:
            self.writer = RecordWriter(sink, self.tcp.ends(), self.tcp.listener)
        identities = self.identities
        for place in range(self.reported, len(self.segments)):
            for learned in self.steps[place + 1].learned:
                came = self.segments[learned.first].arrival
                at = Arrival(self.segments[place].arrival.ordinal, came.packet, came.time)
                if isinstance(learned, LearnedEvent):
                    fields, stream = learned.fields(identities), self.writer.streams[learned.side]
                    put_events(sink, learned.event, [fields], [stream], [at])
                elif isinstance(learned, LearnedNote):
                    self.writer.note(learned.note(at))
                else:
                    sink.report(learned.fact(at, self._origin(), identities))
        self.reported, self.before = len(self.segments), self.state

    # -- leaving and ending -------------------------------------------------------------------------------------------

    @property
    def identities(self) -> Identities:
        return identities_of((side, octets) for side, octets, _ in self.segments)

    def identity(self, side: int) -> str | None:
        """Return the identity that a side announced in its handshake."""
        return None if self.opening is None else self.opening.identities_with(self.identities)[side]

    def read_again(self, sink: Sink, states: tuple[TcpState, TcpState]) -> ZmtpConnection | None:
        """Return the connection as the slow path represents it, after the segments of its handshakes so far.

        None if no octets were sent. Writes no records. `states` are the current TCP states of both sides.
        """
        tcp, opening = self.tcp, self.opening
        assert tcp is not None
        if opening is not None:
            sink.budget.let_go(opening.holdings)  # counted when it stayed
            one, other = (
                TcpState.after(state.initial, end, state.acknowledged, state.last)
                for state, end in zip(states, opening.ends, strict=True)
            )
            states = one, other
        tcp.resume(states)
        if not self.segments:
            return None
        batch = sink.batch
        facts, segments = len(batch.facts), len(batch.segments)
        connection = read_again(tcp, sink, self.segments, Silent(sink, tcp.ends()))
        del batch.facts[facts:], batch.segments[segments:]  # they were written before, too
        assert self.writer is not None
        connection.write_with(self.writer)
        return connection

    def close(self, flows: Flows, states: tuple[TcpState, TcpState], row: int) -> None:
        """Close the connection in the flow table: both sides have sent FIN after complete messages, the last in this
        row."""
        assert self.tcp is not None
        flows.end(self.tcp, row, states)

    def finish(self, sink: Sink, counts: tuple[Counts, Counts]) -> None:
        """Write and count the outcome of the connection; `counts` are of its messages."""
        tcp, opening = self.tcp, self.opening
        assert tcp is not None
        assert opening is not None
        assert self.writer is not None
        sink.budget.let_go(opening.holdings)
        reached = opening.outcome_with(counts, self.identities)
        sink.batch.facts += end_facts(tcp)
        report_close(sink, opening, tcp.end, tcp.closing if tcp.has_ended else None, self._origin)
        sink.connected_to(tcp.addresses[1], tcp.end)
        if sink.options.records:
            self.writer.counted_findings(tcp.end.ordinal)
            self.writer.connection(tcp.start, outcome.values(reached, tcp), tcp.end.ordinal)
        outcome.count(reached, 1, sink.summary)
        outcome.count_tcp(tcp, sink.summary)

    def _origin(self) -> Origin:
        assert self.tcp is not None
        assert self.writer is not None
        return origin_of(self.tcp, self.writer.streams[0])


def report_close(
    sink: Sink, opening: Opening, end: Arrival, closing: tuple[Arrival, int] | None, origin: Callable[[], Origin]
) -> None:
    """Report the end of a connection, if it matters for comparison with other connections.

    `opening` is its known opening, `closing` its first FIN or RST and the side that sent it; `origin` returns how it
    began.
    """
    first, closed_by = closing or (end, None)
    failed = closed_by == LISTENER  # the connecting side did not choose to close
    if failed or opening.has_facts:
        close = Close(failed=failed, unsecured=None, first=stamp(first))
        sink.report(ConnectionFact(end, origin(), "closed", opening.greeting, close))


def _is_answered_first(directions: Directions, pair: DirectionPair) -> bool:
    """Whether the SYN of a client is answered before the client sends other segments."""
    one, other = pair
    if one == NOT_HERE or other == NOT_HERE:
        return one == NOT_HERE
    return directions.first_row[other] < directions.first_row[one]


class Silent(RecordWriter):
    """A record writer that discards all records, because they are already written."""

    def event(self, *_: object) -> None:
        """Ignore a greeting or command."""

    def note(self, *_: object) -> None:
        """Ignore a finding."""
