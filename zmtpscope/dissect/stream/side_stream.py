"""The octets of one side: they wait for the version, are parsed, searched for a frame boundary, or left over."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum
from typing import TYPE_CHECKING

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.leftovers import FOR_A_PROXY, NO_BOUNDARY, NOT_READ_ON, NOT_ZMTP, TOO_FEW
from zmtpscope.dissect.stream.arrivals import Arrivals, BlockView
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.messages import Messages
from zmtpscope.dissect.stream.negotiating import Negotiating
from zmtpscope.dissect.stream.opened_messages import OpenedMessages
from zmtpscope.dissect.stream.outputs import FoundMidstream, Outputs
from zmtpscope.dissect.stream.read_units import ReadUnits
from zmtpscope.dissect.stream.reading import Reading, Stopped
from zmtpscope.dissect.tcp.out_of_order import Hole
from zmtpscope.option_texts import DecodeAs
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.side import SideReader

if TYPE_CHECKING:
    from zmtpscope.dissect.stream.decryption import Decryption  # PyNaCl loads slowly
    from zmtpscope.dissect.stream.searching import Found, Searching


class Mode(Enum):
    """How the octets of a side are used: wait for the version, are parsed, are searched, or are left over."""

    NEGOTIATING = "the version is not settled; octets wait (`Negotiating`)"
    READING = "units are read (`Reading`)"
    SEARCHING = "a frame boundary is looked for (`Searching`)"
    OPAQUE = "not ZMTP, or given up: octets are left over"


class SideStream:
    """Passes the octets and holes of one side to its current mode, and changes the mode. Results are in `outputs`."""

    mode = Mode.NEGOTIATING
    reason = NOT_ZMTP
    """Reason for leftovers while nothing is parsed."""
    reading: Reading | None = None
    """Parses the stream: set once it begins, and resumes after losses."""
    search: Searching | None = None
    version: str | None = None
    found_since: int | None = None
    """Ordinal of the segment that showed ZMTP, if frames were found midstream."""
    framings: tuple[Framing, ...] = (Framing.V1, Framing.V2)
    """Framings to search for while the framing is unknown."""
    forced: DecodeAs | None = None
    """The decode-as rule for a side whose start was not captured, until a frame is found."""
    assumed_type: str | None = None
    """Socket type by that rule."""
    inferred_type: str | None = None
    """Socket type inferred from captured data."""
    is_midstream = False
    """Whether frames were found midstream, without a captured handshake."""
    passed = shown = 0
    """Octets for a proxy before ZMTP, and how many precede any password."""
    lost_since: int | None = None
    """Ordinal of the segment that made known the first hole."""

    def __init__(
        self,
        side: int,
        stream: Stream,
        options: Options,
        budget: OctetBudget,
        judged_types: Container[str] = (),
        decryption: Decryption | None = None,
    ) -> None:
        self.side = side
        self.stream = stream
        opened = None if decryption is None else OpenedMessages(stream, decryption)
        self.arrivals = Arrivals()
        self.held_octets = HeldOctets(budget)
        self.outputs = Outputs()
        self.units = ReadUnits(side, self.arrivals, self.held_octets, self.outputs, options)
        self.messages = Messages(stream, options, judged_types, self.arrivals, self.held_octets, opened)
        self.negotiating = Negotiating()

    # -- facts about the side ------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        return self.arrivals.end

    @property
    def reader(self) -> SideReader | None:
        return None if self.reading is None else self.reading.reader

    @property
    def socket_type(self) -> str | None:
        """The socket type that the side announced; without it the type from a decode-as rule, or the inferred type."""
        known = None if self.reading is None else self.reading.socket_type
        return known or self.assumed_type or self.inferred_type

    @property
    def identity(self) -> str | None:
        return None if self.reading is None else self.reading.identity

    def identity_at(self, offset: int) -> str | None:
        """Return the identity of the side, if it was announced before stream offset `offset`."""
        known_from = self.units.identity_from
        return self.identity if known_from is not None and known_from < offset else None

    @property
    def handshake_done(self) -> bool:
        """Whether the last handshake command, and everything before it, was captured and parsed."""
        reading = self.reading
        return reading is not None and reading.reader.handshake_done and not self.units.has_part_of_a_handshake

    @property
    def unit_octets(self) -> int:
        shared = 0 if self.reading is None else self.reading.reader.shared
        return self.outputs.units + self.messages.unit_octets - shared

    @property
    def closed_since(self) -> int | None:
        """The ordinal of the segment that showed the first MESSAGE that could not be decrypted; None if there is
        none."""
        return None if self.messages.opened is None else self.messages.opened.closed_since

    @property
    def is_read_for_certain(self) -> bool:
        """Whether the whole stream was parsed without doubt."""
        doubtful = None if self.reading is None else self.reading.doubtful_from
        return doubtful is None or self.end < doubtful

    # -- the version -------------------------------------------------------------------------------------------------

    def prefix(self) -> bytes:
        """Return the ZMTP octets before the first hole, while the version is unknown."""
        return self.negotiating.prefix()[self.passed :]

    def pass_proxy(self, octets: int, shown: int) -> None:
        """Skip octets for a proxy before ZMTP. The first `shown` of them precede any password."""
        self.passed, self.shown = octets, shown

    def agree(self, version: str | None) -> None:
        self.version = version
        if self.reading is not None:
            self.reading.agree(version)

    def begin(self, reader: SideReader | None, settled: int, confidence: str, reason: str = NOT_ZMTP) -> None:
        """Parse the octets that have waited for the version with `reader`.

        Without a reader, this side is left over for `reason`. `settled` is the ordinal of the segment that determined
        the version.
        """
        self.arrivals.settle(settled)
        self.reason = reason
        if reader is None:
            self.mode = Mode.OPAQUE
        else:
            self._read_with(reader, confidence)
        self._replay()

    def search_from_the_start(
        self, settled: int, framings: tuple[Framing, ...] = (Framing.V1, Framing.V2), forced: DecodeAs | None = None
    ) -> None:
        """Search the octets so far for a frame boundary, since the start of this side was not captured.

        `settled` is the ordinal of the segment that showed this.
        """
        self.arrivals.settle(settled)
        self.framings, self.forced = framings, forced
        self._search_from(0)
        self._replay()

    def _read_with(self, reader: SideReader, confidence: str) -> None:
        arrivals, held, units = self.arrivals, self.held_octets, self.units
        self.mode = Mode.READING
        self.reading = Reading(reader, arrivals, held, units, self.messages, self.outputs, self.version, confidence)

    def _replay(self) -> None:
        """Process the octets that have waited for the version."""
        self.arrivals.rewind()
        passed = self.passed
        for entry in self.negotiating.drain():
            if isinstance(entry, Hole):
                self.lose(entry)
                continue
            if passed:
                self.arrivals.pass_by(passed)
                self.outputs.leave_from(0, self.arrivals.at(0), FOR_A_PROXY)
                self.outputs.show(0, entry[: self.shown])
                self.outputs.leave_until(passed, self.arrivals.settled)
                entry, passed = entry[passed:], 0
            self.arrivals.pass_by(len(entry))
            self._take(entry)

    # -- octets ------------------------------------------------------------------------------------------------------

    def feed(self, block: BlockView, rows: list[int]) -> None:
        if self.mode is Mode.OPAQUE:
            if not self.outputs.is_leaving:
                first = block.arrival(rows[0])
                self.outputs.leave_from(self.end, first, self.reason, may_be_shown=self._may_be_shown())
            if self.outputs.wants_octets:
                self.outputs.show(self.end, block.octets(rows))
            self.arrivals.pass_by(sum([block.stops[row] - block.starts[row] for row in rows]))
            return
        self.arrivals.add(block, rows)
        if self.mode is Mode.NEGOTIATING:
            self.negotiating.feed(block.octets(rows))
        elif self.mode is Mode.READING and self.reading is not None:
            stopped = self.reading.feed_rows(block, rows)
            if stopped is not None:
                self._take(self._stop(stopped))
        else:
            self._take(block.octets(rows))

    def _take(self, octets: bytes) -> None:
        while octets:
            if self.mode is Mode.READING and self.reading is not None:
                stopped = self.reading.feed(octets)
                octets = b"" if stopped is None else self._stop(stopped)
            elif self.search is not None:
                self._leave(octets)
                found = self.search.feed(octets)
                octets = b"" if found is None else self._end_search(found)
                if found is not None and found.boundary is None:
                    self.mode = Mode.OPAQUE
            else:
                self._leave(octets)
                return

    def _leave(self, octets: bytes) -> None:
        """Add octets, the last ones of the stream so far, to the octets that are left over without parsing."""
        start = self.end - len(octets)
        self._leave_from(start)
        self.outputs.show(start, octets)

    def _leave_from(self, start: int, inside: int = 0) -> None:
        if not self.outputs.is_leaving:
            first, may_be_shown = self.arrivals.at(start), not inside and self._may_be_shown()
            self.outputs.leave_from(start, first, self.reason, inside, may_be_shown=may_be_shown)

    def _may_be_shown(self) -> bool:
        """Whether leftovers from here on may be shown: they are unmasked and cannot contain a password."""
        if self.reason in (NOT_ZMTP, TOO_FEW):
            return True
        reading = self.reading
        return self.units.shows_secrets if reading is None else reading.has_no_passwords and reading.unmasking is None

    def _stop(self, stopped: Stopped) -> bytes:
        """Stop parsing, and change the mode; return the octets that were not read."""
        if stopped.is_lost:
            self._search_from(stopped.offset)
        else:
            self.mode, self.reason = Mode.OPAQUE, stopped.reason
            if stopped.offset < self.end:
                self._leave_from(stopped.offset, stopped.inside)
        return stopped.rest

    def plain_reading(self) -> Reading | None:
        """Return the `Reading` of the side if the fast path can continue it, otherwise None."""
        reading = self.reading if self.mode is Mode.READING else None
        return reading if reading is not None and reading.is_plain() else None

    # -- holes, and the search after them ------------------------------------------------------------------------------

    def lose(self, hole: Hole) -> None:
        """Process a hole at the end of the stream so far."""
        decided = Arrival(hole.ordinal, hole.packet, hole.time)
        if self.lost_since is None:
            self.lost_since = hole.ordinal
        if self.mode is Mode.NEGOTIATING:
            self.negotiating.lose(hole)
            self.arrivals.lose(hole.octets, decided)
            return
        start = self.end
        self.messages.lose(start)
        decided = decided._replace(ordinal=max(hole.ordinal, self.arrivals.settled))
        while self.search is not None:
            self._take(self._end_search(self.search.conclude(decided)))
        self.outputs.lose(hole.octets)
        reading = self.reading if self.mode is Mode.READING else None
        if reading is not None and reading.is_in_body(start + hole.octets):
            stopped = reading.lose_body(hole, decided)
            if stopped is not None:
                self._take(self._stop(stopped))
            return
        if reading is not None:
            reading.lose(decided)
        self.outputs.leave_until(start, decided.ordinal)
        if self.mode is Mode.OPAQUE:
            self.arrivals.pass_by(hole.octets)
            self.outputs.give_gap(start, hole, decided, None)
            return
        self.arrivals.lose(hole.octets, decided)
        if reading is not None and reading.unmasking is not None:  # WebSocket headers are not searched for
            self.mode, self.reason = Mode.OPAQUE, NOT_READ_ON
            self.outputs.give_gap(start, hole, decided, None)
            return
        self.outputs.hold_gap(start, hole)
        greeting_end = None if self.reading is None else self.reading.reader.greeting_end
        is_to_come = greeting_end is not None and greeting_end >= self.end
        self._search_from(self.end, greeting_end if is_to_come else None)

    def _search_from(self, offset: int, boundary: int | None = None) -> None:
        """Search for a frame boundary from stream offset `offset` on, or wait for a known `boundary`."""
        self.mode, self.reason = Mode.SEARCHING, NO_BOUNDARY
        is_known = self.reading is not None
        framings = self.framings if self.reading is None else (self.reading.reader.regime.framing,)
        sizes = self.messages.in_clear.recent_sizes
        from zmtpscope.dissect.stream.searching import Searching

        self.search = Searching(
            self.arrivals, self.held_octets, offset, framings, is_known, sizes, boundary, self.forced
        )

    def _end_search(self, found: Found) -> bytes:
        """Resume parsing at the boundary that was found, if any; return the octets that were not read."""
        self.search = None
        boundary, arrivals, reading = found.boundary, self.arrivals, self.reading
        self.held_octets.hold_nothing()
        if boundary is None:
            self.outputs.end_gap(max(found.arrival.ordinal, arrivals.settled), None)
            return found.octets
        settled = max(arrivals.settled, found.arrival.ordinal)
        arrivals.settle(settled)
        self.outputs.leave_until(boundary.offset, settled)
        self.outputs.end_gap(settled, boundary.offset)
        if reading is not None:
            self.mode = Mode.READING
            reading.resynchronise(boundary.offset)
            return found.octets
        forced, self.forced = self.forced, None
        version, mechanism = (None, None) if forced is None else (forced.version, forced.mechanism)
        reader = SideReader.midstream(
            boundary.framing,
            offset=boundary.offset,
            version=version,
            mechanism=mechanism,
            socket_type=self.assumed_type,
        )
        self._read_with(reader, "likely")
        self.is_midstream = True
        self.messages.require_rows()
        if forced is None:
            self.found_since = settled
            self.outputs.add(FoundMidstream(boundary.offset, found.arrival._replace(ordinal=settled)))
        return found.octets

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self, arrival: Arrival, ended: bool) -> None:
        """Process the end of the stream. `ended`: a FIN or RST was captured, not just the end of the file."""
        while self.search is not None:
            self._take(self._end_search(self.search.conclude(arrival)))
        if self.mode is Mode.READING and self.reading is not None:
            self.reading.finish(arrival.ordinal, ended, is_whole=not self.outputs.gaps)
        self.outputs.leave_until(self.end, arrival.ordinal)
        self.mode = Mode.OPAQUE
        self.held_octets.release()
