"""Openings: the segments of both sides until their handshakes are complete.

Thousands of connections open with the same octets, except for their identities. Once four have begun alike, the records
of their opening are learned: two simulated connections read the same segments at different times and with different
identities. If both produce the same records, without a reference to the connection, the opening is known: a connection
with equal segments gets the same records, with its own identities. Openings that cannot be learned, or that are slow,
take the slow path.
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
from zmtpscope.dissect.fast_path.identities import (
    IDENTITY,
    Identities,
    identities_of,
    identity_in,
    with_other_identity,
    without_identity,
)
from zmtpscope.dissect.fast_path.side_states import NOTHING
from zmtpscope.dissect.fast_path.sides import PlainSide, awaits_subscription, plain_sides
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import SharedFields, Unit
from zmtpscope.dissect.records.facts import ConnectionFact, Fact, Located, Origin
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.record_writer import RecordWriter, fields_of
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.plain_state import Counts
from zmtpscope.dissect.stream.side_stream import SideStream
from zmtpscope.dissect.tcp.connection import NEVER, Connection, TcpState
from zmtpscope.records import SECOND
from zmtpscope.zmtp.events import Command, Greeting
from zmtpscope.zmtp.reader import Finding

LONGEST = SECOND
"""Maximum duration of a known opening (ns). Records of a slower one may depend on time."""

FEWEST_ALIKE = 4
"""Connections that must begin alike before their opening is learned, which costs as much as reading it twice.

