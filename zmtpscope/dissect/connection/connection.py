"""One ZMTP connection: its two sides driven in the order of packets, and what they gave written as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.connection import outcome
from zmtpscope.dissect.findings.relations import Relations
from zmtpscope.dissect.findings.row_rules import ROW_RULES, broken_rows
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.findings.zap import ZapMessage, ZapRequests
from zmtpscope.dissect.options import DecodeAs
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.facts import ZreClose, ZreCommand, ZreSide
from zmtpscope.dissect.records.leftovers import Gap, Leftover, Pending, PendingLeftovers
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.payload_rows import PayloadRows, SideFacts, side_payloads, starred
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.records.topics import COMMANDS, Topics
from zmtpscope.dissect.stream.agreement import Agreement, deliver
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.assembly import Assembly
from zmtpscope.dissect.stream.outputs import FoundMidstream, Output, Repeats, UnitRead
from zmtpscope.dissect.stream.side_stream import Mode, SideStream
from zmtpscope.dissect.tcp.connection import Connection
from zmtpscope.dissect.tcp.out_of_order import Hole, entries
from zmtpscope.findings import FINDINGS
from zmtpscope.payloads.zap import Zap
from zmtpscope.payloads.zre.messages import Zre, uuid_of
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Command, Remark
from zmtpscope.zmtp.reader import Finding

if TYPE_CHECKING:
    from zmtpscope.dissect.stream.session import Session

FOLLOWED = frozenset({Zap.name, Zre.name})
"""Payloads of which more is said than their dissectors know: that takes both sides, or several connections."""


class ZmtpConnection:
    """What is said on the TCP connection `tcp`, whether that is ZMTP or not. `streams` are its two sides.

    `forced` is what the user said of the connection, if anything.
    """

    def __init__(self, tcp: Connection, sink: Sink, forced: DecodeAs | None) -> None:
        self.tcp = tcp
        self.sink = sink
        self.options = sink.options
        self.gaps = Pending[Gap]()
        self.leftovers = PendingLeftovers()
        ends = tcp.ends()
        self.session: Session | None = None
        """What is known about the keys of the connection, where keys were given."""
        if self.options.keys is None:
            one, other = None, None
        else:
            from zmtpscope.dissect.stream.decryption import Decryption  # PyNaCl takes its time to load
            from zmtpscope.dissect.stream.session import Session

            session = self.session = Session(self.options.keys)
            limit = self.options.body_limit
            one, other = Decryption(session, 0, limit), Decryption(session, 1, limit)
        budget = self.sink.budget
        self.streams = (
            SideStream(0, ends[0], self.options, budget, ROW_RULES, one),
            SideStream(1, ends[1], self.options, budget, ROW_RULES, other),
        )
        self.agreement = Agreement(tcp.tcp, self.streams, forced)
        self.view = ConnectionView(tcp, self.streams, self.agreement, self.session)
        self.relations = Relations(self.view)
        self.zre_sides: list[ZreSide | None] = [None, None]
        """The sides that are ZRE nodes ..."""
        self.zre_since = [0, 0]
        """... and the ordinals of the segments that made it known."""
        self.zap = ZapRequests()
        self.topics = Topics(budget)
        self.writer = RecordWriter(self.sink, ends)

    def advance(self, block: BlockView) -> None:
        """Read what the block brought."""
        if self.session is not None:
            self.session.look_again()
        if not self.agreement.settled:
            self.agreement.advance(block)
        one, other = self.tcp.tcp
        rows = one.pieces, other.pieces
        if self.session is not None:
            rows = one.pieces[:], other.pieces[:]  # of which some are taken away here
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
        self._write_rows()

    def _advance_in_order(self, session: Session, block: BlockView) -> None:
        """Read what the block brought in the order of its packets, as long as one side may bring what opens the boxes
        of the other."""

        def is_over() -> bool:
            opaque = all(stream.mode is Mode.OPAQUE for stream in self.streams)
            return session.settled or opaque or not self.agreement.settled or self._has_no_boxes()

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
        """Whether a side has shown that the mechanism is another than CURVE."""
        readers = [stream.reader for stream in self.streams if stream.reader is not None]
        return self.agreement.version in ("1.0", "2.0") or any(reader.has_no_boxes for reader in readers)

    def finish(self) -> None:
        """Nothing more will come: write what is left, and the connection itself."""
        tcp = self.tcp
        arrival = tcp.end
        if not self.agreement.settled:
            # which of the two decides depends on how long the capture went on; the order of records must not
            self.agreement.advance_clock(tcp.ceased, arrival.ordinal)
            self.agreement.settle(arrival, ended=(tcp.ended(0), tcp.ended(1)))
        for side, stream in enumerate(self.streams):
            stream.finish(arrival, tcp.ended(side))
        self._record_outputs()
        if self.session is not None:
            self.session.give_up()
            for note in self.session.notes(arrival):
                self.writer.note(note)
        self._write_gaps()
        self._write_rows()
        self.topics.release()
        if not self.view.is_zmtp:
            self.sink.summary.other_tcp += 1
            return
        if tcp.is_to_itself:
            self._note(None, Finding("ZMTP-CONN-11"), arrival)
        else:
            for side in (0, 1):
                if self.agreement.decision is not None and self.streams[side].end and self.view.lacks_octets(1 - side):
                    self._note(side, Finding("ZMTP-CONN-02"), arrival)
        is_whole = self.view.is_whole()
        if is_whole:
            for note in self.zap.end(arrival):
                self.writer.note(note)
        self.relations.end(arrival, is_whole)
        self._record_relations()
        self.sink.connected_to((self.writer.whole.dst_ip, self.writer.whole.dst_port), arrival)
        for sender in self.zre_sides:
            if sender is not None:
                self.sink.report(ZreClose(arrival, sender, tcp.has_ended))
        self.writer.counted_findings(arrival.ordinal)
        if self.options.records:
            self.writer.connection(tcp.start, outcome.values(self.view), arrival.ordinal)
        outcome.count(self.view, self.sink.summary)

    def _record_outputs(self) -> None:
        """Make records of what the sides have given since the last time, and of what is to be said about it."""
        for note in self.agreement.drain():
            self.writer.note(note)
        for stream in self.streams:
            for output in stream.drain():
                if isinstance(output, UnitRead):
                    self._record_unit(stream.side, output)
                else:
                    self._record_output(stream, output)

    def _record_relations(self) -> None:
        """The same of what compares the two sides; and report what other connections may have to know."""
        notes, facts = self.relations.drain()
        for note in notes:
            self.writer.note(note)
        for fact in facts:
            self.sink.report(fact)

    def _record_output(self, stream: SideStream, output: Output) -> None:
        if isinstance(output, Gap):
            self.gaps.add(stream.side, output)
        elif isinstance(output, Leftover):
            self.leftovers.add(stream.side, output)
        elif isinstance(output, Note):
            self.writer.note(output)
        elif isinstance(output, Repeats):
            self.writer.note_repeats(output.note, output.number)
        elif isinstance(output, FoundMidstream):
            detail = f"frames were found from offset {output.offset} on"
            self._note(stream.side, Finding("ZMTP-CONN-01", output.offset, 0, None, detail), output.arrival)

    def _record_unit(self, side: int, read: UnitRead) -> None:
        event, ordinal = read.event, read.decided.ordinal
        if not isinstance(event, Remark):
            self.writer.event(side, event, read.octets, read.is_whole, read.decided, ordinal, read.unit)
            self.relations.add(side, event, read)
            if isinstance(event, Command) and event.fields.get("name") in COMMANDS and self.options.records:
                self.topics.feed(side, event, ordinal)
        for note in read.notes:
            self.writer.note(note)
            finding = note.finding
            if (finding.severity or FINDINGS[finding.id].severity) == "error":
                record = type(event).__name__.lower().replace("remark", "frame")
                reference = self.writer.reference(side, event.regime.source, event.start, record)
                self.relations.found(side, finding, Arrival(ordinal, note.at.packet, note.at.time), reference)

    def _note(self, side: int | None, finding: Finding, arrival: Arrival, unit: int = 0, source: int = 0) -> None:
        """A finding that becomes decidable with the segment `arrival`, about a unit at offset `unit` of `source`."""
        self.writer.note(Note(side, finding, arrival, arrival.ordinal, unit=unit, source=source))

    def _write_gaps(self) -> None:
        since = self.view.zmtp_since
        for side, leftover in self.leftovers.drain(since):
            self.writer.leftover(side, leftover)
        for side, gap in self.gaps.drain(since):
            self.writer.gap(side, gap)
            went_on = gap.resumed_at is not None
            behind = f"; reading goes on at offset {gap.resumed_at}" if went_on else "; reading went on nowhere"
            detail = f"{gap.octets} octets at offset {gap.start}, {gap.reason}{behind}"
            self._note(side, Finding("ZMTP-CONN-05", gap.start, gap.stop - gap.start, None, detail), gap.decided)

    # -- rows and the end --------------------------------------------------------------------------------------------

    def _write_rows(self) -> None:
        batch = self.sink.batch
        written: tuple[list[MessageRun], list[MessageRun]] = ([], [])
        for side, stream in enumerate(self.streams):
            for assembly in stream.messages.assemblies():
                runs, assembly.message_runs = assembly.message_runs, []
                secrets: list[range] = []
                for run in runs:
                    for part in self._with_peer_type(side, run):
                        for finding_id, rows in broken_rows(part):
                            self._note_rows(side, finding_id, part, rows)
                        if self.options.payloads is not None:
                            secrets += self._look_inside(stream, assembly, part)
                        written[side].append(part)
                for frames in assembly.frame_runs:
                    frames.data = starred(frames.data, frames.base, secrets)
                batch.frame_runs += assembly.frame_runs
                assembly.frame_runs = []
            stream.messages.forget_holes()
        if self.options.records:
            self.topics.assign(written)
            batch.runs += written[0] + written[1]
        self.zap.evaluate()
        for side, sender in enumerate(self.zre_sides):
            for run in written[1 - side] if sender is not None else ():
                behind = np.flatnonzero(run.complete & (run.orders >= self.zre_since[side]))
                self._note_rows(1 - side, "ZRE-09", run, behind)

    def _look_inside(self, stream: SideStream, assembly: Assembly, run: MessageRun) -> list[range]:
        """Find out what rides inside the messages of a run, and say what is to be said about it. The places in the
        stream of frames that hold passwords."""
        if assembly.payloads is None:
            number, ports = self.tcp.number, self.tcp.ports
            side = side_payloads(self.options, lambda rule: rule.matches(number, ports))
            assert side is not None
            assembly.payloads = PayloadRows(self.options, side)
        identity, begun = stream.identity_at(int(run.offsets[0])), self.tcp.tcp[stream.side].begun
        secrets = assembly.payloads.take(run, SideFacts(identity, stream.messages.holes, begun))
        for row, made in enumerate(run.payloads or ()):
            if made is None or not (made.findings or made.protocol in FOLLOWED):
                continue
            arrival = Arrival(int(run.orders[row]), int(run.packets[row]), int(run.times[row]))
            unit = int(run.offsets[run.first[row]])
            for finding in made.findings:
                self._note(stream.side, finding, arrival, unit, run.source)
            last = run.last[row]
            length = int(run.bodies[last] + run.sizes[last]) - unit
            if made.protocol == Zap.name and made.fields:
                self.zap.add(ZapMessage(arrival, stream.side, unit, length, run.source, made.fields))
            elif made.protocol == Zre.name and made.fields:
                sender = self._zre_side(stream, arrival.ordinal, unit)
                lossy = stream.lost_since is not None and stream.lost_since <= arrival.ordinal
                said = ZreCommand(arrival, sender, made.fields, run.source, unit, length, lossy)
                self.sink.report(said)
        return secrets

    def _zre_side(self, stream: SideStream, ordinal: int, offset: int) -> ZreSide:
        """The side as a ZRE node that speaks to another; the segment `ordinal` has brought what it says at `offset`."""
        side, tcp = stream.side, self.tcp
        sender = self.zre_sides[side]
        if sender is None:
            listener = tcp.listener
            identity = stream.identity_at(offset)
            uuid = uuid_of(None if identity is None else from_text(identity))
            self.streams[1 - side].messages.require_rows()
            sender = self.zre_sides[side] = ZreSide(
                stream=stream.stream,
                uuid=None if uuid is None else uuid.hex().upper(),
                server=(stream.stream.dst_ip, stream.stream.dst_port) if listener != side else None,
                whole=listener is not None and tcp.tcp[side].begun,
                start=stamp(tcp.start),
            )
            self.zre_since[side] = ordinal
        return sender

    def _note_rows(self, side: int, finding_id: str, run: MessageRun, rows: Int64) -> None:
        """The same finding on these messages of a run; those that would only be counted are counted at once."""
        if not len(rows):
            return
        counted = len(rows) - self.writer.left_to_write(side, finding_id)
        for index in rows[:-counted].tolist() if counted > 0 else rows.tolist():
            finding, arrival = _finding_on(run, index, finding_id)
            self._note(side, finding, arrival, source=run.source)
        if counted > 0:
            finding, arrival = _finding_on(run, int(rows[-1]), finding_id)
            self.writer.note_repeats(Note(side, finding, arrival, arrival.ordinal, source=run.source), counted)

    def _with_peer_type(self, side: int, run: MessageRun) -> list[MessageRun]:
        """The run with the other side's socket type, from the message on at which that was known."""
        peer = self.streams[1 - side]
        known = peer.units.type_known
        if known is None or run.orders[-1] < known:
            return [run]
        cut = int(run.orders.searchsorted(known))
        after = run.part(cut, len(run.first)) if cut else run
        after.peer_socket_type = peer.socket_type
        return [run.part(0, cut), after] if cut else [run]


def _finding_on(run: MessageRun, index: int, finding_id: str) -> tuple[Finding, Arrival]:
    """A finding on a message of a run, and when that came."""
    first, last = int(run.first[index]), int(run.last[index])
    start = int(run.offsets[first])
    length = int(run.bodies[last] + run.sizes[last]) - start
    arrival = Arrival(int(run.orders[index]), int(run.packets[index]), int(run.times[index]))
    return Finding(finding_id, start, length), arrival
