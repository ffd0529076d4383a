"""One side's octets on their way to the reader: negotiating, reading, searching after a loss, or not ZMTP at all."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING

from zmtpscope.dissect.arrivals import Arrival, Arrivals, BlockView
from zmtpscope.dissect.assembly import Assembly, Context
from zmtpscope.dissect.batch import Stream
from zmtpscope.dissect.reassembly import Hole
from zmtpscope.dissect.resync import Found, FrameSearch
from zmtpscope.zmtp.events import Remark
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader

if TYPE_CHECKING:
    from zmtpscope.dissect.connection import Connection

HEADERS = 64
"""Octets allowed per frame for its header, where the size of a message under way is compared with the body limit."""


class Mode(Enum):
    """What happens to the octets of a side."""

    NEGOTIATING = "the version is not settled; octets wait"
    READING = "frames are read"
    SEARCHING = "a frame boundary is looked for"
    OPAQUE = "not ZMTP, or given up"


class SideStream:
    """The stream of one side. `end` is the offset behind the last octet (or hole) that arrived.

    While reading, the octets from `kept_base` on are held in `kept`: those not read yet and, where bodies are wanted,
    those of the message that is under way.
    """

    def __init__(self, connection: Connection, stream: Stream) -> None:
        self.connection = connection
        self.stream = stream
        self.mode = Mode.NEGOTIATING
        self.queue: list[bytes | Hole] = []
        """Octets and holes that wait for the version."""
        self.reader: SideReader | None = None
        self.searches: list[FrameSearch] = []
        self.pending_gap: tuple[Hole, int] | None = None
        """The hole (and its stream offset) behind which the search goes on; its record tells where it ended."""
        self.arrivals = Arrivals()
        self.assembly = Assembly(stream)
        self.end = 0
        self.last_time = 0
        self.kept: list[bytes] = []
        self.kept_base = 0
        self.held: list[Remark] = []
        """Remarks about a frame whose octets are not all there yet; they are told with its row."""
        self.reading = b""
        """The octets from `kept_base` on while events are taken."""
        self.settled = -1
        self.confidence = "proven"
        self.type_known: int | None = None
        """Ordinal of the segment that told the side's socket type."""
        self.repeats: Counter[str] = Counter()
        """How many of the findings that the reader only counts have been told."""
        self.lost_octets = 0
        self.undissected = 0

    # -- octets in ---------------------------------------------------------------------------------------------------

    def extend(self, view: BlockView, rows: list[int]) -> None:
        """Take the next pieces of the stream."""
        self.last_time = max(self.last_time, max([view.times[row] for row in rows]))
        if self.mode is Mode.SEARCHING:
            for place, row in enumerate(rows):
                self.end = self.arrivals.add(view, [row], self.end)
                self._search(view.octets([row]), view.arrival(row))
                if not self.searches:  # found, or given up
                    if place + 1 < len(rows):
                        self.extend(view, rows[place + 1 :])
                    return
            self.arrivals.trim(self.searches[0].base)
        elif self.mode is Mode.OPAQUE:
            octets = sum([view.stops[row] - view.starts[row] for row in rows])
            self.end += octets
            self.undissected += octets
        else:
            start = self.end
            self.end = self.arrivals.add(view, rows, start)
            if self.mode is Mode.NEGOTIATING:
                self.queue.append(view.octets(rows))
            else:
                self._read_on(start, view, rows)

    def _read_on(self, start: int, view: BlockView, rows: list[int]) -> None:
        reader = self.reader
        assert reader is not None
        if not self.kept:
            self.kept_base = start
        if reader.position < self.end:
            self._read(view.octets(rows))
        else:  # all of it is body of a frame whose header was read
            if self._keeps_bodies():
                self.kept.append(view.octets(rows))
            else:
                self.kept = []
            self._trim_arrivals(self.end)
            if reader.position == self.end:
                self._read(b"")

    def _read(self, octets: bytes) -> None:
        """Read on: `octets` follow what is kept and end at `end`."""
        reader = self.reader
        assert reader is not None
        data = self.reading = b"".join([*self.kept, octets]) if self.kept else octets
        if reader.position <= self.end:
            self._release_remarks()
        reader.read(data, self.kept_base)
        columns, events = reader.take()
        for event in events:
            if isinstance(event, Remark) and event.frame and event.stop > self.end:
                self.held.append(event)
            else:
                self.connection.take_event(self, event)
        self.assembly.take(columns, self._context(data))
        if reader.broken is not None:
            self._lose_framing(data[max(0, reader.broken - self.kept_base) :], reader.broken)
            return
        if reader.opaque:
            self.undissected += self.end - reader.position
            self.kept = []
            self.mode = Mode.OPAQUE
            return
        if reader.unreliable:
            self.confidence = "likely"
        if reader.repeats:
            self.connection.count_repeats(self)
        base = min(reader.position, self.end)
        self._trim_arrivals(base)
        if self.assembly.open_offset is not None and self._keeps_bodies():
            base = max(min(base, self.assembly.open_offset), self.kept_base)
        rest = data[base - self.kept_base :]
        self.reading = b""
        self.kept = [rest] if rest else []
        self.kept_base = base

    def _trim_arrivals(self, offset: int) -> None:
        """Forget how octets in front of `offset` came, but for a message under way whose details may be asked for."""
        if self._keeps_bodies() and self.connection.options.details and self.assembly.open_offset is not None:
            offset = min(offset, self.assembly.open_offset)
        self.arrivals.trim(offset)

    def _keeps_bodies(self) -> bool:
        options, begin = self.connection.options, self.assembly.open_offset
        if begin is None or not options.records or options.bodies == "none":
            return False
        return self.end - begin <= options.body_limit + HEADERS * self.assembly.open_frames

    def _context(self, data: bytes) -> Context:
        reader = self.reader
        assert reader is not None
        return Context(
            data=data,
            base=self.kept_base,
            end=self.end,
            arrivals=self.arrivals,
            regimes=reader.regimes,
            version=self.connection.version,
            confidence=self.confidence,
            settled=self.settled,
            pieces=self.arrivals.pieces() if self.connection.options.details else None,
            messages=self.connection.wants_messages(self),
            frames=self.connection.options.frames,
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

    def _joined_queue(self) -> list[bytes | Hole]:
        """The queue with octets between holes in one piece."""
        joined: list[bytes | Hole] = []
        pieces: list[bytes] = []
        for entry in self.queue:
            if isinstance(entry, Hole):
                joined += [b"".join(pieces), entry] if pieces else [entry]
                pieces = []
            else:
                pieces.append(entry)
        return [*joined, b"".join(pieces)] if pieces else joined

    def search_from_the_start(self) -> None:
        """The capture lacks the start of this side: what waits is searched for frames."""
        queue, self.queue = self.queue, []
        self.end = 0
        self.begin_search(0)
        for entry in queue:
            if isinstance(entry, Hole):
                self.lose(entry)
            else:
                self.end += len(entry)
                self._search(entry, self.arrivals.at(self.end - 1))

    def octets(self, start: int, stop: int) -> bytes:
        """The octets `start..stop` of a unit that is being read, as far as they are held."""
        return self.reading[max(0, start - self.kept_base) : max(0, stop - self.kept_base)]

    def begin(self, reader: SideReader | None, settled: int, confidence: str) -> None:
        """Read what waited with `reader`, or (None) leave this side alone from now on."""
        queue, self.queue = self._joined_queue(), []
        waited = self.end
        self.settled, self.confidence, self.reader = settled, confidence, reader
        self.mode = Mode.OPAQUE if reader is None else Mode.READING
        self.end = 0
        for entry in queue:
            if isinstance(entry, Hole):
                self.lose(entry)
            elif self.mode is Mode.READING:
                self.kept_base = self.kept_base if self.kept else self.end
                self.end += len(entry)
                self._read(entry)
            elif self.mode is Mode.SEARCHING:
                self.end += len(entry)
                self._search(entry, self.arrivals.at(self.end - 1))
            else:
                self.end += len(entry)
                self.undissected += len(entry)
        assert self.end == waited

    # -- holes, and reading on behind them ---------------------------------------------------------------------------

    def lose(self, hole: Hole) -> None:
        """The `hole.octets` octets behind `end` were lost."""
        if self.mode is Mode.NEGOTIATING:
            self.queue.append(hole)
            self.end += hole.octets
            self.arrivals.add_hole(self.end, Arrival(hole.ordinal, hole.packet, hole.time))
            return
        start = self.end
        told = Arrival(max(hole.ordinal, self.settled), hole.packet, hole.time)
        self.end += hole.octets
        self.lost_octets += hole.octets
        if self.mode is Mode.OPAQUE:
            return
        if not self.arrivals.ends or self.arrivals.ends[-1] < self.end:
            self.arrivals.add_hole(self.end, told)
        if self.mode is Mode.SEARCHING:
            self._end_search(told, start)
        if self.mode is Mode.READING:
            reader = self.reader
            assert reader is not None
            if reader.position > start and reader.position >= self.end:  # all of it is body
                self.assembly.damage(b"".join(self.kept), self.kept_base)
                self.kept = []
                self.kept_base = self.end
                self.connection.note_gap(self, hole, start, told, reader.position)
                if reader.position == self.end:
                    self._read(b"")
                return
            self.undissected += max(0, start - reader.position)
            self._give_up_message()
        self.pending_gap = (hole, start)
        self.begin_search(self.end)

    def _lose_framing(self, rest: bytes, offset: int) -> None:
        """The reader met a header that ends framing: look for the next boundary in `rest`, which begins at `offset`."""
        self._give_up_message()
        self.begin_search(offset)
        if rest:
            self._search(rest, self.arrivals.at(self.end - 1))

    def _release_remarks(self) -> None:
        held, self.held = self.held, []
        for remark in held:
            self.connection.take_event(self, remark)

    def _give_up_message(self) -> None:
        self._release_remarks()
        self.assembly.give_up(self._context(b"".join(self.kept)))
        self.kept = []

    def begin_search(self, offset: int) -> None:
        """Look for a frame boundary from stream offset `offset` on."""
        self.mode = Mode.SEARCHING
        framings = [Framing.V1, Framing.V2] if self.reader is None else [self.reader.regime.framing]
        known = self.reader is not None
        self.searches = [FrameSearch(framing, offset, known, self.assembly.recent_sizes) for framing in framings]

    def _search(self, octets: bytes, arrival: Arrival) -> None:
        results = [(search.feed(octets), search) for search in self.searches]
        found = [(result, search) for result, search in results if result is not None]
        if found:
            self._resume(*min(found, key=_offset_of), arrival, self.end)
        elif self.reader is None and all(search.exhausted() for search in self.searches):
            self._end_search(arrival, self.end)
            self.mode = Mode.OPAQUE

    def _end_search(self, arrival: Arrival, end: int) -> None:
        """The octets that belong together end at `end` before a boundary was found; the last chance to find one."""
        for search in self.searches:
            found = search.conclude()
            if found is not None:
                self._resume(found, search, arrival, end)
                return
        if self.searches:
            self.undissected += self.searches[0].end - self.searches[0].origin
        self.searches = []
        self._tell_gap(arrival, None)

    def _resume(self, found: Found, search: FrameSearch, arrival: Arrival, end: int) -> None:
        self.undissected += found.offset - search.origin
        self.searches = []
        self.mode = Mode.READING
        self.confidence = "likely"
        self.settled = max(self.settled, arrival.ordinal)
        self._tell_gap(arrival, found.offset)
        if self.reader is None:
            self.reader = SideReader.midstream(found.framing, offset=found.offset)
            self.connection.found_midstream(self, found.offset, arrival)
        else:
            self.reader.resume(found.offset)
        self.kept, self.kept_base = [], found.offset
        after, self.end = self.end, end
        self._read(search.octets_from(found.offset))
        self.end = after

    def _tell_gap(self, arrival: Arrival, resumed_at: int | None) -> None:
        if self.pending_gap is not None:
            hole, start = self.pending_gap
            self.pending_gap = None
            told = Arrival(max(arrival.ordinal, hole.ordinal), hole.packet, hole.time)
            self.connection.note_gap(self, hole, start, told, resumed_at)

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self, arrival: Arrival, ended: bool) -> None:
        """No more octets will come; `ended`: the side closed (FIN or RST captured), not just the file."""
        if self.mode is Mode.SEARCHING:
            self._end_search(arrival, self.end)
        reader = self.reader
        if self.mode is Mode.READING and reader is not None:
            self.settled = max(self.settled, arrival.ordinal)
            if ended and not self.lost_octets:
                reader.finish(self.end)
                columns, events = reader.take()
                self.assembly.take(columns, self._context(b"".join(self.kept)))
                for event in events:
                    self.connection.take_event(self, event)
            self.undissected += max(0, self.end - reader.position)
            self._give_up_message()
        self.mode = Mode.OPAQUE


def _offset_of(entry: tuple[Found, FrameSearch]) -> int:
    return entry[0].offset
