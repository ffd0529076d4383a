"""One side of a ZWS connection (wire.md 12): each WebSocket message contains one ZMTP frame.

The input is without masks (`websocket.Unmasking`). A message may consist of several WebSocket frames, with control
frames between them. Once complete, it is rearranged in place: all headers first, then all payloads, so that its body is
contiguous. Records name this stream `source` 1.
"""

from __future__ import annotations

from zmtpscope.zmtp import content
from zmtpscope.zmtp.content import Kind
from zmtpscope.zmtp.events import Command, Fields, Greeting, Runs, Skipped
from zmtpscope.zmtp.framing import LARGEST_SIZE, MORE
from zmtpscope.zmtp.greeting import LARGEST_AWAITED_IDENTITY
from zmtpscope.zmtp.handshake_state import HandshakeState
from zmtpscope.zmtp.mechanisms import MECHANISMS
from zmtpscope.zmtp.reader import Cut, Finding, Reader
from zmtpscope.zmtp.regime import Form, Framing, Phase, regime
from zmtpscope.zmtp.scanner import OtherFrames, scan_zws
from zmtpscope.zmtp.side import SideReader
from zmtpscope.zmtp.upgrade import LARGEST_HEAD
from zmtpscope.zmtp.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    LARGEST_CONTROL,
    PING,
    PONG,
    TEXT,
    FrameHeader,
    read_frame_header,
)
from zmtpscope.zmtp.zws import CONTROL_NAMES, read_control, read_flags, read_identity

NOT_ZMTP = "WebSocket frame that carries no ZMTP"
WITHOUT_ZMTP = {
    0x81: "ZWS-04",
    0x82: "ZWS-01",
    **dict.fromkeys((0x80, 0x83, 0x84, 0x85, 0x86, 0x87, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F), "ZWS-06"),
}
"""Findings on messages that are not ZWS, by their first octet; 82 starts an empty message, and 80 continues a message
that was never started."""

NEVER_WHOLE = "WebSocket message that is never whole"

LARGEST_IN_FRAGMENTS = 1 << 20
"""Maximum octets of a fragmented message, headers included; a larger one is skipped."""


