"""Determine the version of a connection by the first octets of both sides, in order of arrival (decisions/core.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from zmtpscope.dissect.arrivals import Arrival, decided_by_time
from zmtpscope.dissect.records.leftovers import NOT_ZMTP, TOO_FEW
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.stream.side_stream import Mode, SideStream
from zmtpscope.dissect.tcp.connection import TcpSide
from zmtpscope.dissect.tcp.out_of_order import Hole, entries
from zmtpscope.option_texts import DecodeAs
from zmtpscope.records import SECOND
from zmtpscope.words import duration
from zmtpscope.zmtp.greeting import (
    SIGNATURE_SIZE,
    VERSIONED_SIZE,
    announces_a_version,
    announces_version_3,
    begins_like_a_signature,
)
from zmtpscope.zmtp.negotiation import PREFIX_LIMIT, Decision, negotiate
from zmtpscope.zmtp.proxies import Proxied, find_proxied
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import SILENT_FORMS, UPGRADE_FORMS, Form, Framing, usual_form
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.upgrade import begins_like_an_upgrade, plain_websocket
from zmtpscope.zmtp.zws_side import ZwsReader

WAIT_LIMIT = 3_000_000_000
"""Capture time (ns) that the octets of one side wait for the version of the other."""

NOTHING_SENT_HINT = "that side established TCP but sent nothing: it hangs, is overloaded, or is not a ZeroMQ peer"

WEAK_FORMS = SILENT_FORMS | {Form.FRAMES_1}
"""Forms that a side can resemble by chance while the other side does not speak ZMTP."""

TLS_HANDSHAKE = b"\x16\x03"
"""Type of a TLS record, and first octet of its version (RFC 8446, 5.1)."""

CLIENT_HELLO = re.compile(TLS_HANDSHAKE + rb"...\x01", re.DOTALL)
"""A TLS handshake record with a ClientHello."""

HTTP_STATUS = re.compile(rb"HTTP/1\.[01] [1-5]\d\d")
"""Begin of the answer of a server that expects no TLS."""

EAGER = 1024
"""Octets of a side up to which each new segment starts a negotiation; after that, each doubling does."""


class Negotiation:
    """Determines the version of both sides; it is known once `settled`.

    `forced` is the decode-as rule, if any. `decision` is None without a negotiation: the start was not captured, or the
    user forced the version.
    """

    def __init__(
        self, tcp: tuple[TcpSide, TcpSide], streams: tuple[SideStream, SideStream], forced: DecodeAs | None
    ) -> None:
        self.tcp = tcp
        self.streams = streams
        self.forced = forced
        self.greeted_since: int | None = None
        """Ordinal of the segment that settled the version, if a side then spoke ZMTP or had begun like it."""
        self.settled = False
        self.decision: Decision | None = None
        self.version: str | None = None
        self.first_octets: Arrival | None = None
        self.waited = False
        """Whether a side has waited long enough: the present octets decide, if they can."""
        self.evaluated = [0, 0]
        """Octets of each side at the last negotiation."""
        self.proxied: Proxied | None = None
        """The header or handshake of a proxy before ZMTP."""
        self.foreign: tuple[int, str, str] | None = None
        """Client side of a WebSocket without ZWS, or of TLS, with finding id and answer."""
        self._notes: list[Note] = []

    @property
    def is_zmtp(self) -> bool:
        """Whether the connection has records: a side speaks ZMTP, started like ZMTP, or is forced to by a decode-as
        rule."""
        one, other = self.streams
        is_found = one.found_since is not None or other.found_since is not None
        return is_found or self.greeted_since is not None or self.forced is not None

    def drain(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes

    def advance(self, block: BlockView) -> None:
        """Process both sides until the version is known; the rest of the block stays in `tcp`."""
        if not self._at_once(block):
            self._step_by_step(block)

    def _at_once(self, block: BlockView) -> bool:
        """Determine the version in the usual case in one step: the block contains the greetings of two 3.x peers.

        Fewer octets cannot show this, and more cannot change it (wire.md 9.3). Returns whether it is the usual case.
        """
        prefixes, settled_by = [], []
        for tcp, stream in zip(self.tcp, self.streams, strict=True):
            if not tcp.begun or tcp.holes or stream.end or self.forced is not None:
                return False
            prefix = b""
            for row in tcp.pieces:
                start = block.starts[row]
                prefix += block.data[start : min(block.stops[row], start + VERSIONED_SIZE)]
                if len(prefix) >= VERSIONED_SIZE:
                    settled_by.append(block.arrival(row))
                    break
            else:
                return False
            if not announces_version_3(prefix) or (tcp.initial < 0 and not begins_like_a_signature(prefix)):
                return False
            prefixes.append(prefix)
        arrival = max(settled_by)
        decision = negotiate(prefixes[0], prefixes[1])
        if decision is None or self._one_waits(block, arrival):
            return False
        self._apply(decision, arrival, (False, False))
        return True

    def _one_waits(self, block: BlockView, last: Arrival) -> bool:
        """Whether one side has sent too much, or waited for too long, while the other one has not answered.

        Up to the segment `last` it sent `PREFIX_LIMIT` octets, or any octets `WAIT_LIMIT` after the first ones. Capture
        times may run backwards, so each segment is checked.
        """
        one, other = self.tcp[0].pieces, self.tcp[1].pieces
        first = one[0] if block.ordinals[one[0]] <= block.ordinals[other[0]] else other[0]
        latest = block.times[first] + WAIT_LIMIT
        for rows in (one, other):
            octets = 0
            for row in rows:
                if block.ordinals[row] > last.ordinal:
                    break
                octets += block.stops[row] - block.starts[row]
                if octets >= PREFIX_LIMIT or block.times[row] >= latest:
                    return True
        return False

    def _step_by_step(self, block: BlockView) -> None:
        """Determine the version in the general case, segment by segment."""

        def feed(side: int, entry: int | Hole) -> bool:
            stream = self.streams[side]
            if isinstance(entry, Hole):
                arrival, now = Arrival(entry.ordinal, entry.packet, entry.time), entry.decided
            else:
                arrival = block.arrival(entry)
                now = arrival.time
            if self.first_octets is None:
                self.first_octets = arrival
            else:
                self.advance_clock(now, decided_by_time(arrival.ordinal))
            if isinstance(entry, Hole):
                stream.lose(entry)
            else:
                stream.feed(block, [entry])
            self.settle(arrival)
            return self.settled

        deliver(self.tcp, block, feed)

    @property
    def awaits_time(self) -> bool:
        """Whether the passing of time, without more octets, can still determine the version."""
        return not (self.settled or self.waited or self.first_octets is None)

    def advance_clock(self, now: int, ordinal: int) -> bool:
        """Note that no octets arrived until `now` (ns); return whether this determined the version, with this
        ordinal."""
        if not self.awaits_time or self.first_octets is None or now - self.first_octets.time < WAIT_LIMIT:
            return False
        self.waited = True
        self.settle(self.first_octets._replace(ordinal=ordinal), now=True)
        return True

    def _last_octets(self, ordinal: int) -> Arrival:
        """Return packet and time of the last octets, with this ordinal."""
        ends = [stream.arrivals.at(stream.end) for stream in self.streams if stream.arrivals.ends]
        return max(ends)._replace(ordinal=ordinal)

    def settle(self, arrival: Arrival, *, now: bool = False, ended: tuple[bool, bool] | None = None) -> None:
        """Determine the version if the octets so far allow it.

        `now`: negotiate even without new octets. `ended`: no more octets will arrive, so negotiate in any case; True
        for each side that closed, False if only the capture ended.
        """
        over = ended is not None
        if self.settled or not (now or over or self._has_news()):
            return
        self.evaluated = [stream.end for stream in self.streams]
        for side, stream in enumerate(self.streams):
            if self._lacks_its_start(side):
                stream.search_from_the_start(arrival.ordinal, self._framings())
        if self.proxied is None and self._looks_for_proxy() and not (over or self.waited):
            return
        prefixes = [stream.prefix() for stream in self.streams]
        if all(stream.mode is not Mode.NEGOTIATING for stream in self.streams):
            self.settled = True
            return
        waiting = [stream.end for stream in self.streams if stream.mode is Mode.NEGOTIATING]
        is_full = max(waiting) >= PREFIX_LIMIT
        over = over or is_full
        if self.forced is not None and self.forced.version is not None:
            if over or self.waited or min(map(len, prefixes)) >= SIGNATURE_SIZE:
                self._force(self.forced, prefixes, arrival)
            return
        decision = negotiate(prefixes[0], prefixes[1], over=over or self.waited)
        if decision is None or decision.version is None:
            decision = self._by_the_other_side(prefixes, is_full) or decision
        if decision is not None and (over or not self.waited or decision.version is not None):
            is_decided_by_silence = (now or over) and decision.version is not None
            decided = self._last_octets(arrival.ordinal) if is_decided_by_silence else arrival
            self.foreign = _foreign(prefixes) if decision.outcome == "unknown" else None
            self._apply(decision, decided, ended or (False, False))

    def _looks_for_proxy(self) -> bool:
        """Skip the headers of a proxy before ZMTP; return whether more octets are needed to find them."""
        prefixes = [stream.prefix() for stream in self.streams]
        if not all(self._is_from_the_start(side) for side in (0, 1) if prefixes[side]):
            return False
        found = find_proxied(prefixes)
        if isinstance(found, bool):
            return found
        self.proxied = found
        for stream, size, shown in zip(self.streams, found.sizes, found.shown, strict=True):
            stream.pass_proxy(size, shown)
        return False

    def _has_news(self) -> bool:
        """Whether a side has sent enough octets since the last negotiation to negotiate again."""
        ends = [stream.end for stream in self.streams]
        return any(
            end != before and (end <= EAGER or end >= 2 * before)
            for end, before in zip(ends, self.evaluated, strict=True)
        )

    def _by_the_other_side(self, prefixes: list[bytes], is_full: bool) -> Decision | None:
        """Determine the version by the greeting of one side, if the other side lost octets or is late.

        `is_full`: the first side has sent as many octets as the limit permits.
        """
        for side, stream in enumerate(self.streams):
            is_under_way = (
                is_full and 0 < len(prefixes[side]) < VERSIONED_SIZE and begins_like_a_signature(prefixes[side])
            )
            if is_under_way or stream.negotiating.has_lost:
                alone = [b"", prefixes[1]] if side == 0 else [prefixes[0], b""]
                decision = negotiate(alone[0], alone[1], over=True)
                if decision is not None and decision.version is not None and decision.confidence != "guess":
                    return decision
        return None

    def _lacks_its_start(self, side: int) -> bool:
        """Whether the start of a side was not captured: it has neither a signature nor a ZWS upgrade."""
        stream = self.streams[side]
        if stream.negotiating.is_empty or (self.forced is not None and self.forced.version is not None):
            return False
        prefix = stream.prefix()
        greets = begins_like_a_signature(prefix) or begins_like_an_upgrade(prefix)
        return not (greets or self._is_from_the_start(side))

    def _is_from_the_start(self, side: int) -> bool:
        """Whether the capture has the first octets of a side.

        If only acknowledgments show this, octets before them may be lost; but a greeting with a version has always been
        answered with a signature.
        """
        tcp = self.tcp[side]
        is_announced = announces_a_version(self.streams[1 - side].prefix())
        return tcp.begun and (tcp.initial >= 0 or not is_announced)

    def _apply(self, decision: Decision, arrival: Arrival, ended: tuple[bool, bool]) -> None:
        self.settled = True
        if decision.version is not None or not any(stream.negotiating.has_lost for stream in self.streams):
            self.decision = decision  # otherwise the capture lost the agreement
        self._agree(decision.version)
        if not (SILENT_FORMS if decision.version else WEAK_FORMS).issuperset(decision.forms):
            self.greeted_since = arrival.ordinal
        if self.proxied is not None and self.is_zmtp:
            id_ = "ZMTP-CONN-17" if self.proxied.is_header else "ZMTP-CONN-18"
            client = self.proxied.client
            first = self.streams[client].arrivals.at(0)._replace(ordinal=arrival.ordinal)
            self._note(client, Finding(id_, 0, self.proxied.sizes[client], None, self.proxied.text), first)
        begin: list[tuple[SideStream, SideReader | None, str]] = []
        for side, stream in self._sides_to_begin():
            if stream.mode is not Mode.NEGOTIATING:
                continue
            form = decision.forms[side]
            forced = form is Form.ALIEN and self.forced is not None
            lost = form is not Form.ALIEN and self.version is None and stream.negotiating.has_lost
            if forced or lost:
                stream.search_from_the_start(arrival.ordinal, self._framings())
                continue
            for finding in decision.findings[side] if self.is_zmtp else ():
                if finding.id != "ZMTP-CONN-03":
                    self._note(side, finding, arrival)
                elif ended[side]:  # otherwise it may continue
                    self._note_cut_greeting(side, finding, arrival)
            begin.append((stream, self._reader(stream, form), TOO_FEW if form is Form.WAIT else NOT_ZMTP))
        for stream, reader, reason in begin:
            stream.begin(reader, arrival.ordinal, decision.confidence, reason)

    def _agree(self, version: str | None) -> None:
        self.version = version
        for stream in self.streams:
            stream.agree(version)

    def _note_cut_greeting(self, side: int, finding: Finding, arrival: Arrival) -> None:
        """Report that the side ended within its greeting; `arrival` is the segment that shows this."""
        first = self.first_octets
        ended, other = self.tcp[side].fin or arrival, self.tcp[1 - side]
        if first is not None and other.seen and not self.streams[1 - side].end:
            waited = ended.time - first.time
            detail = "the other side sent nothing" + f" for {duration(waited)}" * (waited > SECOND)
            finding = finding._replace(detail=detail, hint=NOTHING_SENT_HINT)
        self._note(side, finding, ended._replace(ordinal=arrival.ordinal))

    def _note(self, side: int, finding: Finding, arrival: Arrival) -> None:
        self._notes.append(Note(side, finding, arrival, arrival.ordinal))

    def _sides_to_begin(self) -> list[tuple[int, SideStream]]:
        """Return both sides in the order in which they are parsed: the side that determined the version is last."""
        return sorted(enumerate(self.streams), key=lambda each: each[1].arrivals.ordinals[-1:])

    def _framings(self) -> tuple[Framing, ...]:
        """Return the possible framings of a side that starts with a hole."""
        versioned = any(announces_a_version(stream.prefix()) for stream in self.streams)
        return (Framing.V2,) if versioned else (Framing.V1, Framing.V2)

    def _reader(self, stream: SideStream, form: Form) -> SideReader | None:
        """Return the reader of a side from its first octet on, or None if the side is not parsed."""
        if not self.is_zmtp or form is Form.ALIEN:
            return None
        if form is Form.NOTHING or (form is Form.WAIT and stream.negotiating.has_lost):
            form = usual_form(self.version)
        if form in UPGRADE_FORMS:
            chosen = None if self.decision is None else self.decision.mechanism
            return ZwsReader(form, self.version, chosen, offset=stream.passed)
        return None if form is Form.WAIT else SideReader(form, self.version, offset=stream.passed)

    def _force(self, rule: DecodeAs, prefixes: list[bytes], arrival: Arrival) -> None:
        """Apply the version that the user has forced.

        If the start was captured, the side is parsed from its greeting on; otherwise frame boundaries are searched.
        """
        self.settled = True
        self._agree(rule.version)
        form = usual_form(self.version)
        framing = Framing.V1 if self.version == "1.0" else Framing.V2
        for side, stream in self._sides_to_begin():
            if stream.mode is not Mode.NEGOTIATING:
                continue
            if self.tcp[side].begun or (prefixes[side] and begins_like_a_signature(prefixes[side])):
                stream.begin(SideReader(form, self.version), arrival.ordinal, "likely")
            else:
                stream.search_from_the_start(arrival.ordinal, (framing,), rule)


def deliver(tcp_sides: tuple[TcpSide, TcpSide], block: BlockView, feed: Callable[[int, int | Hole], bool]) -> None:
    """Pass the segments and holes of both sides to `feed`, in order of delivery.

    `feed` takes a side, and a row or hole. If it returns True, the following segments and holes stay in the sides.
    """
    pieces, holes = [0, 0], [0, 0]
    for _, side, entry in in_order(tcp_sides, block):
        over = feed(side, entry)
        counts = holes if isinstance(entry, Hole) else pieces
        counts[side] += 1
        if over:
            break
    for side, tcp in enumerate(tcp_sides):
        del tcp.pieces[: pieces[side]], tcp.holes[: holes[side]]
        for hole in tcp.holes:
            hole.at -= pieces[side]


def in_order(tcp_sides: tuple[TcpSide, TcpSide], block: BlockView) -> Iterator[tuple[int, int, int | Hole]]:
    """Yield (ordinal, side, row or hole) of both sides in order of delivery."""
    both: list[tuple[int, int, int | Hole]] = []
    for side, tcp in enumerate(tcp_sides):
        for entry in entries(tcp.pieces, tcp.holes):
            if isinstance(entry, Hole):
                both.append((entry.ordinal, side, entry))
            else:
                both += [(block.ordinals[row], side, row) for row in entry]
    both.sort(key=_place)
    return iter(both)


def _place(entry: tuple[int, int, int | Hole]) -> tuple[int, int]:
    return entry[0], entry[1]


def _foreign(prefixes: Sequence[bytes]) -> tuple[int, str, str] | None:
    """Return (client side, finding id, answer) of a connection without ZMTP that may concern ZeroMQ; otherwise None."""
    opened = plain_websocket(prefixes)
    if opened is not None:
        client, status = opened
        return client, "ZMTP-CONN-22", status
    for client in (0, 1):
        answer = prefixes[1 - client]
        plain = HTTP_STATUS.match(answer)
        if CLIENT_HELLO.match(prefixes[client]) and (plain or answer.startswith(TLS_HANDSHAKE)):
            return client, "ZMTP-CONN-23", plain[0].decode("ascii") if plain else ""
    return None
