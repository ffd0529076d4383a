"""Emit parsed greetings and commands, and skipped octets, once all their octets have arrived or are known to be
lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.options import Options
from zmtpscope.dissect.records.batch import Unit
from zmtpscope.dissect.records.leftovers import FIRST, UNDISSECTED, Leftover
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.tables import LATER, PacketSlice
from zmtpscope.dissect.stream.arrivals import Arrivals
from zmtpscope.dissect.stream.held_octets import HeldOctets
from zmtpscope.dissect.stream.outputs import Outputs, Repeats, UnitRead
from zmtpscope.zmtp.events import Command, Event, Greeting, Remark, Runs, Skipped
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.units import UnitReader


@dataclass(slots=True, eq=False)
class Incomplete:
    """A parsed greeting or command, or skipped octets, of which some octets have not arrived.

    `arrived` are segments needed later, by stream offset; `lost` is the number of lost octets; `data` are the first
    skipped octets, if they may be shown.
    """

    event: Event | Skipped
    unit: Unit | None = None
    arrived: dict[int, Arrival] = field(default_factory=dict)
    lost: int = 0
    data: bytes | None = None


class ReadUnits:
    """Emits the parsed greetings and commands of one side to `outputs`."""

    type_known: int | None = None
    """Ordinal of the segment with the socket type."""
    identity_from: int | None = None
    """Stream offset of the unit with the identity."""
    has_part_of_a_handshake = False
    """Whether octets of the greeting or of a handshake command are missing."""

    def __init__(
        self, side: int, arrivals: Arrivals, held_octets: HeldOctets, outputs: Outputs, options: Options
    ) -> None:
        self.side = side
        self.arrivals = arrivals
        self.held_octets = held_octets
        self.outputs = outputs
        self.wants_octets = options.details or options.index
        self.wants_packets = options.details
        self.shows_secrets = options.show_secrets
        self.incomplete: list[Incomplete] = []

    # -- units -------------------------------------------------------------------------------------------------------

    def feed(self, events: Iterable[Event], doubtful: int | None) -> None:
        """Emit events, or keep those that are incomplete. Events from stream offset `doubtful` on are uncertain."""
        end = self.arrivals.end
        for event in events:
            if event.stop > end and (not isinstance(event, Remark) or event.frame):
                self._hold_back(event)
            else:
                self._give(event, doubtful)

    def _give(
        self, event: Event, doubtful: int | None, incomplete: Incomplete | None = None, whole: bool = True
    ) -> None:
        """Emit an event.

        `incomplete` has its arrivals if it was kept; `whole`: all its octets are captured. Events from stream offset
        `doubtful` on are uncertain.
        """
        arrivals, arrived = self.arrivals, None if incomplete is None else incomplete.arrived
        start, stop, regime, end = event.start, event.stop, event.regime, arrivals.end
        first = (arrived and arrived.get(start)) or arrivals.at(start)
        ordinal = arrivals.ordinal_of(start, stop)
        captured, octets, unit, next_octets = 0, 0, None, None
        if not isinstance(event, Remark):
            if self.wants_octets:
                unit = self._unit_of(event) if incomplete is None else incomplete.unit
            octets = (stop if stop < end else end) - start
            captured = octets if incomplete is None else octets - incomplete.lost
            whole = whole and (isinstance(event, Command) or event.complete)
            if not whole and (regime.shakes_hands or isinstance(event, Greeting)):
                self.has_part_of_a_handshake = True
            if end > stop and (regime.shakes_hands or event.fields.get("name") == "PING"):
                next_octets = arrivals.at(stop)
            fields = event.fields
            if self.type_known is None and fields.get("socket_type") is not None:
                self.type_known = ordinal
            if self.identity_from is None and fields.get("identity") is not None:
                self.identity_from = start
        notes = [self._note(event, finding, ordinal, arrived or {}) for finding in event.findings]
        certain = regime.shakes_hands or doubtful is None or start < doubtful
        decided = Arrival(ordinal, first.packet, first.time)
        self.outputs.add(UnitRead(event, decided, octets, whole, certain, unit, next_octets, notes), captured)

    def _note(self, event: Event, finding: Finding, ordinal: int, arrived: dict[int, Arrival]) -> Note:
        """Return a finding about an event that the segment `ordinal` completed.

        `arrived` are segments that were kept, by stream offset. A finding at the end of an event has the time of the
        event's last octet, not of later octets.
        """
        at = event.start if finding.start is None else finding.start
        last = min(max(event.start, event.stop - 1), self.arrivals.end - 1)
        came = arrived.get(at) or self.arrivals.at(min(at, last))
        return Note(self.side, finding, came, ordinal, (), event.start, event.regime.source)

    def _unit_of(self, event: Greeting | Command) -> Unit:
        """Return octets and regime of an event that is being read."""
        octets = event.octets if isinstance(event, Command) else None
        if octets is None:
            octets = self.held_octets.octets(event.start, event.read_to)
        if self.wants_packets:
            slices = self.arrivals.pieces().slices(event.start, event.read_to)
        else:
            slices = [PacketSlice(LATER, event.start, min(event.read_to, self.arrivals.end))]
        return Unit(event.regime, event.start, octets, slices)

    def repeat(self, reader: UnitReader, given: dict[str, int]) -> None:
        """Emit findings that a reader only counts. `given` are the counts already emitted, by id."""
        last = self.arrivals.end - 1
        for id_, (count, offset) in reader.repeats.items():
            more = count - given.get(id_, 0)
            if more:
                at = self.arrivals.at(last if offset is None else min(offset, last))
                note = Note(self.side, Finding(id_, offset), at, at.ordinal, source=reader.regime.source)
                self.outputs.add(Repeats(note, more))
                given[id_] = count

    # -- incomplete units ----------------------------------------------------------------------------------------------

    def _hold_back(self, event: Event | Skipped, data: bytes | None = None) -> None:
        unit = self._unit_of(event) if self.wants_octets and isinstance(event, Greeting | Command) else None
        self.incomplete.append(Incomplete(event, unit, data=data))

    def show(self, octets: bytes) -> None:
        """Store the first octets of skipped octets that continue with `octets`, to show them in records."""
        start = self.arrivals.end - len(octets)
        for each in self.incomplete:
            if each.data is not None and len(each.data) < FIRST and not each.lost:
                known = each.event.start + len(each.data) - start
                each.data += octets[known : min(known + FIRST - len(each.data), each.event.stop - start)]

    def remember_arrivals(self) -> None:
        """Store the arrivals that are needed later, before they are forgotten."""
        for incomplete in self.incomplete:
            event, arrived = incomplete.event, incomplete.arrived
            findings = () if isinstance(event, Skipped) else event.findings
            for at in (event.start, *(each.start for each in findings)):
                if at is not None and at < self.arrivals.end and at not in arrived:
                    arrived[at] = self.arrivals.at(at)

    def lose(self, start: int, octets: int) -> bool:
        """Count `octets` lost from stream offset `start` on; return whether they belong to an incomplete greeting or
        command."""
        for each in self.incomplete:
            if not isinstance(each.event, Remark) and each.event.stop > start:
                each.lost += octets
                return True
        return False

    def release(self, doubtful: int | None, *, over: bool = False) -> None:
        """Emit the kept events that are complete now or, if `over`, will never be.

        Events from stream offset `doubtful` on are uncertain.
        """
        held_back, self.incomplete = self.incomplete, []
        for each in held_back:
            event, there = each.event, min(each.event.stop, self.arrivals.end)
            if not (over or event.stop <= self.arrivals.end):
                self.incomplete.append(each)
            elif isinstance(event, Skipped):
                first = each.arrived.get(event.start) or self.arrivals.at(event.start)
                decided = first._replace(ordinal=self.arrivals.ordinal_of(event.start, there))
                self._leave(event, event.start, there, decided, each.data, each.lost)
            else:
                self._give(event, doubtful, each, there == event.stop and not each.lost)

    # -- skipped octets ------------------------------------------------------------------------------------------------

    def skip(self, skipped: list[Skipped], *, may_be_shown: bool) -> None:
        """Emit skipped octets: one leftover for a single item, otherwise one for each segment.

        `may_be_shown`: they cannot contain a password.
        """
        piece, decided = range(0), None  # the segment of the last one: one segment often has hundreds
        for each in skipped:
            start = each.start
            if each.stop > self.arrivals.end:
                self._hold_back(each, self._first_octets(each, start, each.stop, may_be_shown))
            elif each.runs is not None:
                self._leave_runs(each, each.runs, may_be_shown)
            elif each.single or each.stop - start == 1:
                if decided is None or start not in piece or each.stop > piece.stop:
                    piece, decided = self.arrivals.piece_at(start), self.arrivals.arrival(start, each.stop)
                self._leave(each, start, each.stop, decided, self._first_octets(each, start, each.stop, may_be_shown))
            else:
                for _, end in self.arrivals.pieces_between(start, each.stop):
                    stop = min(end, each.stop)
                    data = self._first_octets(each, start, stop, may_be_shown)
                    self._leave(each, start, stop, self.arrivals.arrival(start, stop), data)
                    start = stop

    def _first_octets(self, skipped: Skipped, start: int, stop: int, may_be_shown: bool) -> bytes | None:
        """Return the first captured octets of `start..stop`, if no greeting, command or frame is among them.

        None unless they `may_be_shown`: they cannot contain a password.
        """
        if skipped.inside or not may_be_shown:
            return None
        return self.held_octets.octets(start, min(stop, start + FIRST))

    def _leave_runs(self, skipped: Skipped, runs: Runs, may_be_shown: bool) -> None:
        """Emit the skipped octets in the ranges `runs`, between frames: one leftover for each segment with octets of a
        range.

        `may_be_shown`: they cannot contain a password.
        """
        begin = skipped.start
        for arrival, end in self.arrivals.pieces_between(begin, skipped.stop):
            low = bisect_right(runs.stops, begin)
            high = bisect_right(runs.stops, end) if skipped.single else bisect_left(runs.starts, end)
            if low < high:
                start, stop = runs.starts[low], runs.stops[high - 1]
                if not skipped.single:
                    start, stop = max(begin, start), min(end, stop)
                between = sum(runs.starts[low + 1 : high]) - sum(runs.stops[low : high - 1])
                ordinal = max(arrival.ordinal, self.arrivals.settled)
                decided = self.arrivals.at(start)._replace(ordinal=ordinal)
                octets, data = stop - start - between, None
                if may_be_shown:
                    places = zip(runs.starts[low : low + FIRST], runs.stops[low : low + FIRST], strict=True)
                    parts = [self.held_octets.octets(max(start, one), min(stop, other)) for one, other in places]
                    data = b"".join(parts)[: min(FIRST, octets)]
                self.outputs.leave(Leftover(start, stop, octets, UNDISSECTED, skipped.reason, decided, True, data))
            begin = end

    def _leave(
        self, skipped: Skipped, start: int, stop: int, decided: Arrival, data: bytes | None, lost: int = 0
    ) -> None:
        """Emit a leftover with the stream offsets `start..stop`, of which `lost` octets are missing; it starts with
        `data`."""
        octets = stop - start - skipped.inside - lost
        between = skipped.between_units
        self.outputs.leave(Leftover(start, stop, octets, UNDISSECTED, skipped.reason, decided, between, data))
