"""One TCP connection: whether it speaks ZMTP, in which version, and what its sides say."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any

import numpy as np

from zmtpscope.dissect.agreement import SILENT_FORMS, Agreement
from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.batch import MessageRun, Stream, Unit
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.reassembly import Hole, TcpSide, distance, entries, reverse
from zmtpscope.dissect.relations import Relations
from zmtpscope.dissect.row_rules import ROW_RULES, broken_rows
from zmtpscope.dissect.sink import Sink, count_word
from zmtpscope.dissect.stream import SideStream
from zmtpscope.dissect.tell import Teller
from zmtpscope.zmtp.events import Command, Event, Greeting, Remark
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.side import SideReader


class Connection:
    """`tcp` are the two directions as reassembly sees them, `streams` as the dissector does; side 0 opened it."""

    def __init__(self, number: int, key: bytes, start: Arrival, sink: Sink, options: Options) -> None:
        self.number = number
        self.key = key
        self.sink = sink
        self.options = options
        self.start = start
        self.tcp = TcpSide(self, 0, key), TcpSide(self, 1, reverse(key))
        self.tcp[0].peer, self.tcp[1].peer = self.tcp[1], self.tcp[0]
        self.opened_by: int | None = None
        self.closed = False
        self.close_how = "open"
        self.closed_by: int | None = None
        self.end = start
        self.identified = self.forced is not None
        """A side speaks ZMTP, began like it, or is forced to: the connection has records."""

    # What only connections with octets need is made when it is first asked for: a port scan has many without.

    @cached_property
    def addresses(self) -> tuple[str, str]:
        """The addresses of side 0 and side 1."""
        size = (len(self.key) - 4) // 2
        return str(ip_address(self.key[:size])), str(ip_address(self.key[size : 2 * size]))

    @property
    def ports(self) -> tuple[int, int]:
        """The ports of side 0 and side 1."""
        return int.from_bytes(self.key[-4:-2]), int.from_bytes(self.key[-2:])

    @cached_property
    def id(self) -> str:
        """`conn_id` of the record schema."""
        identity = f"{self.addresses[0]} {self.ports[0]} {self.addresses[1]} {self.ports[1]} {self.start.time}"
        return blake2b(identity.encode(), digest_size=8).hexdigest()

    @cached_property
    def streams(self) -> tuple[SideStream, SideStream]:
        """What the two sides say."""
        return SideStream(self, self._stream(0)), SideStream(self, self._stream(1))

    @cached_property
    def teller(self) -> Teller:
        """Makes the records."""
        return Teller(self.sink, (self.streams[0].stream, self.streams[1].stream), self.options.records)

    @cached_property
    def relations(self) -> Relations:
        """Compares the two sides."""
        return Relations(self)

    @cached_property
    def agreement(self) -> Agreement:
        """The version, and how it was settled."""
        return Agreement(self, self.forced)

    @property
    def forced(self) -> DecodeAs | None:
        """What the user said of this connection, if anything."""
        return next((rule for rule in self.options.decode_as if rule.matches(self.number, self.ports)), None)

    @property
    def version(self) -> str | None:
        """The version in force, None while or where there is none."""
        return self.agreement.version

    def _stream(self, side: int) -> Stream:
        (here, there), (port, other) = self.addresses, self.ports
        if side:
            here, there, port, other = there, here, other, port
        return Stream(self.number, self.id, side, here, port, there, other)

    # -- what reassembly says ----------------------------------------------------------------------------------------

    def close(self, how: str, closed_by: int | None, arrival: Arrival) -> None:
        """Nothing more will come: "fin", "rst", "open" (the capture ended, or the ports were reused) or "evicted"."""
        self.closed = True
        self.close_how, self.closed_by, self.end = how, closed_by, arrival

    def ended(self, side: int) -> bool:
        """The stream of `side` has ended for good: FIN or RST was captured."""
        return self.closed and (self.tcp[side].ended or self.close_how == "rst")

    def advance(self, view: BlockView) -> None:
        """Read what the block brought, then close the books where the connection ended."""
        if self.closed and not (self.tcp[0].delivered or self.tcp[1].delivered or self.identified):
            self.sink.summary.other_tcp += 1
            self._release()
            return
        if not self.agreement.settled:
            self.agreement.advance(view)
        for tcp, stream in zip(self.tcp, self.streams, strict=True):
            for entry in entries(tcp.pieces, tcp.holes):
                if isinstance(entry, Hole):
                    stream.lose(entry)
                else:
                    stream.extend(view, entry)
            tcp.pieces, tcp.holes = [], []
        self.relations.weigh()
        self._tell_rows()
        if self.closed:
            self._finish()
            self._release()

    def _release(self) -> None:
        """Let go of everything that points back here, so that a closed connection is freed at once."""
        for tcp in self.tcp:
            del tcp.connection, tcp.peer
        del self.tcp
        for part in ("streams", "teller", "relations", "agreement"):
            self.__dict__.pop(part, None)

    def _lacks_octets(self, side: int) -> bool:
        """Whether nothing was captured of a side that did send something: it has no packet at all, or the other side
        acknowledged octets of it."""
        tcp = self.tcp[side]
        if self.streams[side].end:
            return False
        return not tcp.seen or (tcp.peer.acknowledged >= 0 and distance(tcp.peer.acknowledged, tcp.next) > 0)

    # -- what the streams say ----------------------------------------------------------------------------------------

    def side_of(self, stream: SideStream) -> int:
        """0 or 1."""
        return 0 if stream is self.streams[0] else 1

    def wants_messages(self, stream: SideStream) -> bool:
        """Whether message rows of this side are to be made: to be told, or to be judged."""
        return self.options.records or (stream.reader is not None and stream.reader.socket_type in ROW_RULES)

    def take_event(self, stream: SideStream, event: Event) -> None:
        """Make records of something that was read, and of what is to be said about it."""
        side = self.side_of(stream)
        last = max(event.start, min(event.stop, stream.end) - 1)
        ordinal = max(stream.arrivals.at(last).ordinal, stream.settled)
        if not isinstance(event, Remark):
            first = stream.arrivals.at(event.start)
            unit = self._unit(stream, event) if self.options.details else None
            self.teller.event(side, event, first, ordinal, unit)
            self.relations.add(side, event, Arrival(ordinal, first.packet, first.time))
            if stream.type_known is None and event.fields.get("socket_type") is not None:
                stream.type_known = ordinal
        for finding in event.findings:
            at = event.start if finding.start is None else finding.start
            first = stream.arrivals.at(min(at, stream.end - 1))
            self.teller.finding(side, finding, first, ordinal, unit=event.start)
            record = type(event).__name__.lower().replace("remark", "frame")
            reference = f"{self.id}/{side}/0/{event.start}/{record}"
            self.relations.found(side, finding, Arrival(ordinal, first.packet, first.time), reference)

    def _unit(self, stream: SideStream, event: Greeting | Command) -> Unit:
        octets = stream.octets(event.start, event.stop)
        return Unit(event.regime, event.start, octets, stream.arrivals.pieces().slices(event.start, event.stop))

    def count_repeats(self, stream: SideStream) -> None:
        """Take over what the reader of a side only counted since it was asked last."""
        assert stream.reader is not None
        for id_, (count, offset) in stream.reader.repeats.items():
            more = count - stream.repeats[id_]
            if more:
                arrival = stream.arrivals.at(stream.end - 1 if offset is None else min(offset, stream.end - 1))
                self.teller.repeated(self.side_of(stream), Finding(id_, offset), arrival, more)
                stream.repeats[id_] = count

    def note(self, side: int | None, finding: Finding, arrival: Arrival, refs: tuple[str, ...] = ()) -> None:
        """A finding that becomes decidable with the segment `arrival`."""
        self.teller.finding(side, finding, arrival, arrival.ordinal, refs)

    def note_gap(self, stream: SideStream, hole: Hole, start: int, told: Arrival, resumed_at: int | None) -> None:
        """A hole, once it is known where reading goes on behind it (None: nowhere)."""
        if not self.identified:
            return
        side = self.side_of(stream)
        self.teller.gap(side, hole, start, told, resumed_at)
        behind = "; reading went on nowhere" if resumed_at is None else f"; reading goes on at offset {resumed_at}"
        detail = f"{hole.octets} octets at offset {start}, {hole.reason}{behind}"
        self.note(side, Finding("ZMTP-CONN-05", start, hole.octets, None, detail), told)

    def found_midstream(self, stream: SideStream, offset: int, arrival: Arrival) -> None:
        """Frames were found in a stream whose start was not captured."""
        self.identified = True
        detail = f"frames were found from offset {offset} on"
        self.note(self.side_of(stream), Finding("ZMTP-CONN-01", offset, 0, None, detail), arrival)

    def said_something_after(self, side: int, arrival: Arrival) -> bool:
        """Whether octets of `side` were captured behind `arrival`."""
        ordinals = self.streams[side].arrivals.ordinals
        return bool(ordinals) and ordinals[-1] > arrival.ordinal

    # -- rows and the end --------------------------------------------------------------------------------------------

    def _tell_rows(self) -> None:
        batch = self.sink.batch
        for side, stream in enumerate(self.streams):
            runs, stream.assembly.message_runs = stream.assembly.message_runs, []
            for run in runs:
                for part in self._with_peer_type(side, run):
                    for finding_id, index in broken_rows(part):
                        self._note_row(side, finding_id, part, index)
                    if self.options.records:
                        batch.runs.append(part)
            batch.frame_runs += stream.assembly.frame_runs
            stream.assembly.frame_runs = []

    def _note_row(self, side: int, finding_id: str, run: MessageRun, index: int) -> None:
        first, last = int(run.first[index]), int(run.last[index])
        start = int(run.offsets[first])
        length = int(run.bodies[last] + run.sizes[last]) - start
        arrival = Arrival(int(run.orders[index]), int(run.packets[index]), int(run.times[index]))
        self.note(side, Finding(finding_id, start, length), arrival)

    def _with_peer_type(self, side: int, run: MessageRun) -> list[MessageRun]:
        """The run with the other side's socket type, from the message on at which that was known."""
        peer = self.streams[1 - side]
        known = peer.type_known
        if known is None or run.orders[-1] < known:
            return [run]
        assert peer.reader is not None
        cut = int(np.searchsorted(run.orders, known))
        after = run.part(cut, len(run.first))
        after.peer_socket_type = peer.reader.socket_type
        return [run.part(0, cut), after] if cut else [after]

    def _finish(self) -> None:
        arrival = self.end
        if not self.agreement.settled:
            self.agreement.settle(arrival, over=True)
        for side, stream in enumerate(self.streams):
            stream.finish(arrival, self.ended(side))
        self._tell_rows()
        if not self.identified:
            self.sink.summary.other_tcp += 1
            return
        for side in (0, 1):
            if self.agreement.decision is not None and self.streams[side].end and self._lacks_octets(1 - side):
                self.note(side, Finding("ZMTP-CONN-02"), arrival)
        whole = not any(stream.lost_octets for stream in self.streams) and all(tcp.begun for tcp in self.tcp)
        if self.close_how in ("fin", "rst") and whole:
            self.relations.weigh()
            self.relations.close(arrival, self.closed_by)
        self.teller.counted_findings(arrival.ordinal)
        values = self._values()
        self.teller.connection(self.start, values, arrival.ordinal)
        self._count(values)

    def _values(self) -> dict[str, Any]:
        readers = [stream.reader for stream in self.streams]
        assemblies = [stream.assembly for stream in self.streams]
        roles = [reader.regime.role if reader is not None else None for reader in readers]
        server = (
            roles.index("server") if "server" in roles else 1 - roles.index("client") if "client" in roles else None
        )
        mechanisms = {reader.mechanism for reader in readers if reader is not None and reader.mechanism is not None}
        confidences = [
            stream.confidence if stream.reader.unreliable_from is None else "likely"
            for stream in self.streams
            if stream.reader is not None
        ]
        return {
            "start_ns": self.start.time,
            "end_ns": max(self.start.time, *(stream.last_time for stream in self.streams))
            if self.close_how == "open"
            else self.end.time,
            "ip_0": self.addresses[0],
            "port_0": self.ports[0],
            "ip_1": self.addresses[1],
            "port_1": self.ports[1],
            "opened_by": self.opened_by,
            "security_server": server,
            "version": self.version,
            "mechanism": mechanisms.pop() if len(mechanisms) == 1 else None,
            "socket_type_0": readers[0].socket_type if readers[0] is not None else None,
            "socket_type_1": readers[1].socket_type if readers[1] is not None else None,
            "identity_0": readers[0].identity if readers[0] is not None else None,
            "identity_1": readers[1].identity if readers[1] is not None else None,
            "handshake": self._handshake(readers),
            "close": self.close_how,
            "closed_by": self.closed_by,
            "messages_0": assemblies[0].message_count,
            "messages_1": assemblies[1].message_count,
            "bytes_0": assemblies[0].body_octets,
            "bytes_1": assemblies[1].body_octets,
            "gap_bytes": sum(stream.lost_octets for stream in self.streams),
            "undissected_bytes": sum(stream.undissected for stream in self.streams),
            "confidence": "likely" if "likely" in confidences else confidences[0] if confidences else "guess",
        }

    def _handshake(self, readers: list[SideReader | None]) -> str:
        """complete, failed, incomplete or unseen."""
        present = [reader for reader in readers if reader is not None]
        if self.agreement.decision is None:
            return "unseen"
        greeted = any(form not in SILENT_FORMS for form in self.agreement.decision.forms)
        if not greeted and not any(tcp.begun for tcp in self.tcp):
            return "unseen"
        if any(reader.error_seen for reader in present):
            return "failed"
        if self.agreement.decision.outcome not in ("agreed", "1.0 frames"):
            return "incomplete" if self.close_how == "open" else "failed"
        if len(present) == 2 and all(reader.handshake_done for reader in present):
            return "complete"
        return "incomplete"

    def _count(self, values: dict[str, Any]) -> None:
        summary = self.sink.summary
        summary.connections += 1
        summary.versions[values["version"] or "unknown"] += 1
        without = "none" if values["version"] in ("1.0", "2.0") else "unknown"
        count_word(summary.mechanisms, values["mechanism"] or without)
        summary.handshakes[values["handshake"]] += 1
        summary.closes[values["close"]] += 1
        for side, stream in enumerate(self.streams):
            count_word(summary.socket_types, values[f"socket_type_{side}"] or "unknown")
            summary.messages += stream.assembly.message_count
            summary.frames += stream.assembly.frame_count
            summary.body_octets += stream.assembly.body_octets
            counts, sums = self.tcp[side].counts, summary.sums
            sums.stream += stream.end
            sums.gaps += stream.lost_octets
            sums.undissected += stream.undissected
            sums.units += stream.end - stream.lost_octets - stream.undissected
            sums.captured += counts.captured
            sums.repeated += counts.repeated
            sums.conflicting += counts.conflicting
            sums.late += counts.late
