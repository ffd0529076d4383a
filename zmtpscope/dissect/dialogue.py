"""What is said on one connection: whether it is ZMTP, in which version, and what its sides tell each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from zmtpscope.dissect import outcome
from zmtpscope.dissect.agreement import Agreement, deliver
from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.assembly import Assembly
from zmtpscope.dissect.batch import Int64, MessageRun, Unit
from zmtpscope.dissect.leftovers import Gap, Untold, UntoldLeftovers
from zmtpscope.dissect.moments import Moment
from zmtpscope.dissect.options import DecodeAs
from zmtpscope.dissect.payload_rows import PayloadRows, side_payloads, starred
from zmtpscope.dissect.reassembly import Hole, distance, entries
from zmtpscope.dissect.relations import Relations
from zmtpscope.dissect.row_rules import ROW_RULES, broken_rows
from zmtpscope.dissect.stream import Held, Mode, SideStream
from zmtpscope.dissect.tell import Teller
from zmtpscope.dissect.topics import COMMANDS, Topics
from zmtpscope.dissect.zap import Turn, ZapTalk
from zmtpscope.dissect.zre import Ended, Link, Said
from zmtpscope.findings import FINDINGS
from zmtpscope.payloads.zap import Zap
from zmtpscope.payloads.zre.messages import Zre, uuid_of
from zmtpscope.records import from_text
from zmtpscope.zmtp.events import Command, Event, Greeting, Remark
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.units import UnitReader
from zmtpscope.zmtp.upgrade import VERSION as VERSION_ZWS

if TYPE_CHECKING:
    from zmtpscope.dissect.connection import Connection
    from zmtpscope.dissect.session import Session

NOTHING: Mapping[int, Arrival] = {}
FOLLOWED = frozenset({Zap.name, Zre.name})
"""Payloads of which more is said than their dissectors know: that takes both sides, or several connections."""


class Dialogue:
    """`streams` are the two sides as the dissector sees them, in the order of `connection.tcp`.

    `forced` is what the user said of the connection, if anything.
    """

    def __init__(self, connection: Connection, forced: DecodeAs | None) -> None:
        self.connection = connection
        self.sink = connection.sink
        self.options = connection.options
        self.identified_since = None if forced is None else connection.start.ordinal
        """The ordinal of the segment that told that a side speaks ZMTP, began like it, or is forced to."""
        self.gaps = Untold[Gap]()
        self.leftovers = UntoldLeftovers()
        ends = connection.ends()
        self.session: Session | None = None
        """What is known about the keys of the connection, where keys were given."""
        if self.options.keys is None:
            self.streams = SideStream(self, 0, ends[0]), SideStream(self, 1, ends[1])
        else:
            from zmtpscope.dissect.session import Session
            from zmtpscope.dissect.unsealing import Unsealing  # PyNaCl takes its time to load

            session = self.session = Session(self.options.keys)
            one, other = Unsealing(session, ends[0]), Unsealing(session, ends[1])
            self.streams = SideStream(self, 0, ends[0], one), SideStream(self, 1, ends[1], other)
        self.agreement = Agreement(self, forced)
        self.relations = Relations(self)
        self.links: list[Link | None] = [None, None]
        """The sides that are ZRE nodes."""
        self.zap = ZapTalk()
        self.topics = Topics(self.sink)
        self.teller = Teller(self.sink, ends, self.options.records)

    @property
    def identified(self) -> bool:
        """Whether a side speaks ZMTP, began like it, or is forced to: the connection has records."""
        return self.identified_since is not None

    def identify(self, ordinal: int) -> None:
        """The segment `ordinal` told that this is ZMTP, if none did before."""
        since = self.identified_since
        self.identified_since = ordinal if since is None else min(since, ordinal)

    @property
    def version(self) -> str | None:
        """The version in force, None while or where there is none."""
        return self.agreement.version

    @property
    def is_websocket(self) -> bool:
        """Whether the sides have agreed on ZWS."""
        return self.version == VERSION_ZWS

    @property
    def told_version(self) -> str | None:
        """The version as records have it: what ZWS has of commands and identities is as in 3.1 with a mechanism, as in
        2.0 without one."""
        if not self.is_websocket:
            return self.version
        return "2.0" if outcome.mechanism([stream.reader for stream in self.streams]) is None else "3.1"

    def advance(self, view: BlockView) -> None:
        """Read what the block brought."""
        if self.session is not None:
            self.session.look_again()
        if not self.agreement.settled:
            self.agreement.advance(view)
        one, other = self.connection.tcp
        rows = one.pieces, other.pieces
        if self.session is not None:
            rows = one.pieces[:], other.pieces[:]  # of which some are taken away here
            self._advance_in_order(self.session, view)
        for tcp, stream in zip(self.connection.tcp, self.streams, strict=True):
            if not (tcp.pieces or tcp.holes):
                continue
            pieces, tcp.pieces = tcp.pieces, []
            holes, tcp.holes = tcp.holes, []
            for entry in entries(pieces, holes) if holes else (pieces,):
                if isinstance(entry, Hole):
                    stream.lose(entry)
                else:
                    stream.extend(view, entry)
        self.relations.weigh(view, rows)
        self._tell_gaps()
        self._tell_rows()

    def _advance_in_order(self, session: Session, view: BlockView) -> None:
        """Read what the block brought in the order of its packets, as long as one side may bring what opens the boxes
        of the other."""

        def is_over() -> bool:
            opaque = all(stream.mode is Mode.OPAQUE for stream in self.streams)
            return session.settled or opaque or not self.agreement.settled or self._has_no_boxes()

        def take(side: int, entry: int | Hole) -> bool:
            stream = self.streams[side]
            if isinstance(entry, Hole):
                stream.lose(entry)
            else:
                stream.extend(view, [entry])
            return is_over()

        if not is_over():
            deliver(self.connection.tcp, view, take)

    def _has_no_boxes(self) -> bool:
        """Whether a side has shown that the mechanism is another than CURVE."""
        readers = [stream.reader for stream in self.streams if stream.reader is not None]
        return self.version in ("1.0", "2.0") or any(reader.has_no_boxes for reader in readers)

    def finish(self) -> None:
        """Nothing more will come: tell what is left, and the connection itself."""
        connection = self.connection
        arrival = connection.end
        if not self.agreement.settled:
            # which of the two decides depends on how long the capture went on; the order of records must not
            self.agreement.pass_time(connection.ceased, arrival.ordinal)
            self.agreement.settle(arrival, over=True)
        for side, stream in enumerate(self.streams):
            stream.finish(arrival, connection.ended(side))
        if self.session is not None:
            self.session.give_up()
            self.note_unfit_keys(arrival)
        self._tell_gaps()
        self._tell_rows()
        self.topics.release()
        if not self.identified:
            self.sink.summary.other_tcp += 1
            return
        if connection.is_to_itself:
            self.note(None, Finding("ZMTP-CONN-11"), arrival)
        else:
            for side in (0, 1):
                if self.agreement.decision is not None and self.streams[side].end and self._lacks_octets(1 - side):
                    self.note(side, Finding("ZMTP-CONN-02"), arrival)
        if self._is_whole():
            self.zap.end(self, arrival)
        self.relations.end(arrival, self._is_whole())
        self.sink.connected_to((self.teller.whole.dst_ip, self.teller.whole.dst_port))
        if connection.has_ended:
            self.sink.zre_facts += [Ended(arrival, link) for link in self.links if link is not None]
        self.teller.counted_findings(arrival.ordinal)
        if self.options.records:
            self.teller.connection(connection.start, outcome.values(self), arrival.ordinal)
        outcome.count(self)

    def release(self) -> None:
        """Let go of everything that points back here."""
        del self.streams, self.agreement, self.relations, self.connection

    def _lacks_octets(self, side: int) -> bool:
        """Whether nothing was captured of a side that did send something: it has no packet at all, or the other side
        acknowledged octets of it."""
        tcp = self.connection.tcp[side]
        if self.streams[side].end or tcp.ended:
            return False
        return not tcp.seen or self._is_behind(side)

    def _is_behind(self, side: int) -> bool:
        """Whether the other side acknowledged octets that were not captured."""
        tcp = self.connection.tcp[side]
        return tcp.peer.acknowledged >= 0 and distance(tcp.peer.acknowledged, tcp.next) > 0

    def _is_whole(self) -> bool:
        """Whether all octets were captured, from the first of each side to the last that the other acknowledged."""
        for side, (tcp, stream) in enumerate(zip(self.connection.tcp, self.streams, strict=True)):
            if not tcp.begun or stream.counts.gaps or (tcp.peer.acknowledged != tcp.next and self._is_behind(side)):
                return False
        return True

    def is_whole_until(self, ordinal: int) -> bool:
        """Whether neither octets were missing up to the segment `ordinal`, nor what a box holds that stays closed amid
        opened ones."""
        return all(tcp.begun for tcp in self.connection.tcp) and all(
            (stream.lost_since is None or stream.lost_since > ordinal)
            and (stream.closed_since is None or stream.closed_since > ordinal)
            for stream in self.streams
        )

    def is_read_whole(self) -> bool:
        """Whether everything that was captured of both sides could be read."""
        return all(
            stream.closed_since is None
            and not (stream.counts.undissected or stream.counts.unfinished)
            and self.is_certain_at(stream, stream.end)
            for stream in self.streams
        )

    def is_certain_at(self, stream: SideStream, offset: int) -> bool:
        """Whether a side was read up to here, where it has come to `offset`, without a doubt."""
        doubtful = None if stream.reader is None else stream.reader.unreliable_from
        return stream.confidence == "proven" and (doubtful is None or offset < doubtful)

    def is_agreed(self) -> bool:
        """Whether both sides have ended their handshake."""
        return all(stream.handshake_done for stream in self.streams)

    def reference(self, moment: Moment) -> str:
        """The identity of the record of what was said."""
        return self.teller.reference(moment.side, moment.source, moment.event.start, moment.record)

    # -- what the streams say ----------------------------------------------------------------------------------------

    def wants_messages(self, stream: SideStream) -> bool:
        """Whether message rows of this side are to be made: to be told, or to be judged."""
        if self.options.records or stream.socket_type in ROW_RULES or self.links[1 - stream.side] is not None:
            return True
        return self.options.payloads is not None and stream.wants_rows

    def take_event(self, stream: SideStream, event: Event, held: Held | None = None, whole: bool = True) -> None:
        """Make records of something that was read, and of what is to be said about it.

        `held`: what is known of it that the stream does not remember any more. `whole`: all octets of it are there.
        """
        side = stream.side
        arrived = NOTHING if held is None else held.arrived
        ordinal = stream.ordinal_of(event.start, event.stop)
        if not isinstance(event, Remark):
            first = arrived.get(event.start) or stream.arrivals.at(event.start)
            unit = held.unit if held is not None else self.unit_of(stream, event) if self.options.details else None
            octets = min(event.stop, stream.end) - event.start
            whole = whole and (isinstance(event, Command) or event.complete)
            stream.counts.units += octets - (0 if held is None else held.lost)
            if not whole and (isinstance(event, Greeting) or event.regime.shakes_hands):
                stream.has_part_of_a_handshake = True
            self.teller.event(side, event, octets, whole, first, ordinal, unit)
            self.relations.add(side, event, Arrival(ordinal, first.packet, first.time))
            if isinstance(event, Command) and event.fields.get("name") in COMMANDS and self.options.records:
                self.topics.feed(side, event, ordinal)
            if stream.type_known is None and event.fields.get("socket_type") is not None:
                stream.type_known = ordinal
            if stream.identity_from is None and event.fields.get("identity") is not None:
                stream.identity_from = event.start
        for finding in event.findings:
            at = event.start if finding.start is None else finding.start
            # what is said about the end of a unit came with its last octet, whatever is behind that
            first = arrived.get(at) or stream.arrivals.at(min(at, max(event.start, event.stop - 1), stream.end - 1))
            self.teller.finding(side, finding, first, ordinal, unit=event.start, source=event.regime.source)
            if (finding.severity or FINDINGS[finding.id].severity) == "error":
                record = type(event).__name__.lower().replace("remark", "frame")
                reference = self.teller.reference(side, event.regime.source, event.start, record)
                self.relations.found(side, finding, Arrival(ordinal, first.packet, first.time), reference)

    def unit_of(self, stream: SideStream, event: Greeting | Command) -> Unit:
        """The octets of `event` that are being read, and under what they are read."""
        octets = event.octets if isinstance(event, Command) else None
        if octets is None:
            octets = stream.octets(event.start, event.read_to)
        return Unit(event.regime, event.start, octets, stream.arrivals.pieces().slices(event.start, event.read_to))

    def count_repeats(self, stream: SideStream, reader: UnitReader, told: dict[str, int]) -> None:
        """Take over what a reader of a side only counted since it was asked last; `told` is how much that was then."""
        for id_, (count, offset) in reader.repeats.items():
            more = count - told.get(id_, 0)
            if more:
                arrival = stream.arrivals.at(stream.end - 1 if offset is None else min(offset, stream.end - 1))
                source = reader.regime.source
                self.teller.repeated(stream.side, Finding(id_, offset), arrival, more, source)
                told[id_] = count

    def note_unfit_keys(self, arrival: Arrival) -> None:
        """Say once that the key files name this connection in vain, if so; `arrival` is what proved it."""
        session = self.session
        if session is not None and session.unfit and not session.unfit_told:
            session.unfit_told = True
            self.note({"client": 0, "server": 1}.get(session.role(0) or ""), Finding("CURVE-12"), arrival)

    def note(self, side: int | None, finding: Finding, arrival: Arrival, refs: tuple[str, ...] = ()) -> None:
        """A finding that becomes decidable with the segment `arrival`."""
        self.teller.finding(side, finding, arrival, arrival.ordinal, refs)

    def note_gap(self, stream: SideStream, hole: Hole, start: int, told: Arrival, resumed_at: int | None) -> None:
        """A hole, once it is known where reading goes on behind it (None: nowhere)."""
        gap = Gap(start, start + hole.octets, hole.octets, hole.reason, told, resumed_at)
        self.gaps.add(stream.side, gap)

    def _tell_gaps(self) -> None:
        for side, leftover in self.leftovers.take(self.identified_since):
            self.teller.leftover(side, leftover)
        for side, gap in self.gaps.take(self.identified_since):
            self.teller.gap(side, gap)
            went_on = gap.resumed_at is not None
            behind = f"; reading goes on at offset {gap.resumed_at}" if went_on else "; reading went on nowhere"
            detail = f"{gap.octets} octets at offset {gap.start}, {gap.reason}{behind}"
            self.note(side, Finding("ZMTP-CONN-05", gap.start, gap.stop - gap.start, None, detail), gap.told)

    def found_midstream(self, stream: SideStream, offset: int, arrival: Arrival) -> None:
        """Frames were found in a stream whose start was not captured."""
        self.identify(arrival.ordinal)
        detail = f"frames were found from offset {offset} on"
        self.note(stream.side, Finding("ZMTP-CONN-01", offset, 0, None, detail), arrival)

    def said_something_after(self, side: int, arrival: Arrival) -> bool:
        """Whether octets of `side` were captured behind `arrival`."""
        ordinals = self.streams[side].arrivals.ordinals
        return bool(ordinals) and ordinals[-1] > arrival.ordinal

    # -- rows and the end --------------------------------------------------------------------------------------------

    def _tell_rows(self) -> None:
        batch = self.sink.batch
        told: tuple[list[MessageRun], list[MessageRun]] = ([], [])
        for side, stream in enumerate(self.streams):
            for assembly in stream.assemblies():
                runs, assembly.message_runs = assembly.message_runs, []
                secrets: list[range] = []
                for run in runs:
                    for part in self._with_peer_type(side, run):
                        for finding_id, rows in broken_rows(part):
                            self._note_rows(side, finding_id, part, rows)
                        if self.options.payloads is not None:
                            secrets += self._look_inside(stream, assembly, part)
                        told[side].append(part)
                for frames in assembly.frame_runs:
                    frames.data = starred(frames.data, frames.base, secrets)
                batch.frame_runs += assembly.frame_runs
                assembly.frame_runs = []
            stream.forget_holes()
        if self.options.records:
            self.topics.assign(told)
            batch.runs += told[0] + told[1]
        if self.zap.turns:
            self.zap.weigh()
        for side, link in enumerate(self.links):
            if link is None:
                continue
            for run in told[1 - side]:
                self._note_rows(1 - side, "ZRE-09", run, np.flatnonzero(run.complete & (run.orders >= link.since)))

    def _look_inside(self, stream: SideStream, assembly: Assembly, run: MessageRun) -> list[range]:
        """Find out what rides inside the messages of a run, and say what is to be said about it. The places in the
        stream of frames that hold passwords."""
        if assembly.payloads is None:
            number, ports = self.connection.number, self.connection.ports
            side = side_payloads(self.options, lambda rule: rule.matches(number, ports))
            assert side is not None
            assembly.payloads = PayloadRows(self.options, side)
        secrets = assembly.payloads.take(stream, run)
        for row, made in enumerate(run.payloads or ()):
            if made is None or not (made.findings or made.protocol in FOLLOWED):
                continue
            arrival = Arrival(int(run.orders[row]), int(run.packets[row]), int(run.times[row]))
            unit = int(run.offsets[run.first[row]])
            for finding in made.findings:
                self.teller.finding(stream.side, finding, arrival, arrival.ordinal, unit=unit, source=run.source)
            last = run.last[row]
            length = int(run.bodies[last] + run.sizes[last]) - unit
            if made.protocol == Zap.name and made.fields:
                self.zap.turns.append(Turn(arrival, stream.side, unit, length, run.source, made.fields))
            elif made.protocol == Zre.name and made.fields:
                link = self._link(stream, arrival.ordinal, unit)
                self.sink.zre_facts.append(Said(arrival, link, made.fields, run.source, unit, length))
        return secrets

    def _link(self, stream: SideStream, ordinal: int, offset: int) -> Link:
        """The side as a ZRE node that speaks to another; the segment `ordinal` has brought what it says at `offset`."""
        side, connection = stream.side, self.connection
        link = self.links[side]
        if link is None:
            listener = connection.listener
            identity = stream.identity_at(offset)
            uuid = uuid_of(None if identity is None else from_text(identity))
            link = self.links[side] = Link(
                teller=self.teller,
                side=side,
                conn=connection.number,
                uuid=None if uuid is None else uuid.hex().upper(),
                server=(stream.stream.dst_ip, stream.stream.dst_port) if listener != side else None,
                since=ordinal,
                whole=listener is not None and connection.tcp[side].begun,
            )
        link.lossy = link.lossy or (stream.lost_since is not None and stream.lost_since <= ordinal)
        return link

    def _note_rows(self, side: int, finding_id: str, run: MessageRun, rows: Int64) -> None:
        """The same finding on these messages of a run; those that would only be counted are counted at once."""
        if not len(rows):
            return
        counted = len(rows) - self.teller.left_to_write(side, finding_id)
        for index in rows[:-counted].tolist() if counted > 0 else rows.tolist():
            finding, arrival = _finding_on(run, index, finding_id)
            self.teller.finding(side, finding, arrival, arrival.ordinal, source=run.source)
        if counted > 0:
            self.teller.repeated(side, *_finding_on(run, int(rows[-1]), finding_id), counted, run.source)

    def _with_peer_type(self, side: int, run: MessageRun) -> list[MessageRun]:
        """The run with the other side's socket type, from the message on at which that was known."""
        peer = self.streams[1 - side]
        known = peer.type_known
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
