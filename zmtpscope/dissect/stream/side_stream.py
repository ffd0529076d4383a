"""One side's octets on their way to the reader: negotiating, reading, searching after a loss, or not ZMTP at all."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import groupby
from typing import TYPE_CHECKING

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.records.batch import HEAD_KEPT, Unit
from zmtpscope.dissect.records.leftovers import (
    AT_THE_END,
    AT_THE_END_OF_THE_CAPTURE,
    BEFORE_A_GAP,
    NO_BOUNDARY,
    NO_VERSION,
    NOT_READ_ON,
    NOT_ZMTP,
    UNDISSECTED,
    UNFINISHED,
    Gap,
    Leftover,
    OctetCounts,
)
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import Arrivals, BlockView
from zmtpscope.dissect.stream.assembly import Assembly, Context, Kept
from zmtpscope.dissect.stream.boxes import Broken, Inside, Sealed, Step
from zmtpscope.dissect.stream.outputs import FoundMidstream, Output, Repeats, UnitRead
from zmtpscope.dissect.stream.resync import Boundary, FrameSearch
from zmtpscope.dissect.tcp.out_of_order import Hole
from zmtpscope.zmtp.content import seals
from zmtpscope.zmtp.events import NO_FRAMES, Command, Event, FrameColumns, Greeting, Remark, Runs, Skipped
from zmtpscope.zmtp.memberships import LARGEST_MEMORY, Memberships
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.units import UnitReader
from zmtpscope.zmtp.upgrade import VERSION as VERSION_ZWS
from zmtpscope.zmtp.websocket import Unmasking

if TYPE_CHECKING:
    from zmtpscope.dissect.stream.decryption import Decryption  # PyNaCl takes its time to load

ALL_HELD = 256 << 20
"""What all sides together may hold; where that is reached, bodies of messages under way are let go, and messages of
several frames told as far as they came."""

HEADERS = 64
"""Octets allowed per frame for its header, where the size of a message under way is compared with the body limit."""


ALL_MEMBERSHIPS = 64 << 20
"""What topics and groups that are open on all sides together may take of it."""

MOST_HOLES = 1024
"""So many holes of a side are remembered, the last ones; messages that wait for so many are not certain anyway."""


NOTHING: Mapping[int, Arrival] = {}


class Mode(Enum):
    """What happens to the octets of a side."""

    NEGOTIATING = "the version is not settled; octets wait"
    READING = "frames are read"
    SEARCHING = "a frame boundary is looked for"
    OPAQUE = "not ZMTP, or given up"


@dataclass(slots=True)
class Held:
    """Something that was read of which not all octets are there yet; it is told when they are, or will never be.

    `arrived` are the segments with the octets of it that have come, by stream offset, as far as somebody will ask;
    `lost` counts those that the capture lost.
    """

    event: Event | Skipped
    unit: Unit | None = None
    arrived: dict[int, Arrival] = field(default_factory=dict)
    lost: int = 0


class SideStream:
    """The stream of one side. `end` is the offset behind the last octet (or hole) that arrived.

    While reading, the octets from `kept_base` on are held in `kept`: those not read yet and, where bodies are wanted,
    those of the message that is under way.
    """

    mode = Mode.NEGOTIATING
    reader: SideReader | None = None
    unmasking: Unmasking | None = None
    """Takes the masks off, where the side speaks ZWS."""
    framings: tuple[Framing, ...] = (Framing.V1, Framing.V2)
    """What frames are searched for while nothing tells which."""
    forced: DecodeAs | None = None
    """What the user said of a side whose start was not captured."""
    pending_gap: tuple[Hole, int] | None = None
    """The hole (and its stream offset) behind which the search goes on; its record tells where it ended."""
    end = 0
    held_octets = 0
    membership_octets = 0
    """Those of them that are topics and groups."""
    are_memberships_limited = False
    """Whether other sides have left less of `ALL_MEMBERSHIPS` than a side may take."""
    kept_base = 0
    reading = b""
    """The octets from `kept_base` on while events are taken."""
    settled = -1
    confidence = "proven"
    type_known: int | None = None
    """Ordinal of the segment that told the side's socket type."""
    found_since: int | None = None
    """Ordinal of the segment that told that the side speaks ZMTP, where frames were found in the midst of it."""
    identity_from: int | None = None
    """Stream offset of what told the side's identity."""
    lost_since: int | None = None
    """Ordinal of the segment that told of the first hole."""
    closed_since: int | None = None
    """Ordinal of the segment that told of the first MESSAGE that stays closed although keys were given."""
    stretch: tuple[int, Arrival, int] | None = None
    """The octets under way that are left over, where they end is not known yet: stream offset and segment of the first,
    and how many of them belong to units all the same."""
    reason = NOT_ZMTP
    """Why octets are left over while a boundary is looked for, or nothing is read."""
    agreed: str | None = None
    """The version in force, as it was negotiated."""
    _are_rows_required = False
    has_part_of_a_handshake = False
    """Octets of its greeting or of a handshake command are missing."""

    def __init__(
        self,
        side: int,
        stream: Stream,
        options: Options,
        budget: OctetBudget,
        judged_types: Container[str] = (),
        decryption: Decryption | None = None,
    ) -> None:
        self.options = options
        self.judged_types = judged_types
        """The socket types of whose messages rows are made in any case: there are rules for them."""
        self.budget = budget
        self.side = side
        self.stream = stream
        self.decryption = decryption
        """Where keys were given."""
        self.inside = None if decryption is None else Assembly(stream)
        """The messages that were inside of boxes."""
        self._limit = max(HEAD_KEPT, options.kept_limit) if options.keeps_bodies else HEAD_KEPT
        """Octets of the largest message of which all bodies are kept; of a larger one the first octets are."""
        self.holes: list[int] = []
        """Where octets were lost, or what a box holds is not known, as far back as somebody may ask about the messages
        around."""
        self.queue: list[bytes | Hole] = []
        """Octets and holes that wait for the version."""
        self.searches: list[FrameSearch] = []
        self.arrivals = Arrivals()
        self.assembly = Assembly(stream)
        self.kept: list[bytes] = []
        self.held: list[Held] = []
        self.counts = OctetCounts()
        self._outputs: list[Output] = []
        self.repeats: dict[str, int] = {}
        """How many of the findings that the reader only counts have been told."""

    @property
    def socket_type(self) -> str | None:
        """The socket type of the side, once it has told it, in clear or in a box that was opened."""
        return self._told("socket_type")

    @property
    def identity(self) -> str | None:
        """Its identity, likewise."""
        return self._told("identity")

    def identity_at(self, offset: int) -> str | None:
        """Its identity as far as that was told in front of a stream offset."""
        return self.identity if self.identity_from is not None and self.identity_from < offset else None

    def _told(self, name: str) -> str | None:
        told: str | None = None if self.reader is None else getattr(self.reader, name)
        if told is None and self.decryption is not None and self.decryption.reader is not None:
            told = getattr(self.decryption.reader, name)
        return told

    def assemblies(self) -> tuple[Assembly, ...]:
        """Of what stands in clear, and of what was inside boxes."""
        return (self.assembly,) if self.inside is None else (self.assembly, self.inside)

    @property
    def wants_rows(self) -> bool:
        """Whether findings may come of what rides inside its messages, where that is wanted."""
        return self.assembly.wants_rows or (self.inside is not None and self.inside.wants_rows)

    @property
    def message_count(self) -> int:
        """Messages so far."""
        return self._counted("message_count")

    @property
    def frame_count(self) -> int:
        """Message frames so far."""
        return self._counted("frame_count")

    @property
    def body_octets(self) -> int:
        """Octets of message bodies so far."""
        return self._counted("body_octets")

    @property
    def unit_octets(self) -> int:
        """Octets of greetings, commands and messages so far."""
        shared = 0 if self.reader is None else self.reader.shared
        return self.counts.units + self._counted("unit_octets") - shared

    @property
    def handshake_done(self) -> bool:
        """Whether the side has sent its own last handshake command, all of what is in front of it, and it was read."""
        return self.reader is not None and self.reader.handshake_done and not self.has_part_of_a_handshake

    def _counted(self, name: str) -> int:
        """A count of what stands in clear, and of what was inside boxes."""
        count: int = getattr(self.assembly, name)
        return count if self.inside is None else count + getattr(self.inside, name)

    def forget_holes(self) -> None:
        """Forget the holes in front of the messages that were looked into."""
        if len(self.holes) > MOST_HOLES:
            seen = [0 if each.payloads is None else each.payloads.seen_to for each in self.assemblies()]
            del self.holes[: max(bisect_left(self.holes, min(seen)), len(self.holes) - MOST_HOLES)]

    # -- what was read goes out --------------------------------------------------------------------------------------

    def drain(self) -> list[Output]:
        """What was read, found and lost since this was asked last, in the order in which it was."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def _give_unit(self, event: Event, held: Held | None = None, whole: bool = True) -> None:
        """Give what was read. `held`: what is known of it that the stream does not remember any more. `whole`: all
        octets of it are there."""
        arrived = NOTHING if held is None else held.arrived
        start, ordinal, source = event.start, self.ordinal_of(event.start, event.stop), event.regime.source
        octets, unit, next_octets = 0, None, None
        first = arrived.get(start) or self.arrivals.at(start)
        decided = Arrival(ordinal, first.packet, first.time)
        if not isinstance(event, Remark):
            if self.options.details:
                unit = self._unit_of(event) if held is None else held.unit
            octets = min(event.stop, self.end) - start
            whole = whole and (isinstance(event, Command) or event.complete)
            self.counts.units += octets - (0 if held is None else held.lost)
            if not whole and (isinstance(event, Greeting) or event.regime.shakes_hands):
                self.has_part_of_a_handshake = True
            if event.regime.shakes_hands and self.end > event.stop:
                next_octets = self.arrivals.at(event.stop)
            if self.type_known is None and event.fields.get("socket_type") is not None:
                self.type_known = ordinal
            if self.identity_from is None and event.fields.get("identity") is not None:
                self.identity_from = start
        notes = []
        for finding in event.findings:
            at = start if finding.start is None else finding.start
            # what is said about the end of a unit came with its last octet, whatever is behind that
            came = arrived.get(at) or self.arrivals.at(min(at, max(start, event.stop - 1), self.end - 1))
            notes.append(Note(self.side, finding, came, ordinal, (), start, source))
        certain = event.regime.shakes_hands or self.is_certain_at(start)
        self._outputs.append(UnitRead(event, decided, octets, whole, certain, unit, next_octets, notes))

    def is_certain_at(self, offset: int) -> bool:
        """Whether the stream was read up to here, where it has come to `offset`, without a doubt."""
        doubtful = None if self.reader is None else self.reader.unreliable_from
        return self.confidence == "proven" and (doubtful is None or offset < doubtful)

    def _unit_of(self, event: Greeting | Command) -> Unit:
        """The octets of `event` that are being read, and under what they are read."""
        octets = event.octets if isinstance(event, Command) else None
        if octets is None:
            octets = self.octets(event.start, event.read_to)
        return Unit(event.regime, event.start, octets, self.arrivals.pieces().slices(event.start, event.read_to))

    def _give_repeats(self, reader: UnitReader, given: dict[str, int]) -> None:
        """Give what a reader only counted since it was asked last; `given` is how much that was then."""
        for id_, (count, offset) in reader.repeats.items():
            more = count - given.get(id_, 0)
            if more:
                at = self.arrivals.at(self.end - 1 if offset is None else min(offset, self.end - 1))
                note = Note(self.side, Finding(id_, offset), at, at.ordinal, source=reader.regime.source)
                self._outputs.append(Repeats(note, more))
                given[id_] = count

    def _give_gap(self, hole: Hole, start: int, told: Arrival, resumed_at: int | None) -> None:
        """Give a hole, once it is known where reading goes on behind it (None: nowhere)."""
        self._outputs.append(Gap(start, start + hole.octets, hole.octets, hole.reason, told, resumed_at))

    def agree(self, version: str | None) -> None:
        """The sides have settled which version is in force, None where there is none."""
        self.agreed = version

    @property
    def version(self) -> str | None:
        """The version as records have it."""
        return version_of_records(self.agreed, None if self.reader is None else self.reader.mechanism)

    def require_rows(self) -> None:
        """Make rows of the messages even where they are only counted: somebody evaluates them."""
        self._are_rows_required = True

    def _wants_messages(self) -> bool:
        """Whether message rows are to be made: to be written, or to be evaluated."""
        if self.options.records or self._are_rows_required or self.socket_type in self.judged_types:
            return True
        return self.options.payloads is not None and self.wants_rows

    # -- octets in ---------------------------------------------------------------------------------------------------

    def extend(self, view: BlockView, rows: list[int]) -> None:
        """Take the next pieces of the stream."""
        if self.mode is Mode.OPAQUE:
            if self.stretch is None:
                self._leave_over(self.end, view.arrival(rows[0]))
            self.end += sum([view.stops[row] - view.starts[row] for row in rows])
            return
        self.end = self.arrivals.add(view, rows, self.end)
        if self.mode is Mode.NEGOTIATING:
            self.queue.append(view.octets(rows))
        elif self.unmasking is None and self._is_in_body():
            self._pass_body(view, rows)
        else:
            self._consume(view.octets(rows))

    def _is_in_body(self) -> bool:
        """Whether all that has come belongs to frames whose headers were read."""
        return self.mode is Mode.READING and self.reader is not None and self.reader.position >= self.end

    def _consume(self, octets: bytes) -> None:
        """Take octets that follow what is held and end at `end`, until none of them is left over."""
        if self.unmasking is not None:
            octets = self.unmasking.feed(octets)
        while octets:
            if self.mode is Mode.READING:
                octets = self._read(octets)
            elif self.mode is Mode.SEARCHING:
                octets = self._search(octets)
            else:
                self._leave_over(self.end - len(octets))
                return

    def _pass_body(self, view: BlockView, rows: list[int]) -> None:
        """All of these pieces are body of a frame whose header was read."""
        if not self.kept:
            self.kept_base = self.end - sum([view.stops[row] - view.starts[row] for row in rows])
        self._let_go_of_messages(lambda: b"".join([*self.kept, view.octets(rows)]))
        base = self._first_held()
        if base == self.end:
            self._hold([])
        elif base == self.kept_base:
            self._hold_more(view.octets(rows))
        else:
            self._hold([b"".join([*self.kept, view.octets(rows)])[base - self.kept_base :]])
            self.kept_base = base
        self._trim_arrivals(self.end)
        self._read_end_of_body()

    def _read_end_of_body(self) -> None:
        """Tell the frame that ends just here, if one does."""
        reader = self.reader
        if reader is None or reader.position != self.end:
            return
        if self.kept or self.held or reader.opaque or self.decryption is not None:
            self._read(b"")
        else:  # nothing is there to be read, and the message is over, or was let go
            self.kept_base = self.end
            self.assembly.take(NO_FRAMES, self.context(b""))
            self.arrivals.trim(self.end)
            self._hold([])

    def _read(self, octets: bytes) -> bytes:
        """Read on: `octets` follow what is kept and end at `end`. What is left over where the framing was lost."""
        reader = self.reader
        assert reader is not None
        if not self.kept:
            self.kept_base = self.end - len(octets)
        data = self.reading = b"".join([*self.kept, octets]) if self.kept else octets
        if self.held:
            self._release_held()
        self._limit_memberships()
        reader.read(data, self.kept_base)
        self._tell()
        self._count_repeats(reader)
        data, self.reading = self.reading, b""
        if reader.broken is not None:
            rest = data[max(0, reader.broken - self.kept_base) :]
            self._hold([data])
            self._give_up_message(self.ordinal_of(reader.broken - 1, reader.broken))
            if self.unmasking is not None:
                self.mode, self.reason = Mode.OPAQUE, NOT_READ_ON
            else:
                self.begin_search(reader.broken)
            return rest
        if reader.opaque and reader.position <= self.end:
            self._hold([data])
            told = reader.gave_up_at
            self._give_up_message(self.settled if told is None else self.ordinal_of(told - 1, told))
            self.mode = Mode.OPAQUE
            self.reason = NO_VERSION if reader.regime.version is None else NOT_READ_ON
            if reader.position < self.end:
                self._leave_over(reader.position, inside=reader.inside)
            return b""
        self._let_go_of_messages(lambda: data)
        self._trim_arrivals(min(reader.position, self.end))
        base = self._first_held()
        rest = data[base - self.kept_base :]
        self._hold([rest] if rest else [])
        self.kept_base = base
        if self.budget.held > ALL_HELD:
            self._give_way()
        return b""

    def _give_way(self) -> None:
        """All sides hold too much: tell messages of several frames as far as they came."""
        data = b"".join(self.kept)
        if self.assembly.open_frames > 1:
            self.assembly.take_part(self.context(data))
        inside, decryption = self.inside, self.decryption
        if inside is not None and decryption is not None and decryption.reader is not None and inside.open_frames > 1:
            inside.give_up(self._context_inside(data), self.settled)
            inside.damage(Kept(b"", self.end, None), 0)
        self._hold(self.kept)

    def _tell(self) -> None:
        """Hand on what the reader has read of the octets in `reading`."""
        assert self.reader is not None
        if self.reader.moves:
            self._move(self.reader.moves)
        notes: Sequence[Note] = ()
        columns, events = self.reader.take()
        if self.decryption is not None and self.reader.mechanism == "CURVE":
            columns, events, notes = self._decrypt(self.decryption, self.reader, columns, events)
        for event in events:
            if event.stop > self.end and (event.frame if isinstance(event, Remark) else True):
                self._hold_back(event)
            else:
                self._give_unit(event)
        if self.reader.skipped:
            self._tell_skipped(self.reader.take_skipped())
        self._outputs += notes
        if columns.offsets or self.assembly.open_frames:
            self.assembly.take(columns, self.context(self.reading))

    def _hold_back(self, event: Event | Skipped) -> None:
        """Tell `event` when all of its octets are there, or are known to be lost."""
        held = Held(event)
        if isinstance(event, Greeting | Command) and self.options.details:
            held.unit = self._unit_of(event)
        self.held.append(held)

    def _tell_skipped(self, skipped: list[Skipped]) -> None:
        """Tell what the reader has passed over: what is one thing when it is all there, the rest segment by segment."""
        piece, told = range(0), None  # what brought the last of them: one segment often brings hundreds
        for each in skipped:
            start = each.start
            if each.stop > self.end:
                self._hold_back(each)
            elif each.runs is not None:
                self._leave_runs(each, each.runs)
            elif each.single or each.stop - start == 1:
                if told is None or start not in piece or each.stop > piece.stop:
                    piece, told = self.arrivals.piece_at(start), self.arrival(start, each.stop)
                self._leave_skipped(each, start, each.stop, told)
            else:
                for _, end in self.arrivals.pieces_between(start, each.stop):
                    stop = min(end, each.stop)
                    self._leave_skipped(each, start, stop, self.arrival(start, stop))
                    start = stop

    def _leave_runs(self, skipped: Skipped, runs: Runs) -> None:
        """Leave over what stands between units, as one for each segment that has brought some of it, or the end."""
        begin = skipped.start
        for arrival, end in self.arrivals.pieces_between(begin, skipped.stop):
            low = bisect_right(runs.stops, begin)
            high = bisect_right(runs.stops, end) if skipped.single else bisect_left(runs.starts, end)
            if low < high:
                start, stop = runs.starts[low], runs.stops[high - 1]
                if not skipped.single:
                    start, stop = max(begin, start), min(end, stop)
                between = sum(runs.starts[low + 1 : high]) - sum(runs.stops[low : high - 1])
                told = self.arrivals.at(start)._replace(ordinal=max(arrival.ordinal, self.settled))
                self._leave(Leftover(start, stop, stop - start - between, UNDISSECTED, skipped.reason, told, True))
            begin = end

    def _leave_skipped(self, skipped: Skipped, start: int, stop: int, told: Arrival, lost: int = 0) -> None:
        """Leave over `start..stop` of what the reader has passed over; the capture lost `lost` of these octets."""
        elsewhere, between = skipped.inside + lost, skipped.between_units
        self._leave(Leftover(start, stop, stop - start - elsewhere, UNDISSECTED, skipped.reason, told, between))

    def _leave_over(self, start: int, first: Arrival | None = None, inside: int = 0) -> None:
        """The octets from `start` on, the first of which came with `first`, are left over, up to where it is said."""
        if self.stretch is None:
            self.stretch = start, first or self.arrivals.at(start), inside

    def _end_stretch(self, stop: int, ordinal: int) -> None:
        """What is left over ends at `stop`, as the segment `ordinal` told."""
        stretch, self.stretch = self.stretch, None
        if stretch is not None and stretch[0] < stop:
            start, first, inside = stretch
            told = first._replace(ordinal=ordinal)
            self._leave(Leftover(start, stop, stop - start - inside, UNDISSECTED, self.reason, told))

    def _leave(self, leftover: Leftover) -> None:
        """These octets are in no unit."""
        self.counts.leave(leftover)
        self._outputs.append(leftover)

    def _count_repeats(self, reader: SideReader) -> None:
        if reader.repeats:
            self._give_repeats(reader, self.repeats)
        inside = None if self.decryption is None else self.decryption.reader
        if self.decryption is not None and inside is not None and inside.repeats:
            self._give_repeats(inside, self.decryption.repeats)

    def _decrypt(
        self, decryption: Decryption, reader: SideReader, columns: FrameColumns, events: list[Event]
    ) -> tuple[FrameColumns, list[Event], list[Note]]:
        """Open what is sealed: the frames that stay as they are, all events, and what is to be said behind them."""
        base, end, arrivals = self.kept_base, self.end, self.arrivals
        sealed = Sealed(columns, events, self.reading, base, end, arrivals, self.settled, reader, self.agreed)
        opened = decryption.open(sealed)
        self.reading = opened.data
        for step in opened.steps:
            self._assemble(step)
        for offset, ordinal in opened.closed:
            insort(self.holes, offset)
            if self.closed_since is None:
                self.closed_since = ordinal
        return opened.columns, opened.events, opened.notes

    def _assemble(self, step: Step) -> None:
        """Make messages of frames that were in boxes; one under way in clear does not go on behind them, nor one inside
        behind what is broken."""
        outside, inside = self.assembly, self.inside
        assert inside is not None
        if isinstance(step, Inside):
            if step.in_front.offsets or outside.open_frames:
                context, columns = self.context(self.reading), step.columns
                outside.take(step.in_front, context)
                if outside.open_frames:
                    outside.give_up(context, self.ordinal_of(columns.offsets[0], columns.bodies[0] + columns.sizes[0]))
                    outside.uncertain_start = True
            inside.take(step.columns, self._context_inside(self.reading))
        elif isinstance(step, Broken):
            is_open = bool(inside.open_frames)
            if is_open:
                inside.give_up(self._context_inside(self.reading), step.ordinal)
            inside.uncertain_start = inside.uncertain_start or is_open or not step.is_between
        else:
            inside.uncertain_start = True

    def _context_inside(self, data: bytes) -> Context:
        """The same for messages that were in boxes: what opened is what the peer sealed, however the frame was
        found."""
        assert self.decryption is not None
        assert self.decryption.reader is not None
        regimes = self.decryption.reader.regimes
        return replace(self.context(data), regimes=regimes, doubtful=None, confidence="proven")

    @property
    def opened_boxes(self) -> int:
        """MESSAGEs that were opened."""
        return 0 if self.decryption is None else self.decryption.opened

    def _move(self, moves: list[tuple[int, bytes]]) -> None:
        """Put messages that came in several WebSocket frames in their places, headers first."""
        octets = bytearray(self.reading)
        for offset, moved in moves:
            start = offset - self.kept_base
            octets[start : start + len(moved)] = moved
        self.reading = bytes(octets)
        moves.clear()

    def _trim_arrivals(self, offset: int) -> None:
        """Forget how octets in front of `offset` came, but for a message under way whose details may be asked for."""
        for held in self.held:
            event, arrived = held.event, held.arrived
            findings = () if isinstance(event, Skipped) else event.findings
            for at in (event.start, *(each.start for each in findings)):
                if at is not None and at < self.end and at not in arrived:
                    arrived[at] = self.arrivals.at(at)
        if self.options.details and (begin := self._kept_message()) is not None:
            offset = min(offset, begin)
        if self.decryption is not None and self.decryption.waits_from is not None:
            offset = min(offset, self.decryption.waits_from)
        self.arrivals.trim(offset)

    def _first_held(self) -> int:
        """Stream offset from which on octets are held: what is not read yet, a MESSAGE that is not whole, and the
        message that is under way, where its bodies are kept."""
        assert self.reader is not None
        offset = min(self.reader.position, self.end)
        others = self.budget.held - self.held_octets
        if (begin := self._kept_message()) is not None:
            offset = min(offset, begin)
        waits_from = None if self.decryption is None else self.decryption.waits_from
        if waits_from is not None and self.end - waits_from + others <= ALL_HELD:
            offset = min(offset, waits_from)
        return max(offset, self.kept_base)

    def _kept_message(self) -> int | None:
        """Stream offset of the message under way whose bodies are kept; None where there is none."""
        begin = self._kept_from(self.assembly)
        if self.inside is None:
            return begin
        inside = self._kept_from(self.inside)
        return begin if inside is None else inside if begin is None else min(begin, inside)

    def _kept_from(self, assembly: Assembly) -> int | None:
        """Where the message under way begins, if it is kept."""
        options, begin = self.options, assembly.open_offset
        wanted = options.records or (options.keeps_bodies and assembly.wants_rows)
        if begin is None or assembly.head is not None or not wanted:
            return None
        others = self.budget.held - self.held_octets
        small = self._end_of(assembly) - begin <= self._limit + HEADERS * assembly.open_frames
        return begin if small and self.end - begin + others <= ALL_HELD else None

    def _memberships(self) -> list[Memberships]:
        """The topics and groups that are open, told in clear or in boxes that were opened."""
        readers = (self.reader, None if self.decryption is None else self.decryption.reader)
        return [reader.memberships for reader in readers if reader is not None]

    def _limit_memberships(self) -> None:
        """Let this side remember what all sides leave of the limit."""
        left = ALL_MEMBERSHIPS - self.budget.memberships
        if left >= LARGEST_MEMORY and not self.are_memberships_limited:
            return
        self.are_memberships_limited = left < LARGEST_MEMORY
        for memberships in self._memberships():
            memberships.most = min(LARGEST_MEMORY, memberships.size + left)

    def _end_of(self, assembly: Assembly) -> int:
        """Where the message under way ends so far: what waits may prove no part of what is under way in boxes."""
        if self.decryption is None or assembly is self.assembly:
            return self.end
        waits_from = self.decryption.waits_from
        return self.end if waits_from is None else waits_from

    def _let_go_of_messages(self, octets: Callable[[], bytes]) -> None:
        """Keep no more than the first octets of a message that has become too large; `octets` are those from
        `kept_base` on."""
        for assembly in self.assemblies():
            if assembly.open_offset is None or assembly.head is not None or self._kept_from(assembly) is not None:
                continue
            others = self.budget.held - self.held_octets
            wanted = self.options.records and others + HEAD_KEPT <= ALL_HELD
            assembly.let_go(self._kept_octets(octets() if wanted else b""))

    def _kept_octets(self, octets: bytes) -> Kept:
        """Octets from `kept_base` on."""
        return Kept(octets, self.kept_base, self.arrivals.pieces() if self.options.details else None)

    def _hold(self, kept: list[bytes]) -> None:
        """Hold these octets, from `kept_base` on, and no others; frames under way count as well."""
        octets = self.assembly.held_octets
        size = 0 if self.reader is None else self.reader.memberships.size
        if kept:
            octets += sum(map(len, kept))
        if self.inside is not None:
            octets += self.inside.held_octets
            size = sum([memberships.size for memberships in self._memberships()])
        if size != self.membership_octets:
            self.budget.memberships += size - self.membership_octets
            self.membership_octets = size
        octets += size
        self.budget.held += octets - self.held_octets
        self.held_octets = octets
        self.kept = kept

    def _hold_more(self, octets: bytes) -> None:
        """Hold these octets behind the others: what waits may be large and come in small pieces."""
        self.kept.append(octets)
        self.budget.held += len(octets)
        self.held_octets += len(octets)

    def context(self, data: bytes) -> Context:
        """What rows made now have in common; `data` are the octets from `kept_base` on."""
        reader = self.reader
        assert reader is not None
        return Context(
            data=data,
            base=self.kept_base,
            end=self.end,
            arrivals=self.arrivals,
            regimes=reader.regimes,
            version=self.version,
            confidence=self.confidence,
            doubtful=reader.unreliable_from,
            settled=self.settled,
            pieces=self.arrivals.pieces() if self.options.details else None,
            seals=seals(reader.regime),
            messages=self._wants_messages(),
            frames=self.options.frames,
            limit=self._limit,
        )

    # -- the version is settled --------------------------------------------------------------------------------------

    def prefix(self) -> bytes:
        """The first octets of the stream, up to its first hole."""
        octets = []
        for entry in self.queue:
            if isinstance(entry, Hole):
                break
            octets.append(entry)
        return b"".join(octets)

    def lost_greeting(self) -> bool:
        """Whether octets were lost while the version was being settled."""
        return any(isinstance(entry, Hole) for entry in self.queue)

    def search_from_the_start(self, settled: int, framings: tuple[Framing, ...] = (Framing.V1, Framing.V2)) -> None:
        """The capture lacks the start of this side: what waits is searched for frames."""
        self.settled, self.framings = settled, framings
        self.begin_search(0)
        self._replay()

    def arrival(self, start: int, stop: int) -> Arrival:
        """The segment with the octet at `start`, and the ordinal of the one that completed `start..stop`."""
        first = self.arrivals.at(start)
        return Arrival(self.ordinal_of(start, stop), first.packet, first.time)

    def ordinal_of(self, start: int, stop: int) -> int:
        """The ordinal of the segment that completed `start..stop`."""
        return self.arrivals.decided(start, min(stop, self.end), self.settled)

    def octets(self, start: int, stop: int) -> bytes:
        """The octets `start..stop` of a unit that is being read, as far as they are held."""
        return self.reading[max(0, start - self.kept_base) : max(0, stop - self.kept_base)]

    def begin(self, reader: SideReader | None, settled: int, confidence: str, reason: str = NOT_ZMTP) -> None:
        """Read what waited with `reader`, or (None) leave this side alone from now on, for `reason`."""
        self.settled, self.confidence, self.reader, self.reason = settled, confidence, reader, reason
        self.mode = Mode.OPAQUE if reader is None else Mode.READING
        if reader is not None and reader.regime.framing is Framing.ZWS:
            self.unmasking = Unmasking()
        self._replay()

    def _replay(self) -> None:
        """Take what waited for the version, octets between holes in one piece."""
        queue, self.queue = self.queue, []
        self.end = 0
        for are_holes, entries in groupby(queue, _is_hole):
            if are_holes:
                for hole in entries:
                    assert isinstance(hole, Hole)
                    self.lose(hole)
            else:
                octets = b"".join([entry for entry in entries if isinstance(entry, bytes)])
                self.end += len(octets)
                self._consume(octets)

    # -- holes, and reading on behind them ---------------------------------------------------------------------------

    def lose(self, hole: Hole) -> None:
        """The `hole.octets` octets behind `end` were lost."""
        if self.lost_since is None:
            self.lost_since = hole.ordinal
        if self.mode is Mode.NEGOTIATING:
            self.queue.append(hole)
            self.end += hole.octets
            self.arrivals.add_hole(self.end, Arrival(hole.ordinal, hole.packet, hole.time))
            return
        start, stop = self.end, self.end + hole.octets
        self.holes.append(start)
        told = Arrival(max(hole.ordinal, self.settled), hole.packet, hole.time)
        while self.searches:
            self._conclude(told)
        self.counts.gaps += hole.octets
        reader = self.reader if self.mode is Mode.READING else None
        if reader is not None and reader.position > start and reader.position >= stop:
            self._lose_body(reader, hole, told)
            return
        if reader is not None:
            self.settled = told.ordinal
            self._give_up_unit(reader, BEFORE_A_GAP, told.ordinal)
        self._end_stretch(start, told.ordinal)
        self._pass_hole(stop, told)
        if self.mode is Mode.OPAQUE:
            self._give_gap(hole, start, told, None)
            return
        if self.unmasking is not None:  # the headers of WebSocket are not looked for
            self.mode, self.reason = Mode.OPAQUE, NOT_READ_ON
            self._give_gap(hole, start, told, None)
            return
        self.pending_gap = (hole, start)
        self.begin_search(self.end, self._greeting_end())

    def _pass_hole(self, stop: int, told: Arrival) -> None:
        """The octets up to `stop` were lost."""
        self.end = stop
        if self.mode is not Mode.OPAQUE and (not self.arrivals.ends or self.arrivals.ends[-1] < stop):
            self.arrivals.add_hole(stop, told)  # else it was put there before it was replayed

    def _lose_body(self, reader: SideReader, hole: Hole, told: Arrival) -> None:
        """All that was lost belongs to the body under way, so reading goes on behind that."""
        start = self.end
        self._pass_hole(start + hole.octets, told)
        if self.unmasking is not None:
            self.unmasking.skip(hole.octets)
        if self.decryption is not None and self.decryption.waiting is not None:
            self._let_go_of_boxes(told.ordinal)
        self.assembly.damage(self._kept_octets(b"".join(self.kept)), self._limit)
        torn = next(
            (each for each in self.held if not isinstance(each.event, Remark) and each.event.stop > start), None
        )
        if torn is None:
            self.assembly.unit_octets -= hole.octets
        else:
            torn.lost += hole.octets
        self._hold([])
        self._give_gap(hole, start, told, reader.position)
        self._read_end_of_body()

    def _release_held(self, *, over: bool = False) -> None:
        """Tell what was held back and is all there now; `over`: and what will never be."""
        held, self.held = self.held, []
        for each in held:
            event, there = each.event, min(each.event.stop, self.end)
            if not (over or event.stop <= self.end):
                self.held.append(each)
            elif isinstance(event, Skipped):
                first = each.arrived.get(event.start) or self.arrivals.at(event.start)
                told = first._replace(ordinal=self.ordinal_of(event.start, there))
                self._leave_skipped(event, event.start, there, told, each.lost)
            else:
                whole = there == event.stop and not each.lost
                self._give_unit(event, each, whole)

    def _give_up_unit(self, reader: SideReader, reason: str, ordinal: int) -> None:
        """The unit under way will never be whole, as the segment `ordinal` told: tell the message as far as it came,
        and what is left over."""
        start = reader.position
        first = self.arrivals.at(start) if start < self.end else None
        self._give_up_message(ordinal)
        if first is not None:
            told = first._replace(ordinal=self.settled)
            self._leave(Leftover(start, self.end, self.end - start - reader.inside, UNFINISHED, reason, told))
            reader.inside = 0

    def _give_up_message(self, ordinal: int) -> None:
        """The message under way will never be whole, as the segment `ordinal` told."""
        self._release_held(over=True)
        self._let_go_of_boxes(ordinal)
        if self.assembly.open_frames:
            self.assembly.give_up(self.context(b"".join(self.kept)), ordinal)
        self.assembly.forget_damage()
        self._hold([])

    def _let_go_of_boxes(self, ordinal: int) -> None:
        """What waited to be opened goes on as it is: the segment `ordinal` told that octets were lost, or the end."""
        if self.decryption is None or self.inside is None:
            return
        self.reading = b"".join(self.kept)
        frames = self.decryption.lose()
        if self.inside.open_frames:
            self.inside.give_up(self._context_inside(self.reading), ordinal)
        self.inside.uncertain_start = True
        if frames.offsets:
            self.assembly.damage(self._kept_octets(self.reading), self._limit)
            self.assembly.take(frames, self.context(self.reading))
        self.reading = b""

    def _greeting_end(self) -> int | None:
        """Where the greeting ends of which octets were lost, if that is known and still to come."""
        end = None if self.reader is None else self.reader.greeting_end
        return end if end is not None and end >= self.end else None

    def begin_search(self, offset: int, boundary: int | None = None) -> None:
        """Look for a frame boundary from stream offset `offset` on, or wait for the one that is known."""
        self.mode, self.reason = Mode.SEARCHING, NO_BOUNDARY
        framings = self.framings if self.reader is None else (self.reader.regime.framing,)
        known = self.reader is not None or self.forced is not None
        sizes = frozenset(self.assembly.recent_sizes)
        self.searches = [FrameSearch(framing, offset, known, sizes, boundary) for framing in framings]

    def _search(self, octets: bytes) -> bytes:
        """Search on, piece by piece as they came. What is to be read once a boundary is found, or left over."""
        begin = start = self.end - len(octets)
        self._leave_over(begin)
        for arrival, stop in self.arrivals.pieces_between(begin, self.end):
            piece = octets[start - begin : stop - begin]
            start = stop
            results = [(search.feed(piece), search) for search in self.searches]
            if self.forced is not None:
                results = [(result or search.first_octets(), search) for result, search in results]
            found = [(result, search) for result, search in results if result is not None]
            if found:
                result, search = min(found, key=_offset_of)
                self._resume(result, search, arrival)
                return search.octets_from(result.offset) + octets[stop - begin :]
            unknown = self.reader is None and self.forced is None
            if unknown and all(search.exhausted() for search in self.searches):
                self._give_up_search(arrival)
                self.mode = Mode.OPAQUE
                return octets[stop - begin :]
        self.arrivals.trim(self.searches[0].base)
        self._hold_searches()
        return b""

    def _hold_searches(self) -> None:
        """Count what the searches hold as held; where all sides hold too much, they begin anew behind it."""
        held = sum(search.held_octets for search in self.searches)
        if self.budget.held - self.held_octets + held > ALL_HELD:
            for search in self.searches:
                search.give_up_in_front_of(search.end)
            held = 0
        self.budget.held += held - self.held_octets
        self.held_octets = held

    def _conclude(self, arrival: Arrival) -> None:
        """The octets that belong together end before a boundary was found: the last chance to find one."""
        for search in self.searches:
            found = search.conclude()
            if found is None and self.forced is not None and search.base == search.origin:
                found = Boundary(search.framing, search.origin)  # whoever forced it knows better
            if found is not None:
                self._resume(found, search, arrival)
                self._consume(search.octets_from(found.offset))
                return
        self._give_up_search(arrival)

    def _give_up_search(self, arrival: Arrival) -> None:
        self.searches = []
        self._hold([])
        self._tell_gap(arrival, None)

    def _resume(self, found: Boundary, search: FrameSearch, arrival: Arrival) -> None:
        """Read on at the boundary that was found when the segment `arrival` came."""
        self.searches = []
        self._hold([])
        self.mode = Mode.READING
        self.confidence = "likely"
        self.settled = max(self.settled, arrival.ordinal)
        self._end_stretch(found.offset, self.settled)
        self._tell_gap(arrival, found.offset)
        if self.forced is not None:
            version, mechanism = self.forced.version, self.forced.mechanism
            self.reader = SideReader.midstream(found.framing, offset=found.offset, version=version, mechanism=mechanism)
            self.forced = None
        elif self.reader is None:
            self.reader = SideReader.midstream(found.framing, offset=found.offset)
            self.found_since = self.settled
            self._outputs.append(FoundMidstream(found.offset, arrival._replace(ordinal=self.settled)))
        else:
            self.reader.resume(found.offset)

    def _tell_gap(self, arrival: Arrival, resumed_at: int | None) -> None:
        if self.pending_gap is not None:
            hole, start = self.pending_gap
            self.pending_gap = None
            told = Arrival(max(arrival.ordinal, hole.ordinal, self.settled), hole.packet, hole.time)
            self._give_gap(hole, start, told, resumed_at)

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self, arrival: Arrival, ended: bool) -> None:
        """No more octets will come; `ended`: the side closed (FIN or RST captured), not just the file."""
        while self.searches:
            self._conclude(arrival)
        reader = self.reader
        if self.mode is Mode.READING and reader is not None:
            self.settled = max(self.settled, arrival.ordinal)
            if ended and not self.counts.gaps:
                reader.finish(self.end)
                if reader.events:
                    self.reading = b"".join(self.kept)
                    self._tell()
                    self.reading = b""
            self._give_up_unit(reader, AT_THE_END if ended else AT_THE_END_OF_THE_CAPTURE, arrival.ordinal)
        self._end_stretch(self.end, arrival.ordinal)
        self.mode = Mode.OPAQUE
        self.budget.held -= self.held_octets
        self.budget.memberships -= self.membership_octets
        self.held_octets = self.membership_octets = 0


def version_of_records(agreed: str | None, mechanism: str | None) -> str | None:
    """The version that was agreed on as records have it: what ZWS has of commands and identities is as in 3.1 with a
    mechanism, as in 2.0 without one."""
    if agreed != VERSION_ZWS:
        return agreed
    return "2.0" if mechanism is None else "3.1"


def _is_hole(entry: bytes | Hole) -> bool:
    return isinstance(entry, Hole)


def _offset_of(entry: tuple[Boundary, FrameSearch]) -> int:
    return entry[0].offset
