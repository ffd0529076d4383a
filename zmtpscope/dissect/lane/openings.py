"""Openings: what both sides of a connection send up to the end of their handshakes, segment by segment.

Thousands of connections open alike. Once four have begun alike, what a segment of an opening says is found out by the
ordinary way: two connections that are made for that read it, and all in front of it, at other times. Where both say the
same, and nothing that refers to one connection, it is learned: a connection that begins with the same segments, octet
for octet, says the same. What cannot be learned, or takes its time, is left to the ordinary way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from zmtpscope.capture.segments import ORDINALS
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.connection.connection import ZmtpConnection
from zmtpscope.dissect.connection.outcome import Outcome, SideOutcome, outcome_of
from zmtpscope.dissect.lane.entering import awaits_subscription, sides_in_lane
from zmtpscope.dissect.lane.sides import LaneSide
from zmtpscope.dissect.lane.slots import NOTHING, Counts
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.facts import Located
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.record_writer import RecordWriter, values_of
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.side_stream import SideStream
from zmtpscope.dissect.tcp.connection import Connection
from zmtpscope.records import SECOND
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding

LONGEST = SECOND
"""An opening that takes longer (ns) is left to the ordinary way: what is said of some depends on how long they take."""

FEWEST_ALIKE = 4
"""Connections that begin alike before their opening is learned, since learning costs as much as reading it twice. Over
the small captures of this repository 1 doubled the time of reading, 2 added 22 %, 3 added 5 %, and 4 adds nothing."""

MOST_SEGMENTS, MOST_OCTETS = 16, 1024
"""An opening of more segments is not learned, nor is a segment of more octets."""

MOST_STEPS = 1024
"""So many steps of all openings are remembered."""

MOST_WHOLE = 8
"""So many whole openings, those that came last, are compared with what comes as a whole."""

MOST_AHEAD = 48
"""So many steps may be learned ahead of connections that open in known ones, ..."""

WORTH = 4
"""... each of which is worth so many more: a capture in which no two connections open alike costs little."""

MOST_LOST = 16
"""Where so many connections in a row did not open in a known way, one of so many is tried."""

FEWEST_IN_VAIN = 4
"""So many connections may be lost behind a step before it counts."""

FIRST_TIME = 1_700_000_000 * SECOND
KEY = bytes([127, 0, 0, 1, 127, 0, 0, 2, 0xC3, 0x50, 0x15, 0xB3])
"""When the connections that learn begin, and between whom they are."""


class Segment(NamedTuple):
    """Octets of a side, and the segment that brought them."""

    side: int
    octets: bytes
    arrival: Arrival


class SaidEvent(NamedTuple):
    """A greeting or command; its first octet came with the segment `first` of the opening."""

    side: int
    event: Greeting | Command
    values: dict[str, Any]
    """What its record says, whoever sends it."""
    first: int


class SaidNote(NamedTuple):
    """A finding about what came with the segment `first` of the opening; the others are as in `Note`."""

    side: int | None
    finding: Finding
    unit: int
    source: int
    first: int


class Opening(NamedTuple):
    """One that is known to its end: how connections go on from there."""

    sides: tuple[LaneSide | None, LaneSide | None]
    """Those that the lane reads."""
    ends: tuple[int, int]
    """How many octets of each side it has."""
    outcome: Outcome
    """As if connections ended there."""
    greeting: Located
    """That of side 0."""
    holdings: OctetBudget
    """What connections hold from there on: the topics that were subscribed to."""

    def outcome_with(self, counts: tuple[Counts, Counts], connections: int = 1) -> Outcome:
        """How connections came out that have sent so many messages behind it, all together."""
        version, is_websocket, mechanism, handshake, server, confidence, sides, _ = self.outcome
        one, other = (
            SideOutcome(
                side.socket_type,
                side.identity,
                end=connections * side.end + count.octets + count.headers,
                units=connections * side.units + count.octets + count.headers,
                messages=count.messages,
                frames=count.frames,
                body_octets=count.octets,
            )
            for side, count in zip(sides, counts, strict=True)
        )
        return Outcome(version, is_websocket, mechanism, handshake, server, confidence, (one, other))


class Step:
    """What is said behind some segments of an opening."""

    __slots__ = ("entered", "in_vain", "last", "next", "opening", "others", "said")

    def __init__(self, said: list[SaidEvent | SaidNote], opening: Opening | None = None) -> None:
        self.said = said
        """With the last of them."""
        self.opening = opening
        """Where it ends there."""
        self.others: set[int] = set()
        """Hashes of sides and octets behind which nothing could be learned: nobody knows what they hold."""
        self.next: dict[tuple[int, bytes], Step] = {}
        """The steps behind one segment more: octets of a side."""
        self.last: list[tuple[int, bytes, Step]] = []
        """Those of them that end the opening: the segment may go on behind that."""
        self.entered = self.in_vain = 0
        """How many connections have ended their opening here and stayed in the lane, and how many said something soon
        that is not read there."""

    @property
    def is_of_use(self) -> bool:
        """Whether not most connections are lost soon behind it."""
        return self.in_vain <= FEWEST_IN_VAIN + self.entered

    def behind(self, side: int, octets: bytes) -> Step | None:
        """The step behind a segment with these octets of a side; None where that has not come before."""
        step = self.next.get((side, octets))
        if step is None:
            for number, begin, each in self.last:
                if number == side and octets.startswith(begin):
                    return each
        return step


class Path(NamedTuple):
    """The steps of a whole opening, and the segments that lead to them: their sides and octets."""

    steps: list[Step]
    sides: list[int]
    octets: list[bytes]
    opening: Opening

    @classmethod
    def of(cls, steps: list[Step], segments: Sequence[Segment]) -> Path:
        """That of a connection that has opened in these steps, with these segments."""
        opening = steps[-1].opening
        assert opening is not None
        return cls(steps, [each.side for each in segments], [each.octets for each in segments], opening)


class Openings:
    """Those that are known, and learned."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.first = Step([])
        self._steps = 0
        self._ahead = MOST_AHEAD
        self._lost = self._left_out = 0
        """Connections in a row that did not open in a known way, and those that were not looked at since."""
        self._begun: Counter[int] = Counter()
        """How many connections have begun with a side and octets, by their hash."""
        self._whole: list[Path] = []
        """Those that are known to their end, what came last in front."""

    def is_worth_a_try(self) -> bool:
        """Whether the next connection that begins is to be looked at."""
        if self._lost < MOST_LOST:
            return True
        self._left_out = (self._left_out + 1) % MOST_LOST
        if self._left_out:
            return False
        self._ahead = max(self._ahead, 1)
        return True

    def count(self, *, is_lost: bool) -> None:
        """A connection has opened in a known way, or not."""
        self._lost = self._lost + 1 if is_lost else 0

    def paths(self) -> list[Path]:
        """Those that are known to their end, and of use, what came last in front."""
        return [path for path in self._whole if path.steps[-1].is_of_use]

    def remember(self, path: Path) -> None:
        """A connection has taken a path to its end."""
        self._whole = [path, *(each for each in self._whole if each.steps[-1] is not path.steps[-1])][:MOST_WHOLE]

    def count_entered(self, last: Step, count: int = 1) -> None:
        """So many connections have opened in a known way, up to this step, and are read in the lane."""
        self._ahead = min(self._ahead + WORTH * count, MOST_AHEAD)
        last.entered += count

    def behind(self, before: Sequence[Segment], step: Step, side: int, octets: bytes) -> Step | None:
        """The step behind one segment more than `before`, where `step` stands; None where it is of no use."""
        found = step.behind(side, octets)
        if found is None and step is self.first and not self._is_frequent(side, octets):
            return None
        if found is None and self._ahead and self._steps < MOST_STEPS and hash((side, octets)) not in step.others:
            self._ahead -= 1
            self._steps += 1
            found = self._learn([*((each.side, each.octets) for each in before), (side, octets)], step)
            if found is None:
                step.others.add(hash((side, octets)))
        return found if found is not None and found.is_of_use else None

    def _is_frequent(self, side: int, octets: bytes) -> bool:
        """Count a connection that begins so; whether enough have."""
        if len(self._begun) >= MOST_STEPS:
            self._begun.clear()
        self._begun[hash((side, octets))] += 1
        return self._begun[hash((side, octets))] >= FEWEST_ALIKE

    def _learn(self, segments: list[tuple[int, bytes]], step: Step) -> Step | None:
        """Learn what the last of these segments says, behind `step`; None where that cannot be done."""
        side, octets = segments[-1]
        if len(segments) > MOST_SEGMENTS or len(octets) > MOST_OCTETS:
            return None
        heard = Heard(self.options, segments, 1)
        is_open = heard.is_open
        if is_open:
            begin = sum([len(octets) for number, octets in segments[:-1] if number == side])
            octets = octets[: heard.ends[side] - begin]
            segments[-1] = side, octets
            heard = Heard(self.options, segments, 1)
        again = Heard(self.options, segments, LONGEST // MOST_SEGMENTS)
        if not heard.is_general or heard.said != again.said or (heard.is_open, again.is_open) != (is_open, is_open):
            return None
        opening = heard.opening() if is_open else None
        if is_open and opening is None:
            return None
        behind = step.next[side, octets] = Step(heard.said[-1], opening)
        if is_open:
            step.last.append((side, octets, behind))
        return behind


class Heard(RecordWriter):
    """What a connection says that begins with these segments, each `pause` (ns) behind the one before."""

    def __init__(self, options: Options, segments: Sequence[tuple[int, bytes]], pause: int) -> None:
        sink = Sink([], options)
        self._budget = sink.budget
        tcp = Connection(1, KEY, Arrival(0, 0, FIRST_TIME), 0)
        tcp.opened_by, tcp.listener = 0, 1
        super().__init__(sink, tcp.ends(), tcp.listener)
        self.said: list[list[SaidEvent | SaidNote]] = [[] for _ in segments]
        """By segment."""
        self.is_general = True
        """Nothing was said that refers to this connection, or matters to others."""
        self.greeting: Located | None = None
        self._stops = [0, 0]
        came = [
            Segment(side, octets, Arrival(ORDINALS * place, place, FIRST_TIME + pause * place))
            for place, (side, octets) in enumerate(segments)
        ]
        octets = [sum([len(segment.octets) for segment in came if segment.side == side]) for side in (0, 1)]
        for side in tcp.tcp:
            side.open_in_order(0, octets[side.number], 1 + octets[1 - side.number])
        self._read = read_again(tcp, sink, came, self)
        tcp.resume_plain()
        if sink.batch.facts or not all(map(_is_plain, self._read.streams)):
            self.is_general = False

    @property
    def ends(self) -> tuple[int, int]:
        """The stream offsets behind the last greeting or command of each side."""
        return self._stops[0], self._stops[1]

    @property
    def is_open(self) -> bool:
        """Whether both handshakes have ended, and there is nothing to wait for: who publishes knows what to send."""
        return self._read.is_quiet() and not awaits_subscription(self._read)

    def opening(self) -> Opening | None:
        """What is known at its end; None where the lane does not read on, messages are compared with each other, or an
        error was made, which may be why the connection ends."""
        outcome = outcome_of(self._read.view)
        if self.greeting is None or not (outcome.version or "").startswith("3") or outcome.is_websocket:
            return None
        if any(stream.end != end for stream, end in zip(self._read.streams, self.ends, strict=True)):
            return None
        if any(self._read.relations.faults):
            return None
        sides = sides_in_lane(self._read)
        if not sides or any(side.judge is not None for side in sides.values()):
            return None
        alike = {number: side._replace(reading=None, payloads=None, settled=NOTHING) for number, side in sides.items()}
        return Opening((alike.get(0), alike.get(1)), self.ends, outcome, self.greeting, self._budget)

    def event(
        self,
        side: int,
        event: Greeting | Command,
        octets: int,
        whole: bool,
        first: Arrival,
        ordinal: int,
        unit: Unit | None,
    ) -> None:
        """A greeting or command."""
        self.is_general &= event.fields.get("password") is None  # that is kept no longer than its connection
        self._stops[side] = max(self._stops[side], event.stop)
        if isinstance(event, Greeting) and side == 0:
            self.greeting = Located(side, event.regime.source, event.start, event.stop, "greeting")
        values = values_of(event, octets, whole=whole)
        self.said[ordinal // ORDINALS].append(SaidEvent(side, event, values, first.packet))

    def note(self, note: Note) -> None:
        """A finding."""
        self.is_general &= not note.refs and note.last is None
        said = SaidNote(note.side, note.finding, note.unit, note.source, note.at.packet)
        self.said[note.decided // ORDINALS].append(said)


def _is_plain(stream: SideStream) -> bool:
    """Whether a side may be one of 3.x, and has sent no messages, nor anything that is none of its units."""
    outputs = stream.outputs
    is_other = stream.version is not None and not stream.version.startswith("3")
    return not (is_other or stream.messages.message_count or outputs.undissected or outputs.unfinished)


def read_again(tcp: Connection, sink: Sink, segments: Sequence[Segment], writer: RecordWriter) -> ZmtpConnection:
    """The connection `tcp` when it has brought these segments, which `writer` hears of; nothing else came."""
    connection = ZmtpConnection(tcp, sink, None, writer)
    edges = [0]
    for segment in segments:
        edges.append(edges[-1] + len(segment.octets))
    ordinals, packets, times = ([segment.arrival[place] for segment in segments] for place in range(3))
    data = b"".join([segment.octets for segment in segments])
    for side in tcp.tcp:
        side.pieces = [row for row, segment in enumerate(segments) if segment.side == side.number]
    connection.advance(BlockView(data, edges[:-1], edges[1:], ordinals, packets, times))
    return connection