class ZwsReader(SideReader):
    """Parses the octets of one side of a ZWS connection.

    `form` is the HTTP request or response that it starts with. `chosen` is the agreed mechanism or None. If `version`
    is None, nothing after the HTTP head is parsed.
    """

    moves: list[tuple[int, bytes]]

    _next: int | None = None
    """Stream offset of the next WebSocket frame, while the message at `position` is incomplete."""
    _passing = False
    """Whether the current message is not ZWS, so that its remaining frames are skipped."""

    def __init__(self, form: Form, version: str | None, chosen: str | None, *, offset: int = 0) -> None:
        super().__init__(form, version, offset=offset)
        self.moves = []
        self._chosen = chosen
        self._masks = form is Form.ZWS_REQUEST

    # The HTTP head, and the identity

    def _read_greeting(self, data: bytes, base: int) -> bool:
        if super()._read_greeting(data, base):
            return True
        if base + len(data) - self.position >= LARGEST_HEAD:
            self.opaque = True
        return False

    def _emit_greeting(self, reader: Reader, fields: Fields, complete: bool) -> None:
        start, self.position = self.position, reader.offset
        self.events.append(Greeting(start, self.position, self.regime, fields, tuple(reader.findings), complete))
        self._partial = b""
        if self.regime.form is Form.ZWS_IDENTITY:
            self.identity = fields.get("identity")
            self._handshake = HandshakeState(None, done=True)
            self._change(phase=Phase.TRAFFIC)
            return
        self.mechanism = self._chosen
        if self.regime.version is None or not complete:
            self.opaque = True
        elif self._chosen is None:
            self.regime = regime(Framing.ZWS, self.regime.version, None, Phase.GREETING, Form.ZWS_IDENTITY)
            self.regimes.append((self.position, self.regime))
        else:
            known = self._chosen in MECHANISMS
            self._handshake = HandshakeState(self._chosen, done=not known)
            self._change(phase=Phase.HANDSHAKE if known else Phase.TRAFFIC)

    def _finish_greeting(self, stop: int) -> None:
        if self.regime.form is not Form.ZWS_IDENTITY:
            super()._finish_greeting(stop)
        elif self.position != stop:
            self._remark(min(self.position, stop), stop, [Finding("ZMTP3X-FRAME-05")])

    def _read_identity(self, reader: Reader, stop: int) -> bool:
        if stop - reader.position > LARGEST_AWAITED_IDENTITY:
            return self._give_up(reader, "ZWS-08", "it is too large for one")
        if stop > len(reader.data):
            return False
        unit = Reader(reader.data, self.position - reader.base, stop, reader.base)
        fields: Fields = {}
        read_identity(unit, fields)
        unit.findings[:0] = reader.findings
        self._emit_greeting(unit, fields, complete=True)
        return True

    # WebSocket frames

    def _scan(self, data: bytes, base: int) -> None:
        flags = self.frames.flags
        rows = len(flags)
        if self._next is None and not self._passing and not content.seals(self.regime):
            findings = {first: id_ for first, id_ in WITHOUT_ZMTP.items() if id_ in self._tally.repeats}
            others = OtherFrames(findings, Runs([], []), [])
            before = MORE if self.message_open else 0
            at = scan_zws(data, self.position - base, base, self.frames, self._masks, others, before)
            self.position = base + at
            if others.firsts:
                self._skip_others(others)
            if len(flags) > rows:
                self.message_open = bool(flags[-1] & MORE)
                self._handshake.traffic = True

    def _skip_others(self, others: OtherFrames) -> None:
        starts, stops = others.places
        for id_ in {others.findings[first] for first in others.firsts}:
            places = [
                start for first, start in zip(others.firsts, starts, strict=True) if others.findings[first] == id_
            ]
            self._tally.repeat(id_, len(places), places[-1])
        self.skipped.append(Skipped(starts[0], stops[-1], NOT_ZMTP, between_units=True, runs=others.places))

    def _read_unit(self, data: bytes, base: int) -> bool:
        if self.regime.greets and self.regime.form is not Form.ZWS_IDENTITY:
            return self._read_greeting(data, base)
        at = (self.position if self._next is None else self._next) - base
        reader = Reader(data, at, len(data), base)
        try:
            header = read_frame_header(reader)
        except Cut:
            return False
        if header.opcode in (TEXT, BINARY) and (self._next is not None or self._passing):
            return self._break_off(reader)
        self._judge_header(reader, header)
        stop = reader.position + header.size
        if header.size > LARGEST_SIZE:
            reader.body = reader.offset
            return self._break(reader)
        if header.is_control:
            return self._read_control(reader, header, stop)
        return self._read_data(reader, header, stop)

    def _break_off(self, reader: Reader) -> bool:
        """Skip a message that stays incomplete, since another one starts before its last frame."""
        detail = "a message begins inside another message"
        self._remark(
            reader.unit,
            reader.offset,
            [Finding("ZWS-06", reader.unit, reader.offset - reader.unit, None, detail)],
        )
        if reader.unit > self.position:
            self._skip(self.position, reader.unit, NEVER_WHOLE, inside=self.inside)
        self.position, self._next, self._passing, self.inside = reader.unit, None, False, 0
        return True

    def _judge_header(self, reader: Reader, header: FrameHeader) -> None:
        wrong = []
        if header.opcode not in (CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG):
            wrong.append(f"opcode {header.opcode} is reserved")
        if header.masked is not self._masks:
            wrong.append("a server masks" if header.masked else "a client does not mask")
        if not header.shortest or header.size > LARGEST_SIZE:
            wrong.append("the size is not in its shortest form")
        if header.is_control and (not header.final or header.size > LARGEST_CONTROL):
            wrong.append("a control frame is too large" if header.final else "a control frame is fragmented")
        if header.reserved and header.is_control:
            wrong.append("a control frame has a reserved bit")
        if self._next is None and header.opcode == CONTINUATION and not self._passing:
            wrong.append("a continuation without a message to continue")
        for detail in wrong:
            reader.finding("ZWS-06", reader.unit, reader.offset - reader.unit, None, detail)

    def _read_control(self, reader: Reader, header: FrameHeader, stop: int) -> bool:
        """Parse the control frame before index `stop`, or skip an invalid one. Returns whether it was complete."""
        if header.opcode not in CONTROL_NAMES or header.size > LARGEST_CONTROL:
            return self._pass(reader, stop)
        if stop > len(reader.data):
            return False
        start = reader.unit - reader.base
        unit = Reader(reader.data, start, stop, reader.base)
        fields: Fields = {}
        read_control(unit, fields)
        findings = (*reader.findings, *unit.findings)
        octets = reader.data[start:stop]
        self.events.append(Command(reader.unit, reader.base + stop, self.regime, fields, findings, octets))
        self.inside += 0 if self._next is None else len(octets)
        self._continue_at(reader.base + stop)
        return True

    def _read_data(self, reader: Reader, header: FrameHeader, stop: int) -> bool:
        begins = header.opcode != CONTINUATION
        if header.reserved:
            return self._give_up(reader, "ZWS-05")
        if begins:
            self._passing = header.opcode != BINARY
        if header.opcode == TEXT:
            reader.finding("ZWS-04", reader.unit, reader.offset - reader.unit)
        if self._passing or (self._next is None and not begins):
            self._passing = self._passing and not header.final
            return self._pass(reader, stop)
        if self._next is None and header.final:
            return self._read_message_of(reader, header.size, stop)
        if reader.base + stop - self.position > LARGEST_IN_FRAGMENTS:
            return self._give_up(reader, "ZWS-07")
        if stop > len(reader.data):
            return False
        if not header.final:
            if reader.findings:
                self._remark(reader.unit, reader.offset, reader.findings)
            self._next = reader.base + stop
            return True
        return self._put_together(reader, stop)

    def _read_message_of(self, reader: Reader, size: int, stop: int) -> bool:
        """Parse a message of one WebSocket frame, with a payload of `size` octets up to index `stop`."""
        if size == 0:
            reader.finding("ZWS-01", self.position, reader.offset - self.position)
            return self._pass(reader, stop)
        if self.regime.greets:
            return self._read_identity(reader, stop)
        try:
            flags = read_flags(reader)
        except Cut:
            return False
        reader.body = reader.offset
        return self._read_body(reader, flags, size - 1)

    def _put_together(self, reader: Reader, stop: int) -> bool:
        """Rearrange a message of several WebSocket frames, headers first, and parse it.

        Its last octet is before `stop`.
        """
        heads, bodies = [], []
        walk = Reader(reader.data, self.position - reader.base, stop, reader.base)
        while walk.position < stop:
            start = walk.position
            header = read_frame_header(walk)
            payload = walk.octets("", header.size)
            heads.append(walk.data[start : walk.position - (0 if header.is_control else header.size)])
            if not header.is_control:
                bodies.append(payload)
        head, body = b"".join(heads), b"".join(bodies)
        moved = Reader(head + body, len(head), len(head) + len(body), self.position)
        moved.unit, moved.size_span, moved.findings = self.position, reader.size_span, reader.findings
        self._next = None
        if body:
            self.moves.append((self.position, moved.data))
        is_read = self._read_message_of(moved, len(body), len(moved.data))
        if not self.opaque:
            self.shared, self.inside = self.shared + self.inside, 0
        return is_read

    def _read_message(self, reader: Reader, flags: int, size: int, kind: Kind) -> None:
        super()._read_message(reader, flags, size, kind)
        on_the_wire = reader.data[reader.body - reader.base - 1]
        self.frames.flags[-1] = self.frames.flags[-1] & ~0xFF | on_the_wire

    # Skipped frames

    def _continue_at(self, offset: int) -> None:
        if self._next is None:
            self.position = offset
        else:
            self._next = offset

    def _pass(self, reader: Reader, stop: int) -> bool:
        """Skip a WebSocket frame that contains no ZMTP."""
        if reader.findings:
            self._remark(reader.unit, reader.offset, reader.findings)
        if self._next is None:
            self._skip(self.position, reader.base + stop, NOT_ZMTP, inside=self.inside)
            self.inside = 0
        self._continue_at(reader.base + stop)
        return True

    def _give_up(self, reader: Reader, id_: str, detail: str | None = None) -> bool:
        reader.finding(id_, reader.unit, reader.offset - reader.unit, None, detail)
        self._remark(reader.unit, reader.offset, reader.findings)
        self.opaque, self.gave_up_at = True, reader.offset
        return True