On the small captures of this repository, 1 doubled the reading time, 2 added 22 %, 3 added 5 %, and 4 adds nothing.
"""

MAX_SEGMENTS, MAX_OCTETS = 16, 1024
"""Maximum segments of an opening to learn, and octets of each."""

MAX_STEPS = 1024
"""Maximum steps of all openings to remember."""

MAX_WHOLE = 8
"""Maximum whole openings that new connections are compared with, the most recent ones."""

MAX_AHEAD = 48
"""Maximum learned steps that no connection has used yet."""

WORTH = 4
"""Further steps that may be learned for each connection with a known opening, which bounds the cost if no two open
alike."""

MAX_LOST = 16
"""Consecutive connections without a known opening, after which only one of so many is tried."""

FEWEST_IN_VAIN = 4
"""Number of released connections of a step from which on their share counts."""

FIRST_TIME = 1_700_000_000 * SECOND
KEY = bytes([127, 0, 0, 1, 127, 0, 0, 2, 0xC3, 0x50, 0x15, 0xB3])
"""Start time and flow key of the simulated connections."""


class Segment(NamedTuple):
    """A segment with octets, and the side that sent it."""

    side: int
    octets: bytes
    arrival: Arrival


class LearnedEvent(NamedTuple):
    """A greeting or command in known handshakes; its first octet is in the segment with the index `first`."""

    side: int
    event: Greeting | Command
    own: SharedFields
    """Own fields of its record, without the identity if `has_identity`."""
    first: int
    has_identity: bool
    """Whether the event announces the identity of the connection."""

    def fields(self, identities: Identities) -> dict[str, Any]:
        return _with_identity(self.own, identities[self.side]) if self.has_identity else self.own


class LearnedFact(NamedTuple):
    """A fact in known handshakes: a ROUTER serves a peer with an identity, or a PAIR serves its peer.

    With `identity` None, the identity differs between connections. `first` is the index of the segment with the first
    octet of the command that shows the fact.
    """

    unit: Located
    socket_type: str
    identity: str | None
    first: int

    def fact(self, at: Arrival, origin: Origin, identities: Identities) -> ConnectionFact:
        """Return the fact for a connection.

        `at` is the packet of the segment `first`, with the ordinal of the segment that completed the command.
        """
        identity = identities[self.unit.side] if self.identity is None else self.identity
        return ConnectionFact(at, origin, "served", self.unit, (self.socket_type, identity))


class LearnedNote(NamedTuple):
    """A finding in known handshakes, about the segment with the index `first`. The other fields are those of `Note`."""

    side: int | None
    finding: Finding
    unit: int
    source: int
    first: int

    def note(self, at: Arrival) -> Note:
        """Return the finding for a connection.

        `at` is the packet of the segment `first`, with the ordinal of the segment that completed the finding.
        """
        return Note(self.side, self.finding, at, at.ordinal, (), self.unit, self.source)


Learned = LearnedEvent | LearnedNote | LearnedFact


class Opening(NamedTuple):
    """Complete known handshakes of both sides, and the state of connections after them.

    `sides` are those that the fast path can read.
    """

    sides: tuple[PlainSide | None, PlainSide | None]
    ends: tuple[int, int]
    """Octets that each side sends in the opening."""
    outcome: Outcome
    """The outcome of a connection that ends after the opening."""
    greeting: Located
    holdings: OctetBudget
    """Memory of a connection after the opening: its subscribed topics."""
    has_facts: bool
    """Whether the opening has facts that matter to other connections until the connection ends."""

    def identities_with(self, identities: Identities) -> Identities:
        """Return the identities that both sides announced.

        `identities` are those in which this connection differs from earlier ones.
        """
        learned_one, learned_other = self.outcome.sides
        one, other = identities
        return (
            learned_one.identity if one is None else one,
            learned_other.identity if other is None else other,
        )

    def outcome_with(
        self, counts: tuple[Counts, Counts], identities: Identities = (None, None), connections: int = 1
    ) -> Outcome:
        """Return the sum of the outcomes of `connections` connections with these handshakes.

        `counts` are the messages that both sides sent after the handshakes.
        """
        version, is_websocket, mechanism, handshake, server, confidence, sides, _ = self.outcome
        one, other = (
            SideOutcome(
                side.socket_type,
                identity,
                end=connections * side.end + count.octets + count.headers,
                units=connections * side.units + count.octets + count.headers,
                messages=count.messages,
                frames=count.frames,
                body_octets=count.octets,
            )
            for side, count, identity in zip(sides, counts, self.identities_with(identities), strict=True)
        )
        return Outcome(version, is_websocket, mechanism, handshake, server, confidence, (one, other))


class Step:
    """The state of known handshakes after some of their segments."""

    __slots__ = ("entered", "in_vain", "last", "learned", "next", "opening", "others")

    def __init__(self, learned: list[Learned], opening: Opening | None = None) -> None:
        self.learned = learned
        """Events, findings and facts of the last segment."""
        self.opening = opening
        """The opening, if it ends with this step."""
        self.others: set[int] = set()
        """Hashes of (side, octets) of next segments that could not be learned; only hashes, since there may be many."""
        self.next: dict[tuple[int, bytes], Step] = {}
        """The next steps, by side and octets (`without_identity`) of the next segment."""
        self.last: list[tuple[int, bytes, Step]] = []
        """Next steps that end the opening. Their segment may have further octets."""
        self.entered = self.in_vain = 0
        """Numbers of connections that stayed on the fast path after this step, and that left it soon."""

    @property
    def is_of_use(self) -> bool:
        """Whether about half of the connections or more stay on the fast path after these segments."""
        return self.in_vain <= FEWEST_IN_VAIN + self.entered

    def behind(self, side: int, octets: bytes) -> Step | None:
        """Return the state after one more segment of `side`; None if it is unknown.

        `octets` are those of the segment, with zeros in place of an identity.
        """
        step = self.next.get((side, octets))
        if step is None:
            for number, begin, each in self.last:
                if number == side and octets.startswith(begin):
                    return each
        return step


class Path(NamedTuple):
    """Complete known handshakes as a list of states, with side and octets of each segment."""

    steps: list[Step]
    sides: list[int]
    octets: list[bytes]
    """Octets of each segment, `without_identity`."""
    identities: list[slice | None]
    """Where each segment has an identity."""
    opening: Opening

    @classmethod
    def of(cls, steps: list[Step], segments: Sequence[Segment]) -> Path:
        opening = steps[-1].opening
        assert opening is not None
        octets = [each.octets for each in segments]
        sides, identities = [each.side for each in segments], list(map(identity_in, octets))
        return cls(steps, sides, list(map(without_identity, octets)), identities, opening)


class Openings:
    """Knows the handshakes of earlier connections, and learns new ones."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.first = Step([])
        self._steps = 0
        self._ahead = MAX_AHEAD
        self._lost = self._left_out = 0
        """Number of consecutive connections without a known opening, and of those since for which none was looked
        up."""
        self._begun: Counter[int] = Counter()
        """Number of connections by hash of the side and octets of their first segment."""
        self.whole = 0
        """Number of whole openings learned so far."""
        self._whole: list[Path] = []
        """Complete known openings, most recent first."""

    def is_worth_a_try(self) -> bool:
        """Whether the handshakes of the next new connection may be known or learned."""
        if self._lost < MAX_LOST:
            return True
        self._left_out = (self._left_out + 1) % MAX_LOST
        if self._left_out:
            return False
        self._ahead = max(self._ahead, 1)
        return True

    def count(self, *, is_lost: bool) -> None:
        """Count a new connection. `is_lost`: its handshakes are unknown."""
        self._lost = self._lost + 1 if is_lost else 0

    def paths(self) -> list[Path]:
        """Return the complete known handshakes that are worthwhile, the last used first."""
        return [path for path in self._whole if path.steps[-1].is_of_use]

    def path_to(self, last: Step) -> Path | None:
        """Return the stored handshakes that end with the state `last`, or None."""
        return next((path for path in self._whole if path.steps[-1] is last), None)

    def remember(self, path: Path) -> None:
        """Move known handshakes to the front of the list, because a connection has followed them."""
        self.whole += self.path_to(path.steps[-1]) is None
        self._whole = [path, *(each for each in self._whole if each.steps[-1] is not path.steps[-1])][:MAX_WHOLE]

    def count_entered(self, last: Step, count: int = 1) -> None:
        self._ahead = min(self._ahead + WORTH * count, MAX_AHEAD)
        last.entered += count

    def behind(self, before: Sequence[Segment], step: Step, side: int, octets: bytes) -> Step | None:
        """Return the state after `step` and one more segment of `side`; learn it if allowed.

        `before` are the segments before it. None if the state is unknown, or if too many connections are released after
        it.
        """
        alike = side, without_identity(octets)
        found = step.behind(*alike)
        if found is None and step is self.first and not self._is_frequent(side, octets):
            return None
        if found is None and self._ahead and self._steps < MAX_STEPS and hash(alike) not in step.others:
            self._ahead -= 1
            self._steps += 1
            found = self._learn([*((each.side, each.octets) for each in before), (side, octets)], step)
            if found is None:
                step.others.add(hash(alike))
        return found if found is not None and found.is_of_use else None

    def _is_frequent(self, side: int, octets: bytes) -> bool:
        """Count a connection whose first segment has these octets, sent by `side`.

        Returns whether there are enough such connections to learn their handshakes.
        """
        if len(self._begun) >= MAX_STEPS:
            self._begun.clear()
        self._begun[hash((side, octets))] += 1
        return self._begun[hash((side, octets))] >= FEWEST_ALIKE

    def _learn(self, segments: list[tuple[int, bytes]], step: Step) -> Step | None:
        """Learn which records the last of `segments` causes, and add a state after `step` for it.

        Returns the new state; None if the segment cannot be learned.
        """
        side, octets = segments[-1]
        if len(segments) > MAX_SEGMENTS or len(octets) > MAX_OCTETS:
            return None
        simulated = Simulation(self.options, segments, 1)
        is_open = simulated.is_open
        if is_open:
            begin = sum([len(octets) for number, octets in segments[:-1] if number == side])
            octets = octets[: simulated.ends[side] - begin]
            segments[-1] = side, octets
            simulated = Simulation(self.options, segments, 1)
        renamed = [(side, with_other_identity(octets)) for side, octets in segments]
        again = Simulation(self.options, renamed, LONGEST // MAX_SEGMENTS)
        if (
            not simulated.is_general
            or simulated.learned != again.learned
            or (simulated.is_open, again.is_open) != (is_open, is_open)
        ):
            return None
        opening = simulated.opening() if is_open else None
        if is_open and opening is None:
            return None
        alike = without_identity(octets)
        behind = step.next[side, alike] = Step(simulated.learned[-1], opening)
        if is_open:
            step.last.append((side, alike, behind))
        return behind


class Simulation(RecordWriter):
    """Simulates a connection with these segments, `pause` ns apart, and collects the records that it would write."""

    def __init__(self, options: Options, segments: Sequence[tuple[int, bytes]], pause: int) -> None:
        sink = Sink([], options)
        self._budget = sink.budget
        tcp = Connection(1, KEY, Arrival(0, 0, FIRST_TIME), 0)
        tcp.opened_by, tcp.listener = 0, 1
        super().__init__(sink, tcp.ends(), tcp.listener)
        self.identities = identities_of(segments)
        self.learned: list[list[Learned]] = [[] for _ in segments]
        """The records of each segment."""
        self.is_general = True
        """Whether the records fit any connection that opens alike: none depends on this connection, or matters to
        others."""
        self.greeting: Located | None = None
        self._stops = [0, 0]
        came = [
            Segment(side, octets, Arrival(ORDINALS * place, place, FIRST_TIME + pause * place))
            for place, (side, octets) in enumerate(segments)
        ]
        octets = [sum([len(segment.octets) for segment in came if segment.side == side]) for side in (0, 1)]
        one, other = octets
        tcp.resume((TcpState.after(0, one, other + 1, NEVER), TcpState.after(0, other, one + 1, NEVER)))
        self._read = read_again(tcp, sink, came, self)
        self.is_general &= all(map(_is_plain, self._read.streams))
        for fact in sink.batch.facts:
            self._learn_fact(fact)

    @property
    def ends(self) -> tuple[int, int]:
        return self._stops[0], self._stops[1]

    @property
    def is_open(self) -> bool:
        """Whether both handshakes are complete and nothing is pending, such as the first subscription of a publisher's
        peer."""
        return self._read.is_quiet() and not awaits_subscription(self._read)

    def opening(self) -> Opening | None:
        """Return the handshakes, or None if the fast path cannot continue after them.

        It cannot if messages must be compared, if there are heartbeats, or if a finding may end the connection.
        """
        outcome = outcome_of(self._read.view)
        if self.greeting is None or not (outcome.version or "").startswith("3") or outcome.is_websocket:
            return None
        if any(stream.end != end for stream, end in zip(self._read.streams, self.ends, strict=True)):
            return None
        if self._read.relations.heartbeats is not None or any(self._read.relations.faults):
            return None
        sides = plain_sides(self._read)
        if not sides or any(side.judge is not None for side in sides.values()):
            return None
        alike = {number: side._replace(reading=None, payloads=None, settled=NOTHING) for number, side in sides.items()}
        has_facts = bool(self._read.sink.batch.facts)
        return Opening((alike.get(0), alike.get(1)), self.ends, outcome, self.greeting, self._budget, has_facts)

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
        self.is_general &= event.fields.get("password") is None  # passwords are kept no longer than their connection
        announced, identity = event.fields.get("identity"), self.identities[side]
        has_identity = announced is not None and identity is not None
        if has_identity:
            self.is_general &= announced == identity and _has_one_identity(event)
            event = event._replace(fields=_with_identity(event.fields, None))
        self._stops[side] = max(self._stops[side], event.stop)
        if isinstance(event, Greeting) and side == 0:
            self.greeting = Located(side, event.regime.source, event.start, event.stop, "greeting")
        own = SharedFields(fields_of(event, octets, whole=whole))
        self.learned[ordinal // ORDINALS].append(LearnedEvent(side, event, own, first.packet, has_identity))

    def _learn_fact(self, fact: Fact) -> None:
        """Collect a fact. The only permitted fact is that a peer was served (`LearnedFact`)."""
        if not isinstance(fact, ConnectionFact) or fact.kind != "served":
            self.is_general = False
            return
        socket_type, identity = fact.value
        own = None if identity and identity == self.identities[fact.unit.side] else identity
        learned = LearnedFact(fact.unit, socket_type, own, fact.arrival.packet)
        self.learned[fact.arrival.ordinal // ORDINALS].append(learned)

    def note(self, note: Note) -> None:
        self.is_general &= not note.refs and note.last is None and self.left_to_write(note.side, note.finding.id) > 0
        self.count_written(note.side, note.finding.id)
        learned = LearnedNote(note.side, note.finding, note.unit, note.source, note.at.packet)
        self.learned[note.decided // ORDINALS].append(learned)


def _has_one_identity(event: Greeting | Command) -> bool:
    """Whether a greeting or command announces its identity in exactly one property."""
    return [each["name"] for each in event.fields.get("metadata") or ()].count(IDENTITY) == 1


def _with_identity(fields: dict[str, Any], identity: str | None) -> dict[str, Any]:
    metadata = [{**each, "value": identity} if each["name"] == IDENTITY else each for each in fields["metadata"]]
    return {**fields, "identity": identity, "metadata": metadata}


def _is_plain(stream: SideStream) -> bool:
    """Whether a side may speak 3.x, has sent no message, and has sent only octets that can be parsed."""
    outputs = stream.outputs
    is_other = stream.version is not None and not stream.version.startswith("3")
    return not (is_other or stream.messages.message_count or outputs.undissected or outputs.unfinished)


def read_again(tcp: Connection, sink: Sink, segments: Sequence[Segment], writer: RecordWriter) -> ZmtpConnection:
    """Return the connection `tcp` as the slow path represents it, after reading exactly these segments.

    Its records are passed to `writer`.
    """
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
