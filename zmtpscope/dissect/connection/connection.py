"""Reads the two sides of a connection in packet order, and writes records."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.findings.relations import Relations
from zmtpscope.dissect.findings.row_rules import JUDGED_TYPES
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.facts import ConnectionIdentity, Relayed, WithoutZmtp
from zmtpscope.dissect.records.leftovers import Gap, Leftover, Pending, PendingLeftovers
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.negotiation import Negotiation, deliver
from zmtpscope.dissect.stream.outputs import FoundMidstream, Output, Repeats, UnitRead
from zmtpscope.dissect.stream.plain_state import PlainState
from zmtpscope.dissect.stream.side_stream import Mode, SideStream
from zmtpscope.dissect.tcp.acknowledgment_times import EARLY, LATE, PROMPTLY
from zmtpscope.dissect.tcp.closed_windows import running_stall
from zmtpscope.dissect.tcp.connection import Connection
from zmtpscope.dissect.tcp.out_of_order import Hole, entries
from zmtpscope.dissect.tcp.reassembly import NEVER_ACKNOWLEDGED
from zmtpscope.dissect.tcp.retransmissions import losses, running_outage
from zmtpscope.findings import FINDINGS
from zmtpscope.option_texts import DecodeAs
from zmtpscope.zmtp.events import Command, Remark
from zmtpscope.zmtp.reader import Finding

if TYPE_CHECKING:
    from zmtpscope.dissect.connection.segment_log import SegmentLog
    from zmtpscope.dissect.stream.session import Session

ACKNOWLEDGMENT_FINDINGS = {
    LATE: ("ZMTP-CONN-24", "from packet {} on"),
    PROMPTLY: ("ZMTP-CONN-25", "from packet {} on"),
    EARLY: ("ZMTP-CONN-27", ""),
}
"""Id and detail of the finding about a change of acknowledgments, by `acknowledgment_times.Change.kind`."""

LOST_ON_PATH = "the receiver did not get these octets either: they were lost on the path, or still under way"


class ZmtpConnection:
    """A TCP connection and the `streams` of its two sides, ZMTP or not.

    `forced` is the user's decode-as rule. `writer` makes the records, or only counts them.
    """

    stays_out = 0
    """Number of blocks for which the connection stays off the fast path, because it left it soon."""

    def __init__(
        self, tcp: Connection, sink: Sink, forced: DecodeAs | None, writer: RecordWriter | None = None
    ) -> None:
        self.tcp = tcp
        self.sink = sink
        self.options = sink.options
        self.gaps = Pending[Gap]()
        self.leftovers = PendingLeftovers()
        ends = tcp.ends()
        self.session: Session | None = None
        if self.options.keys is None:
            one, other = None, None
        else:
            from zmtpscope.dissect.stream.decryption import Decryption  # PyNaCl loads slowly
            from zmtpscope.dissect.stream.session import Session

            session = self.session = Session(self.options.keys)
            limit = self.options.body_limit
            one, other = Decryption(session, 0, limit), Decryption(session, 1, limit)
        budget = self.sink.budget
        self.streams = (
            SideStream(0, ends[0], self.options, budget, JUDGED_TYPES, one),
            SideStream(1, ends[1], self.options, budget, JUDGED_TYPES, other),
        )
        if forced is not None:
            for stream, assumed in zip(self.streams, forced.socket_types(tcp.ports), strict=True):
                stream.assumed_type = assumed
        self.negotiation = Negotiation(tcp.tcp, self.streams, forced)
        self.view = ConnectionView(tcp, self.streams, self.negotiation, self.session)
        self.relations = Relations(self.view)
        self.writer = writer or RecordWriter(self.sink, ends, tcp.listener)
        self.rows = MessageRows(self.view, self.sink, self.writer)
        self.segment_log: SegmentLog | None = None
        """Positions of octets in files, if an index is wanted."""
        if self.options.index:
            from zmtpscope.dissect.connection.segment_log import SegmentLog

            self.segment_log = SegmentLog(tcp.number)

    def write_with(self, writer: RecordWriter) -> None:
        """Write the records of further segments with another writer. The index contains the segments read so far."""
        self.writer = self.rows.writer = writer
        if self.segment_log is not None:
            self.segment_log.waiting = []

    def advance(self, block: BlockView) -> None:
        """Read the connection's segments of a block."""
        if self.segment_log is not None:
            self._note_segments(self.segment_log, block)
        if self.session is not None:
            self.session.look_again()
        if not self.negotiation.settled:
            self.negotiation.advance(block)
        one, other = self.tcp.tcp
        rows = one.pieces, other.pieces
        if self.session is not None:
            rows = one.pieces[:], other.pieces[:]  # some of these are removed here
            self._advance_in_order(self.session, block)
        for tcp, stream in zip(self.tcp.tcp, self.streams, strict=True):
            if not (tcp.pieces or tcp.holes):
                continue
            pieces, tcp.pieces = tcp.pieces, []
            holes, tcp.holes = tcp.holes, []
            for entry in entries(pieces, holes) if holes else (pieces,):
                if isinstance(entry, Hole):
                    stream.lose(entry)
                else:
                    stream.feed(block, entry)
        self._record_outputs()
        self.relations.evaluate(block, rows)
        self._record_relations()
        self._write_gaps()
        self._write_intervals()
        self.rows.write()
        self._give_segments()

    def leave(self, read: Container[int]) -> tuple[PlainState, PlainState]:
        """Pass a quiet connection to the fast path; return the states of both sides.

        The fast path then reads the messages of the sides `read`.
        """
        requests = self.rows.requests
        one, other = (
            (
                stream.reading.leave(tcp)._replace(is_answered=requests.is_answered, last_packet=requests.last_packet)
                if stream.side in read and stream.reading is not None
                else PlainState(tcp)
            )
            for stream, tcp in zip(self.streams, self.tcp.leave(), strict=True)
        )
        return one, other

    def resume(self, states: tuple[PlainState, PlainState]) -> None:
        for stream, state in zip(self.streams, states, strict=True):
            if state.position >= 0 and stream.reading is not None:
                stream.reading.resume(state)
            if state.awaited is not None:
                self.relations.note_next_octets(stream.side, state.awaited)
            if state.is_answered is not None:
                types = stream.socket_type, self.streams[1 - stream.side].socket_type
                self.rows.requests.resume(stream.side, types, state.is_answered, state.last_packet)
        self.tcp.resume((states[0].tcp, states[1].tcp))
        if self.segment_log is not None:
            self.segment_log.ends = [state.tcp.octets for state in states]

    def is_quiet(self) -> bool:
        """Whether both handshakes are captured and complete, and no finding is pending."""
        if any(stream.is_midstream for stream in self.streams) or self.relations.is_silence_due:
            return False
        return self.negotiation.settled and self.view.is_agreed() and self.rows.inference is None

    def _note_segments(self, segment_log: SegmentLog, block: BlockView) -> None:
        """Log where the octets of a block are in files, or only count them if the connection cannot be parsed."""
        is_over = all(stream.mode is Mode.OPAQUE for stream in self.streams) and not self.view.is_zmtp
        (segment_log.pass_by if is_over else segment_log.take)(self.tcp.tcp, block)

    def _give_segments(self) -> None:
        if self.segment_log is not None:
            self.sink.batch.segments += self.segment_log.drain(is_zmtp=self.view.is_zmtp)

    def _advance_in_order(self, session: Session, block: BlockView) -> None:
        """Read a block in packet order, because one side may contain keys for the encrypted boxes of the other."""

        def is_over() -> bool:
            opaque = all(stream.mode is Mode.OPAQUE for stream in self.streams)
            return session.settled or opaque or not self.negotiation.settled or self._has_no_boxes()

        def feed(side: int, entry: int | Hole) -> bool:
            stream = self.streams[side]
            if isinstance(entry, Hole):
                stream.lose(entry)
            else:
                stream.feed(block, [entry])
            return is_over()

        if not is_over():
            deliver(self.tcp.tcp, block, feed)

    def _has_no_boxes(self) -> bool:
        readers = [stream.reader for stream in self.streams if stream.reader is not None]
        return self.negotiation.version in ("1.0", "2.0") or any(reader.has_no_boxes for reader in readers)

    def finish(self) -> None:
        """Write pending records, then the connection."""
        tcp = self.tcp
        arrival = tcp.end
        if not self.negotiation.settled:
            # which one decides depends on the length of the capture; the order of records must not
            self.negotiation.advance_clock(tcp.ceased, arrival.ordinal)
            self.negotiation.settle(arrival, ended=(tcp.ended(0), tcp.ended(1)))
        for side, stream in enumerate(self.streams):
            stream.finish(arrival, tcp.ended(side))
        self._record_outputs()
        if self.session is not None:
            self.session.give_up()
            for note in self.session.notes(arrival):
                self._write(note)
        self._write_gaps()
        self._write_intervals()
        self.rows.write()
        self._give_segments()
        self.rows.release()
        identity = ConnectionIdentity(tcp.key, stamp(tcp.start), tcp.incarnation, tcp.number)
        proxied = self.negotiation.proxied
        if proxied is not None and not proxied.is_header and (self.view.is_zmtp or proxied.refusal is not None):
            fact = Relayed(arrival, identity, proxied.client, proxied.protocol, proxied.target, proxied.refusal)
            self.sink.report(fact)
        if not self.view.is_zmtp:
            if self.negotiation.foreign is not None:
                closed_by = None if tcp.closing is None else tcp.closing[1]
                self.sink.report(WithoutZmtp(arrival, identity, *self.negotiation.foreign, closed_by))
            self.sink.summary.count_other(tcp)
            return
        if tcp.is_to_itself:
            self._note(None, Finding("ZMTP-CONN-11"), arrival)
        else:
            for side in (0, 1):
                if (
                    self.negotiation.decision is not None
                    and self.streams[side].end
                    and self.view.lacks_octets(1 - side)
                ):
                    self._note(side, Finding("ZMTP-CONN-02"), arrival)
        is_whole = self.view.is_whole()
        self.rows.end(arrival, is_whole)
        self.relations.end(arrival, is_whole)
        self._record_relations()
        self.sink.connected_to((self.writer.whole.dst_ip, self.writer.whole.dst_port), arrival)
        self.writer.counted_findings(arrival.ordinal)
        self._write_other_intervals(arrival.ordinal)
        came_out = outcome.outcome_of(self.view)
        if self.options.records:
            self.writer.connection(tcp.start, outcome.values(came_out, tcp), arrival.ordinal)
        outcome.count(came_out, 1, self.sink.summary)
        outcome.count_tcp(tcp, self.sink.summary)

    def _record_outputs(self) -> None:
        for note in self.negotiation.drain():
            self._write(note)
        for stream in self.streams:
            for output in stream.outputs.drain():
                if isinstance(output, UnitRead):
                    self._record_unit(stream.side, output)
                else:
                    self._record_output(stream, output)

    def _record_relations(self) -> None:
        """Write findings that compare the two sides, and report facts for comparison with other connections."""
        notes, facts = self.relations.drain()
        for note in notes:
            self._write(note)
        for fact in facts:
            self.sink.report(fact)

    def _record_output(self, stream: SideStream, output: Output) -> None:
        if isinstance(output, Gap):
            self.gaps.add(stream.side, output)
        elif isinstance(output, Leftover):
            self.leftovers.add(stream.side, output)
        elif isinstance(output, Note):
            self._write(output)
        elif isinstance(output, Repeats):
            self.writer.note_repeats(self._softened(output.note), output.number)
        elif isinstance(output, FoundMidstream):
            detail = f"frames found from offset {output.offset} on"
            self._note(stream.side, Finding("ZMTP-CONN-01", output.offset, 0, None, detail), output.arrival)

    def _record_unit(self, side: int, read: UnitRead) -> None:
        event, ordinal = read.event, read.decided.ordinal
        if not isinstance(event, Remark):
            self.writer.event(side, event, read.octets, read.is_whole, read.decided, ordinal, read.unit)
            self.relations.add(side, event, read)
            if isinstance(event, Command):
                self.rows.feed(side, event, read.decided)
        for note in read.notes:
            self._write(note)
            finding = note.finding
            if (finding.severity or FINDINGS[finding.id].severity) == "error":
                record = type(event).__name__.lower().replace("remark", "frame")
                reference = self.writer.reference(side, event.regime.source, event.start, record)
                self.relations.found(side, finding, Arrival(ordinal, note.at.packet, note.at.time), reference)

    def _note(self, side: int | None, finding: Finding, arrival: Arrival) -> None:
        self._write(Note(side, finding, arrival, arrival.ordinal))

    def _write(self, note: Note) -> None:
        self.writer.note(self._softened(note))

    def _softened(self, note: Note) -> Note:
        """Return the finding as a note if it is an error or a warning on a side that only likely speaks ZMTP."""
        finding = note.finding
        severity = finding.severity or FINDINGS[finding.id].severity
        if severity in ("error", "warn") and self.view.is_doubtful(note.side):
            return note._replace(finding=finding._replace(severity="note"))
        return note

    def _write_gaps(self) -> None:
        since = self.view.zmtp_since
        for side, leftover in self.leftovers.drain(since):
            self.writer.leftover(side, leftover)
        for side, gap in self.gaps.drain(since):
            self.writer.gap(side, gap)
            went_on = gap.resumed_at is not None
            after = f"; parsing resumes at offset {gap.resumed_at}" if went_on else "; parsing never resumed"
            detail = f"{gap.octets} octets at offset {gap.start}, {gap.reason}{after}"
            finding = Finding("ZMTP-CONN-05", gap.start, gap.stop - gap.start, None, detail)
            if gap.reason == NEVER_ACKNOWLEDGED:
                finding = finding._replace(severity="note", hint=LOST_ON_PATH)
            self._note(side, finding, gap.decided)

    def _write_intervals(self) -> None:
        """Write stalls and outages that are over, and findings about acknowledgments that are late or early.

        Nothing is written before the connection is known to use ZMTP.
        """
        since = self.view.zmtp_since
        for side in self.tcp.tcp if since is not None else ():
            for stall in side.stalls.drain() if side.stalls is not None else ():
                self.writer.stall(side.number, stall, max(stall.decided, since or 0))
            for outage in side.outages.drain() if side.outages is not None else ():
                self.writer.outage(side.number, outage, max(outage.decided, since or 0))
            for at, packet, kind in side.acknowledgment_changes:
                id_, detail = ACKNOWLEDGMENT_FINDINGS[kind]
                finding = Finding(id_, detail=detail.format(packet))
                self._write(Note(side.number, finding, at, max(at.ordinal, since or 0)))
            side.acknowledgment_changes = ()

    def running_stalls(self, now: int, ordinal: int) -> Iterator[Record]:
        """Yield records of the stalls that last at `now` (ns), as if the capture ended there.

        Records are sorted by `ordinal`.
        """
        for side in self.tcp.tcp if self.view.is_zmtp else ():
            stall = running_stall(side, now, ordinal)
            if stall is not None:
                yield self.writer.stall_record(side.number, stall, ordinal)

    def running_outages(self, now: int, ordinal: int) -> Iterator[Record]:
        """Yield records of the outages that last at `now` (ns), and of lost segments so far.

        Records are sorted by `ordinal`.
        """
        for side in self.tcp.tcp if self.view.is_zmtp else ():
            for outage in (running_outage(side, now, ordinal), losses(side)):
                if outage is not None:
                    yield self.writer.outage_record(side.number, outage, ordinal)

    def sending(self) -> Iterator[tuple[str, int]]:
        """Yield (conn_id, side) of each side that has sent part of a message."""
        for stream in self.streams if self.view.is_zmtp else ():
            if stream.end > stream.unit_octets + stream.outputs.gaps + stream.outputs.undissected:
                yield self.tcp.ends()[stream.side].conn_id, stream.side

    def half_closed(self) -> Iterator[tuple[str, int, int]]:
        """Yield conn_id, side and time (ns) of a FIN that was acknowledged, if the other side sent none."""
        closing = self.tcp.closing
        if closing is not None and self.view.is_zmtp and self.tcp.fin_acknowledged:
            fin, side = closing
            yield self.tcp.ends()[side].conn_id, side, fin.time

    def _write_other_intervals(self, ordinal: int) -> None:
        """Write one record for each side that combines its remaining stalls, one for outages, one for lost segments.

        `ordinal` is the end of the connection, by which records are sorted.
        """
        for side in self.tcp.tcp:
            if side.stalls is not None and side.stalls.others is not None:
                self.writer.stall(side.number, side.stalls.others, ordinal)
            if side.outages is not None and side.outages.others is not None:
                self.writer.outage(side.number, side.outages.others, ordinal)
            lost = losses(side)
            if lost is not None:
                self.writer.losses(side.number, lost, ordinal)
