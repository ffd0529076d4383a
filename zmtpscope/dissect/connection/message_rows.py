"""Write the messages of one connection, with payloads, topics and findings."""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.arrivals import Arrival, stamp
from zmtpscope.dissect.connection.type_inference import TypeInference
from zmtpscope.dissect.findings.requests import Requests
from zmtpscope.dissect.findings.row_rules import broken_rows, note_on
from zmtpscope.dissect.findings.unsubscribed import Unsubscribed
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.findings.zap import ZapMessage, ZapRequests
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.facts import ZreClose, ZreCommand, ZreSide
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.payload_rows import PayloadRows, SideFacts, side_payloads
from zmtpscope.dissect.records.record_writer import RecordWriter
from zmtpscope.dissect.records.secrets import starred
from zmtpscope.dissect.records.sink import Sink
from zmtpscope.dissect.records.tables import FrameTable, MessageTable
from zmtpscope.dissect.records.topics import COMMANDS, Subscribed, Topics
from zmtpscope.dissect.stream.assembly import Assembly
from zmtpscope.dissect.stream.side_stream import SideStream
from zmtpscope.payloads.dissectors import ZAP, ZRE
from zmtpscope.payloads.zre import uuid_of
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Command

Made = tuple[Assembly, list[MessageTable], list[FrameTable]]
"""An assembly, and the tables of messages and of frames that it made of a block."""

FOLLOWED = frozenset({ZAP, ZRE})
"""Protocols whose findings need both sides or several connections."""


