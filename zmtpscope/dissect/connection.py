"""One TCP connection: whether it speaks ZMTP, in which version, and what its sides say."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from ipaddress import ip_address
from typing import Any

import numpy as np

from zmtpscope.dissect.arrivals import Arrival, BlockView
from zmtpscope.dissect.batch import MessageRun, Stream, Unit
from zmtpscope.dissect.options import DecodeAs, Options
from zmtpscope.dissect.reassembly import Hole, TcpSide, distance
from zmtpscope.dissect.relations import Relations
from zmtpscope.dissect.row_rules import ROW_RULES, broken_rows
from zmtpscope.dissect.sink import Sink
from zmtpscope.dissect.stream import Mode, SideStream
from zmtpscope.dissect.tell import Teller
from zmtpscope.zmtp.events import Command, Event, Greeting, Remark
from zmtpscope.zmtp.negotiation import PREFIX_LIMIT, Decision, negotiate
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import Form, Framing
from zmtpscope.zmtp.side import SideReader

WAIT_LIMIT = 3_000_000_000
"""How many nanoseconds of capture time the octets of one side wait for the version of the other."""

SILENT_FORMS = (Form.NOTHING, Form.WAIT, Form.ALIEN)
EAGER = 1024
"""Up to this many octets every segment may settle the version; then it is weighed each time they have doubled."""

SIGNATURE = 10
MAJOR_AT, MINOR_AT = 10, 11
GREETING_PIECES = 64
"""In how many segments a greeting is looked for at once; one that comes in more takes the long way."""

FORMS_BY_VERSION = {"1.0": Form.FRAMES_1, "2.0": Form.GREETING_2}
"""How a side greets that spoke only after the version was settled, or whose version was forced; else GREETING_3."""


class Connection:
    """`tcp` are the two directions as reassembly sees them, `streams` as the dissector does; side 0 opened it."""

    def __init__(self, number: int, key: bytes, start: Arrival, sink: Sink, options: Options) -> None:
        self.number = number
        self.sink = sink
        self.options = options
        self.start = start
        size = (len(key) - 4) // 2
        self.addresses = str(ip_address(key[:size])), str(ip_address(key[size : 2 * size]))
        self.ports = int.from_bytes(key[-4:-2]), int.from_bytes(key[-2:])
        identity = f"{self.addresses[0]} {self.ports[0]} {self.addresses[1]} {self.ports[1]} {start.time}"
        self.id = blake2b(identity.encode(), digest_size=8).hexdigest()
        reverse = key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]
        self.tcp = TcpSide(self, 0, key), TcpSide(self, 1, reverse)
        self.tcp[0].peer, self.tcp[1].peer = self.tcp[1], self.tcp[0]
        constants = self._stream(0), self._stream(1)
        self.streams = SideStream(self, constants[0]), SideStream(self, constants[1])
        self.teller = Teller(sink, constants, options.records)
        self.relations = Relations(self)
        self.opened_by: int | None = None
        self.closed = False
        self.close_how = "open"
        self.closed_by: int | None = None
        self.end = start
        self.forced = next((rule for rule in options.decode_as if rule.matches(number, self.ports)), None)
        self.weighed = 0
        """How many octets there were when the version was last weighed."""
        self.settled = False
        self.decision: Decision | None = None
        self.version: str | None = None
        self.identified = self.forced is not None
        """A side speaks ZMTP, began like it, or is forced to: the connection has records."""
        self.first_octets: Arrival | None = None

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

    def advance(self, view: BlockView) -> None:
        """Read what the block brought, then close the books where the connection ended."""
        if not self.settled and not self._negotiate_at_once(view):
            self._negotiate(view)
        for tcp, stream in zip(self.tcp, self.streams, strict=True):
            for entry in entries(tcp.pieces, tcp.holes):
                if isinstance(entry, Hole):
                    stream.lose(entry)
                else:
                    stream.extend(view, entry)
            tcp.pieces, tcp.holes = [], []
        self.relations.weigh()
        if self.closed:
            self._finish()
        self._tell_rows()
        if self.closed:
            self._release()

    def _release(self) -> None:
        """Let go of everything that points back here, so that a closed connection is freed at once."""
        for tcp in self.tcp:
            del tcp.connection, tcp.peer
        del self.tcp, self.streams, self.relations

    # -- the version -------------------------------------------------------------------------------------------------

    def _negotiate_at_once(self, view: BlockView) -> bool:
        """The usual case in one step: both sides begin with the greeting of a 3.x peer, and the block has both.

        No shorter prefix of theirs decides anything (wire.md 9.3), so the version is settled by the later of the two
        segments that brought octet 11.
        """
        settled_by = []
        prefixes = []
        for tcp, stream in zip(self.tcp, self.streams, strict=True):
            if not tcp.begun or tcp.holes or stream.end:
                return False
            needed = MINOR_AT + 1
            for row in tcp.pieces:
                needed -= view.stops[row] - view.starts[row]
                if needed <= 0:
                    settled_by.append(view.arrival(row))
                    break
            prefix = view.octets(tcp.pieces[:GREETING_PIECES])
            if needed > 0 or len(prefix) <= MINOR_AT or not announces_version_3(prefix):
                return False
            prefixes.append(prefix)
        first_time = min(view.times[tcp.pieces[0]] for tcp in self.tcp)
        arrival = max(settled_by)
        if arrival.time - first_time >= WAIT_LIMIT or self.forced is not None:
            return False
        decision = negotiate(prefixes[0][:PREFIX_LIMIT], prefixes[1][:PREFIX_LIMIT])
        if decision is None:
            return False
        for tcp, stream in zip(self.tcp, self.streams, strict=True):
            stream.extend(view, tcp.pieces)
            tcp.pieces = []
        self._apply(decision, arrival)
        return True

    def _negotiate(self, view: BlockView) -> None:
        """Take pieces one by one, as they arrived, until the version is settled; the rest is left for the bulk way."""
        for ordinal, side, entry in in_order(self, view):
            stream, tcp = self.streams[side], self.tcp[side]
            arrival = Arrival(ordinal, entry.packet, entry.time) if isinstance(entry, Hole) else view.arrival(entry)
            if self.first_octets is None:
                self.first_octets = arrival
            elif arrival.time - self.first_octets.time >= WAIT_LIMIT:
                self._settle(arrival, waited=True)
            if isinstance(entry, Hole):
                tcp.holes.pop(0)
                stream.lose(entry)
            else:
                del tcp.pieces[0]
                for hole in tcp.holes:
                    hole.at -= 1
                stream.extend(view, [entry])
            self._settle(arrival)
            if self.settled:
                return

    def _settle(self, arrival: Arrival, *, waited: bool = False, over: bool = False) -> None:
        """Settle the version if the octets that are there allow it.

        `waited`: a side has waited for the other long enough, so what is there decides, if it decides anything. `over`:
        no more octets will come, so it decides in any case.
        """
        total = sum(stream.end for stream in self.streams)
        if self.settled or (not (waited or over) and EAGER < total < 2 * self.weighed):
            return
        self.weighed = total
        prefixes = [self._prefix(side) for side in (0, 1)]
        if all(stream.mode is not Mode.NEGOTIATING for stream in self.streams):
            self.settled = True
            return
        over = over or max(map(len, prefixes)) >= PREFIX_LIMIT
        if self.forced is not None and self.forced.version is not None:
            if over or waited or min(map(len, prefixes)) >= SIGNATURE:
                self._force(self.forced, prefixes, arrival)
            return
        decision = negotiate(prefixes[0], prefixes[1], over=over or waited)
        if decision is not None and (over or not waited or decision.version is not None):
            self._apply(decision, arrival)

    def _prefix(self, side: int) -> bytes:
        """The first octets of a side that take part in the negotiation; a side that was captured from some later point
        on takes no part, unless it begins with a signature."""
        stream = self.streams[side]
        if stream.mode is not Mode.NEGOTIATING:
            return b""
        prefix = stream.prefix()
        known = self.forced is not None and self.forced.version is not None
        if not (known or self.tcp[side].begun) and stream.queue and not begins_like_a_signature(prefix):
            stream.search_from_the_start()
            return b""
        return prefix

    def _apply(self, decision: Decision, arrival: Arrival) -> None:
        self.settled = True
        self.decision = decision
        self.version = decision.version
        self.identified = self.identified or any(form not in SILENT_FORMS for form in decision.forms)
        for side, stream in enumerate(self.streams):
            if stream.mode is not Mode.NEGOTIATING:
                continue
            form = decision.forms[side]
            if form is Form.ALIEN and self.forced is not None:
                stream.search_from_the_start()
                continue
            reader = None
            if form is Form.WAIT and stream.lost_greeting():
                form = Form.NOTHING
            if self.identified and form not in (Form.ALIEN, Form.WAIT):
                if form is Form.NOTHING:
                    form = FORMS_BY_VERSION.get(self.version or "", Form.GREETING_3)
                reader = SideReader(form, decision.version)
            stream.begin(reader, arrival.ordinal, decision.confidence)
            if self.identified:
                ended = self.tcp[side].ended or self.close_how == "rst"
                for finding in decision.findings[side]:
                    if ended or finding.id != "ZMTP-CONN-03":  # the file ends, not the stream
                        self.note(side, finding, arrival)

    def _lacks_octets(self, side: int) -> bool:
        """Whether nothing was captured of a side that did send something: it has no packet at all, or the other side
        acknowledged octets of it."""
        tcp = self.tcp[side]
        if self.streams[side].end:
            return False
        return not tcp.seen or (tcp.peer.acknowledged >= 0 and distance(tcp.peer.acknowledged, tcp.next) > 0)

    def _force(self, rule: DecodeAs, prefixes: list[bytes], arrival: Arrival) -> None:
        """Read in the version that the user gave: from the greeting where the start was captured, else as traffic."""
        self.settled = True
        self.version = rule.version
        form = FORMS_BY_VERSION.get(self.version or "", Form.GREETING_3)
        framing = Framing.V1 if self.version == "1.0" else Framing.V2
        for side, stream in enumerate(self.streams):
            if stream.mode is not Mode.NEGOTIATING:
                continue
            if self.tcp[side].begun or (prefixes[side] and begins_like_a_signature(prefixes[side])):
                reader = SideReader(form, self.version)
            else:
                reader = SideReader.midstream(framing, offset=0, version=self.version, mechanism=rule.mechanism)
            stream.begin(reader, arrival.ordinal, "likely")

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
        if not self.settled:
            self._settle(arrival, over=True)
        for side, stream in enumerate(self.streams):
            stream.finish(arrival, self.tcp[side].ended or self.close_how == "rst")
        if not self.identified:
            self.sink.summary.other_tcp += 1
            return
        for side in (0, 1):
            if self.decision is not None and self.streams[side].end and self._lacks_octets(1 - side):
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
        confidences = [stream.confidence for stream in self.streams if stream.reader is not None]
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
        if self.decision is None:
            return "unseen"
        greeted = any(form not in SILENT_FORMS for form in self.decision.forms)
        if not greeted and not any(tcp.begun for tcp in self.tcp):
            return "unseen"
        if any(reader.error_seen for reader in present):
            return "failed"
        if self.decision.outcome not in ("agreed", "1.0 frames"):
            return "incomplete" if self.close_how == "open" else "failed"
        if len(present) == 2 and all(reader.handshake_done for reader in present):
            return "complete"
        return "incomplete"

    def _count(self, values: dict[str, Any]) -> None:
        summary = self.sink.summary
        summary.connections += 1
        summary.versions[values["version"] or "unknown"] += 1
        summary.mechanisms[values["mechanism"] or "none"] += 1
        summary.handshakes[values["handshake"]] += 1
        summary.closes[values["close"]] += 1
        for side, stream in enumerate(self.streams):
            summary.socket_types[values[f"socket_type_{side}"] or "unknown"] += 1
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


def entries(pieces: list[int], holes: list[Hole]) -> Iterator[list[int] | Hole]:
    """Pieces and holes of one side in stream order, pieces in runs as long as can be."""
    done = 0
    for hole in holes:
        if hole.at > done:
            yield pieces[done : hole.at]
            done = hole.at
        yield hole
    if done < len(pieces):
        yield pieces[done:]


def in_order(connection: Connection, view: BlockView) -> Iterator[tuple[int, int, int | Hole]]:
    """(ordinal, side, piece or hole) of both sides, one by one, as they were delivered."""
    both: list[tuple[int, int, int | Hole]] = []
    for side, tcp in enumerate(connection.tcp):
        for entry in entries(list(tcp.pieces), list(tcp.holes)):
            if isinstance(entry, Hole):
                both.append((entry.ordinal, side, entry))
            else:
                both += [(view.ordinal_of(row), side, row) for row in entry]
    both.sort(key=_place)
    return iter(both)


def _place(entry: tuple[int, int, int | Hole]) -> tuple[int, int]:
    return entry[0], entry[1]


def begins_like_a_signature(prefix: bytes) -> bool:
    """Whether these first octets can be those of a peer newer than 1.0 (wire.md 9.2): FF, padding, 7F."""
    if len(prefix) < SIGNATURE:
        return prefix == b"\xff\x00\x00\x00\x00\x00\x00\x00\x00\x7f"[: len(prefix)]
    return prefix[0] == 0xFF and prefix[9] == 0x7F and int.from_bytes(prefix[1:9]) <= 256


def announces_version_3(prefix: bytes) -> bool:
    """Whether these octets, more than 11, are those of a 3.x peer that nobody would take for anything else."""
    return prefix[0] == 0xFF and prefix[SIGNATURE - 1] == 0x7F and prefix[MAJOR_AT] >= 3
