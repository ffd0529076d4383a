"""A connection that opens as others did (`openings.py`): the lane has it from its SYN on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from zmtpscope.capture.segments import ACK, ORDINALS, SYN, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.lane.openings import (
    LONGEST,
    Opening,
    Openings,
    Path,
    SaidEvent,
    SaidNote,
    Segment,
    Step,
    read_again,
)
from zmtpscope.dissect.lane.sides import LaneSide
from zmtpscope.dissect.lane.slots import NEVER, Begun, Counts, begun
from zmtpscope.dissect.records.facts import Close, Said, end_facts, origin_of
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.tcp.connection import Connection
from zmtpscope.dissect.tcp.directions import Directions
from zmtpscope.dissect.tcp.flows import Finished, Flows
from zmtpscope.dissect.tcp.sequence import MODULUS

NOT_HERE = -1
"""Instead of the number of a direction: the block has nothing of it."""

Ways = tuple[int, int]
"""The directions of a block that are side 0 and side 1 of a connection."""


class TcpState(NamedTuple):
    """How far a connection has come: the sequence numbers of its SYNs and of the next octets of its sides, what these
    have acknowledged (all -1 in front of the SYN), and its last packet."""

    initial: tuple[int, int] = (-1, -1)
    next: tuple[int, int] = (-1, -1)
    acknowledged: tuple[int, int] = (-1, -1)
    last: Arrival | None = None

    def octets(self, side: int) -> int:
        """How many octets of a side have come."""
        return (self.next[side] - self.initial[side] - 1) % MODULUS if self.initial[side] >= 0 else 0


class BlockRows:
    """The rows of a block, as `Arrival`s and octets."""

    def __init__(self, block: SegmentBlock) -> None:
        self.data, self.ordinal = block.data, block.ordinal
        self.starts, self.stops = block.starts.tolist(), block.stops.tolist()
        self.packets, self.times = block.packets.tolist(), block.times.tolist()

    def octets(self, row: int) -> bytes:
        """Its octets."""
        return self.data[self.starts[row] : self.stops[row]]

    def arrival(self, row: int) -> Arrival:
        """Its segment."""
        return Arrival(self.ordinal + ORDINALS * row, self.packets[row], self.times[row])


class KnownConnection:
    """One of them; `keys` are those of side 0 and side 1."""

    __slots__ = (
        "before",
        "fins",
        "is_here",
        "keys",
        "opening",
        "reported",
        "segments",
        "state",
        "steps",
        "tcp",
        "writer",
    )

    def __init__(self, keys: tuple[bytes, bytes], first: Step) -> None:
        self.keys = keys
        self.state = self.before = TcpState()
        """How far it has come in its opening, and how far it had in front of the block under way."""
        self.steps = [first]
        self.segments: list[Segment] = []
        """Of the opening; `steps` are the first, and those behind each of them."""
        self.reported = 0
        """How many segments there were in front of the block under way: of these all is said."""
        self.opening: Opening | None = None
        """Once that is over."""
        self.fins: list[Arrival | None] = [None, None]
        """Of sides that have ended in front of the block under way."""
        self.is_here = True
        """Whether it is still in the lane."""
        self.tcp: Connection | None = None
        self.writer: RecordWriter | None = None

    # -- what a block has brought ------------------------------------------------------------------------------------

    def take(self, rows: BlockRows, directions: Directions, ways: Ways, openings: Openings) -> bool:
        """Take what a block has of the opening. False where that is not known, or not in order: nothing was done."""
        following = self._following(rows, directions, ways)
        if following is None:
            return False
        self.state = following
        if self._walk(rows, directions, ways, openings) and self._fits(directions, ways):
            return True
        self.step_back()
        return False

    def _following(self, rows: BlockRows, directions: Directions, ways: Ways) -> TcpState | None:
        """How far it comes with a block; None where that is not in order."""
        state = self.state
        initial, following, acknowledged = list(state.initial), list(state.next), list(state.acknowledged)
        for side, way in enumerate(ways):
            if way == NOT_HERE:
                continue
            flags, sequence = directions.first_flags[way], directions.first_sequence[way]
            begins = initial[side] < 0
            if not directions.clean[way] or bool(flags & SYN) != begins:
                return None
            if begins:
                if bool(flags & ACK) != bool(side):
                    return None
                initial[side], following[side] = sequence, (sequence + 1) % MODULUS
            elif sequence != following[side]:
                return None
            following[side] = (following[side] + directions.octets[way]) % MODULUS
            acknowledged[side] = directions.acknowledgment[way]
        if state.last is not None and state.initial[1] < 0 and not _is_answered_first(directions, ways):
            return None
        last = max([directions.last_row[way] for way in ways if way != NOT_HERE])
        return TcpState(
            (initial[0], initial[1]),
            (following[0], following[1]),
            (acknowledged[0], acknowledged[1]),
            rows.arrival(last),
        )

    def _walk(self, rows: BlockRows, directions: Directions, ways: Ways, openings: Openings) -> bool:
        """Follow the segments up to the end of the opening, if it comes; whether they are known."""
        carrying = [(row, side) for side, way in enumerate(ways) if way != NOT_HERE for row in directions.rows_of(way)]
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
                openings.remember(Path.of(self.steps[1:], self.segments))
                break
        return True

    def _is_in_time(self, arrival: Arrival) -> bool:
        """Whether a segment comes soon enough behind the others."""
        if not self.segments:
            return True
        return self.segments[-1].arrival.time <= arrival.time < self.segments[0].arrival.time + LONGEST

    def _fits(self, directions: Directions, ways: Ways) -> bool:
        """Whether what the block has of it besides the opening may be read in the lane."""
        if self.opening is None:
            return all(way == NOT_HERE or directions.fin_row[way] < 0 for way in ways)
        ends = enumerate(zip(self.opening.sides, self.opening.ends, strict=True))
        return all(side is not None or self.state.octets(number) == end for number, (side, end) in ends)

    def begun(self) -> Iterator[Begun]:
        """What is known of its sides at the end of the opening, as if the block under way had not come."""
        assert self.opening is not None
        before = self.before
        for number, (side, end) in enumerate(zip(self.opening.sides, self.opening.ends, strict=True)):
            next_, initial = before.next[number], self.state.initial[number]
            next_ = (initial + 1) % MODULUS if next_ < 0 else next_
            acknowledged, last = self.state.acknowledged[number], before.last or NEVER
            yield begun(side, next_, acknowledged, last, before.octets(number), end)

    def go_on(
        self, tcp: Connection, writer: RecordWriter, state: TcpState, path: Path, arrivals: list[Arrival]
    ) -> None:
        """It has come so far in the block under way, with all of its opening, and all was said."""
        self.tcp, self.writer, self.state, self.before = tcp, writer, state, state
        self.steps += path.steps
        self.segments, self.opening = list(map(Segment, path.sides, path.octets, arrivals)), path.opening
        self.reported = len(self.segments)

    def step_back(self) -> None:
        """As it was in front of the block under way."""
        self.state, self.opening = self.before, None
        del self.segments[self.reported :], self.steps[self.reported + 1 :]

    # -- what is said of it ------------------------------------------------------------------------------------------

    def open(self, flows: Flows, row: int) -> None:
        """Its SYN is that row of the block."""
        self.tcp = flows.begin(self.keys[0], row)

    def stay(self, budget: OctetBudget) -> dict[int, LaneSide]:
        """It stays behind its opening: what it holds counts, and these are the sides that the lane reads from now
        on."""
        assert self.opening is not None
        assert self.writer is not None
        budget.hold(self.opening.holdings)
        both = zip(self.opening.sides, self.writer.streams, strict=True)
        return {number: like._replace(stream=stream) for number, (like, stream) in enumerate(both) if like is not None}

    def say(self, sink: Sink) -> None:
        """Say what the segments mean that the block under way has brought; that is over now."""
        assert self.tcp is not None
        if self.writer is None:
            self.writer = RecordWriter(sink, self.tcp.ends(), self.tcp.listener)
        for place in range(self.reported, len(self.segments)):
            for said in self.steps[place + 1].said:
                came = self.segments[said.first].arrival
                say_learned(self.writer, said, Arrival(self.segments[place].arrival.ordinal, came.packet, came.time))
        self.reported, self.before = len(self.segments), self.state

    # -- it reads on itself, or ends ---------------------------------------------------------------------------------

    def identity(self, side: int) -> str | None:
        """That of a side, as it was told in the opening."""
        return None if self.opening is None else self.opening.outcome.sides[side].identity

    def read_again(self, sink: Sink) -> ZmtpConnection | None:
        """The connection as it is behind its opening, or as much of that as has come; None where nothing was sent.
        Nothing is said again."""
        tcp, state = self.tcp, self.state
        assert tcp is not None
        if self.opening is not None:  # so it has stayed, and what it holds was counted
            sink.budget.let_go(self.opening.holdings)
        if state.last is not None:
            tcp.last = max(tcp.last, state.last)
        for number, side in enumerate(tcp.tcp):
            if state.initial[number] >= 0:
                octets = state.octets(number) if self.opening is None else self.opening.ends[number]
                side.open_in_order(state.initial[number], octets, state.acknowledged[number])
        if not self.segments:
            return None
        connection = read_again(tcp, sink, self.segments, Silent(sink, tcp.ends()))
        assert self.writer is not None
        connection.write_with(self.writer)
        return connection

    def give_back_fins(self) -> None:
        """Of sides that have sent FIN it is known that their streams have ended."""
        assert self.tcp is not None
        for side, fin in zip(self.tcp.tcp, self.fins, strict=True):
            if fin is not None:
                side.fin, side.finish, side.ended = fin, side.delivered, True

    def close(self, flows: Flows, row: int, sides: tuple[Finished, Finished]) -> None:
        """Both sides have sent FIN behind whole messages, the last with that row of the block."""
        assert self.tcp is not None
        flows.end(self.tcp, row, sides)

    def finish(self, sink: Sink, counts: tuple[Counts, Counts]) -> None:
        """Say how it ended; `counts` are those of its messages."""
        assert self.tcp is not None
        assert self.opening is not None
        sink.budget.let_go(self.opening.holdings)
        say_end(sink, self.tcp, self.opening, counts, self._writer)
        outcome.count(self.opening.outcome_with(counts), [self.tcp], sink.summary)

    def _writer(self) -> RecordWriter:
        """Who makes its records, once something was said."""
        assert self.writer is not None
        return self.writer


def say_learned(writer: RecordWriter, said: SaidEvent | SaidNote, at: Arrival) -> None:
    """Say what was learned of an opening. `at` is the packet that it is about, with the ordinal of what decided it."""
    if isinstance(said, SaidEvent):
        writer.event_again(said.side, said.event, said.values, at)
    else:
        writer.note(Note(said.side, said.finding, at, at.ordinal, (), said.unit, said.source))


def say_end(
    sink: Sink, tcp: Connection, opening: Opening, counts: tuple[Counts, Counts], writer: Callable[[], RecordWriter]
) -> None:
    """Say how a connection ended that opened so; `counts` are those of its messages, `writer` gives who makes its
    records, where there are some. It is not counted."""
    sink.batch.facts += end_facts(tcp)
    closing = tcp.closing
    if closing is not None and closing[1] == tcp.listener:  # not by the wish of the side that opened it
        close = Close(failed=True, unsecured=None, first=stamp(closing[0]))
        sink.report(Said(tcp.end, origin_of(tcp, writer().streams[0]), "closed", opening.greeting, close))
    sink.connected_to(tcp.addresses[1], tcp.end)
    if sink.options.records:
        writer().counted_findings(tcp.end.ordinal)
        writer().connection(tcp.start, outcome.values(opening.outcome_with(counts), tcp), tcp.end.ordinal)


def _is_answered_first(directions: Directions, ways: Ways) -> bool:
    """Whether the SYN of a client that has sent nothing else is answered before it goes on."""
    one, other = ways
    if one == NOT_HERE or other == NOT_HERE:
        return one == NOT_HERE
    return directions.first_row[other] < directions.first_row[one]


class Silent(RecordWriter):
    """Makes no records, and counts nothing: what it hears was said before."""

    def event(self, *_: object) -> None:
        """A greeting or command."""

    def note(self, *_: object) -> None:
        """A finding."""