class MessageRows:
    def __init__(self, view: ConnectionView, sink: Sink, writer: RecordWriter) -> None:
        self.view = view
        self.sink = sink
        self.options = sink.options
        self.writer = writer
        self.inference: TypeInference | None = None
        """Infers the types of sides whose start was not captured."""
        self.zap = ZapRequests()
        self.requests = Requests()
        self.topics = Topics(sink.budget)
        self.unsubscribed: dict[Subscribed, Unsubscribed] = {}
        """Messages to each side that match none of its subscriptions."""
        self.zre_sides: list[ZreSide | None] = [None, None]
        self.zre_since = [0, 0]
        """Ordinals of the segments that showed ZRE, by side."""

    def feed(self, side: int, command: Command, arrival: Arrival) -> None:
        """Add a command of `side`, which may subscribe.

        `arrival` is packet and time of its first octet, with the ordinal of the segment that completed the command.
        """
        self.topics.feed(side, command, arrival)
        if command.fields.get("name") in COMMANDS and self.view.streams[side].is_midstream:
            self._infers().feed(side, arrival.ordinal)

    def write(self, *, is_looked_into: bool = False) -> None:
        """Write the messages of the current block. `is_looked_into`: their payloads are already dissected."""
        batch = self.sink.batch
        written: tuple[list[MessageTable], list[MessageTable]] = ([], [])
        made = [[(each, *each.drain()) for each in stream.messages.assemblies()] for stream in self.view.streams]
        if self.inference is not None or any(stream.is_midstream for stream in self.view.streams):
            made = self._infer_types(made)
        for side, stream in enumerate(self.view.streams):
            for assembly, runs, frame_runs in made[side]:
                secrets: list[range] = []
                for run in runs:
                    for part in self._with_peer_type(side, run):
                        for finding_id, rows in broken_rows(part):
                            self._note_rows(side, finding_id, part, rows)
                        is_asked = self.options.records or assembly.wants_rows
                        if self.options.payloads is not None and is_asked and not is_looked_into:
                            secrets += self._look_inside(stream, assembly, part)
                        written[side].append(part)
                for frames in frame_runs:
                    data = starred(frames.data, frames.base, secrets)
                    frames.change(data=data, has_stars=data is not frames.data)
                batch.frames += frame_runs
            stream.messages.forget_holes()
        for to, steps in self.topics.assign(written, wants_topics=self.options.records):
            if to not in self.unsubscribed:
                self.unsubscribed[to] = Unsubscribed(self.view, are_groups=to.groups)
            for note in self.unsubscribed[to].feed(steps):
                self.writer.note(note)
        if self.options.records:
            batch.messages += written[0] + written[1]
        for note in self.requests.evaluate(written):
            self.writer.note(note)
        self.zap.evaluate()
        for side, sender in enumerate(self.zre_sides):
            for run in written[1 - side] if sender is not None else ():
                behind = np.flatnonzero(run.complete & (run.orders >= self.zre_since[side]))
                self._note_rows(1 - side, "ZRE-09", run, behind)

    def release(self) -> None:
        self.topics.release()
        if self.inference is not None:
            self.inference.release()

    def end(self, arrival: Arrival, is_whole: bool) -> None:
        """Write findings at the end of the connection. `is_whole`: every octet was captured."""
        if is_whole:
            for note in self.zap.end(arrival):
                self.writer.note(note)
            if self.view.is_read_whole():
                self._end_relations(arrival)
        for sender in self.zre_sides:
            if sender is not None:
                self.sink.report(ZreClose(arrival, sender, self.view.tcp.has_ended))

    def _end_relations(self, arrival: Arrival) -> None:
        """Write findings about messages to which the other side did not react."""
        tcp = self.view.tcp
        ceased = None if tcp.has_ended else tcp.ceased
        notes = self.requests.end(arrival.ordinal, ceased)
        for _, each in sorted(self.unsubscribed.items()):
            notes += each.end(arrival.ordinal, ceased)
        for note in notes:
            self.writer.note(note)

    # -- socket types ------------------------------------------------------------------------------------------------

    def _infers(self) -> TypeInference:
        if self.inference is None:
            self.inference = TypeInference(self.view, self.sink.budget)
        return self.inference

    def _infer_types(self, made: list[list[Made]]) -> list[list[Made]]:
        inference = self._infers()
        one, other = ([run for _, runs, _ in own for run in runs] for own in made)
        changes = inference.evaluate((one, other))
        for side, change in changes:
            self.topics.change(side, change)
        return [
            [
                (
                    assembly,
                    [part for run in runs for part in inference.apply(run)],
                    [part for frames in frame_runs for part in inference.apply(frames)],
                )
                for assembly, runs, frame_runs in own
            ]
            for own in made
        ]

    # -- payloads ------------------------------------------------------------------------------------------------------

    def _look_inside(self, stream: SideStream, assembly: Assembly, run: MessageTable) -> list[range]:
        """Dissect the payloads of a table of messages, and write their findings.

        Returns the stream offsets of frames with passwords.
        """
        tcp = self.view.tcp
        payloads = self.payloads_of(assembly)
        if payloads is None:
            return []
        identity, begun = stream.identity_at(int(run.offsets[0])), tcp.tcp[stream.side].begun
        secrets = payloads.take(run, SideFacts(identity, stream.messages.holes, begun))
        for row, made in enumerate(run.payloads or ()):
            if made is None or not (made.findings or made.protocol in FOLLOWED):
                continue
            arrival = Arrival(int(run.orders[row]), int(run.packets[row]), int(run.times[row]))
            unit = int(run.offsets[run.first[row]])
            for finding in made.findings:
                self.writer.note(Note(stream.side, finding, arrival, arrival.ordinal, unit=unit, source=run.source))
            last = run.last[row]
            length = int(run.bodies[last] + run.sizes[last]) - unit
            if made.protocol == ZAP and made.fields:
                self.zap.add(ZapMessage(arrival, stream.side, unit, length, run.source, made.fields))
            elif made.protocol == ZRE and made.fields:
                sender = self._zre_side(stream, arrival.ordinal, unit)
                lossy = stream.lost_since is not None and stream.lost_since <= arrival.ordinal
                self.sink.report(ZreCommand(arrival, sender, made.fields, run.source, unit, length, lossy))
        return secrets

    def payloads_of(self, assembly: Assembly) -> PayloadRows | None:
        tcp, payloads = self.view.tcp, assembly.payloads
        if payloads is None:
            side = side_payloads(self.options, lambda rule: rule.matches(tcp.number, tcp.ports))
            if side is not None:
                payloads = assembly.payloads = PayloadRows(self.options, side)
        return payloads

    def _zre_side(self, stream: SideStream, ordinal: int, offset: int) -> ZreSide:
        """Return the ZRE node and endpoint of a side, which sent a ZRE command at stream offset `offset`.

        `ordinal` is the segment that completed the command.
        """
        side, tcp = stream.side, self.view.tcp
        sender = self.zre_sides[side]
        if sender is None:
            listener = tcp.listener
            identity = stream.identity_at(offset)
            uuid = uuid_of(None if identity is None else from_text(identity))
            self.view.streams[1 - side].messages.require_rows()
            sender = self.zre_sides[side] = ZreSide(
                stream=stream.stream,
                uuid=None if uuid is None else uuid.hex().upper(),
                server=(stream.stream.dst_ip, stream.stream.dst_port) if listener != side else None,
                whole=listener is not None and tcp.tcp[side].begun,
                start=stamp(tcp.start),
            )
            self.zre_since[side] = ordinal
        return sender

    # -- findings ----------------------------------------------------------------------------------------------------

    def _note_rows(self, side: int, finding_id: str, run: MessageTable, rows: Int64) -> None:
        """Write a finding about each of the messages `rows`. Above the limit of findings, they are counted together."""
        if not len(rows):
            return
        counted = len(rows) - self.writer.left_to_write(side, finding_id)
        for index in rows[:-counted].tolist() if counted > 0 else rows.tolist():
            self.writer.note(note_on(run, index, side, finding_id))
        if counted > 0:
            self.writer.note_repeats(note_on(run, int(rows[-1]), side, finding_id), counted)

    def _with_peer_type(self, side: int, run: MessageTable) -> list[MessageTable]:
        """Return the messages with the socket type of the other side: announced, or else inferred, or else forced.

        A type applies from the segment that showed it on, so the table may be divided in two.
        """
        peer = self.view.streams[1 - side]
        run.change(peer_socket_type=peer.assumed_type)
        parts = [run]
        if peer.inferred_type is not None and self.inference is not None:
            parts = _with_type_from(parts[-1], self.inference.since, peer.inferred_type)
        if peer.units.type_known is not None:
            parts[-1:] = _with_type_from(parts[-1], peer.units.type_known, peer.socket_type)
        return parts


def _with_type_from(run: MessageTable, since: int, peer_socket_type: str | None) -> list[MessageTable]:
    """Set the socket type of the peer in the messages that the segment `since` or a later one completed.

    Returns the parts of the table.
    """
    cut = int(run.orders.searchsorted(since))
    if cut == len(run.first):
        return [run]
    after = run.part(cut, len(run.first)) if cut else run
    after.change(peer_socket_type=peer_socket_type)
    return [run.part(0, cut), after] if cut else [run]
