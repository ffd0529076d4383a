"""Parse and check the greetings, commands and frames of a side, one at a time.

Each of them can change how the next one is parsed (`Regime`).
"""

from __future__ import annotations

from zmtpscope.records import from_text
from zmtpscope.zmtp import content
from zmtpscope.zmtp.commands import COMMAND_HEAD, LARGEST_AWAITED_COMMAND, read_command, read_data, starts_padded
from zmtpscope.zmtp.content import MESSAGE_HEAD, MESSAGE_NAME, RULED, Kind
from zmtpscope.zmtp.events import ENCRYPTED, Command, Fields, Greeting, Skipped
from zmtpscope.zmtp.framing import (
    COMMAND,
    HABITUAL_FLAGS_1,
    LARGEST_SIZE,
    MORE,
    judge_header_1,
    read_header_1,
    read_header_2,
)
from zmtpscope.zmtp.greeting import GREETING_3_SIZE, READERS, SIGNATURE_SIZE
from zmtpscope.zmtp.handshake_state import HandshakeState
from zmtpscope.zmtp.mechanisms import MECHANISMS, curve
from zmtpscope.zmtp.prefix import DECIDING_SIZE, continues_as_greeting_3
from zmtpscope.zmtp.reader import Cut, Finding, Reader
from zmtpscope.zmtp.regime import Form, Phase, Regime, regime
from zmtpscope.zmtp.scanner import end_of_zeros
from zmtpscope.zmtp.socket_types import PEERS
from zmtpscope.zmtp.units import UnitReader

LOSING = frozenset({"ZMTP10-FRAME-04", "ZMTP3X-FRAME-04"})
"""Findings about a size that hides where the next frame starts."""

LENGTH_0 = "frame of length 0"
TOO_LARGE = "size above 2^63-1"


class CarefulReader(UnitReader):
    position: int
    """Stream offset of the next unit. It may lie after the octets received, because bodies that need no parsing are
    skipped."""
    wanted = 0
    """The next unit can be read once this stream offset has been received; 0 if unknown."""
    broken: int | None = None
    """Stream offset after a frame size above 2^63-1, if one was read: later frame boundaries are unknown."""
    opaque = False
    """Whether nothing more will be read: no version is in force, or the greeting is truncated."""
    gave_up_at: int | None = None
    """Stream offset after the header at which reading ended, if that was after the greeting."""
    unreliable_from: int | None = None
    """Stream offset of the first 1.0 frame of length 0; later boundaries are uncertain (wire.md 3.1)."""
    mechanism: str | None = None
    as_server: int | None = None

    inside = 0
    """Octets of WebSocket control frames inside the incomplete message at `position`."""
    _padding = 0
    _may_be_too_new = False
    """Whether a newer peer has sent its signature to a 1.0 peer, and its next octets are still missing."""
    _partial = b""
    _scanning = False
    _undecided = False

    def _enter(self, first: Regime, offset: int) -> None:
        super()._enter(first, offset)
        self.position = offset
        self.skipped: list[Skipped] = []
        self._nonces = curve.Nonces()

    # Greeting

    def _read_greeting(self, data: bytes, base: int) -> bool:
        form = self.regime.form
        at = self.position - base
        reader = Reader(data, at, len(data), base)
        fields: Fields = {}
        if form is Form.FRAMES_1 and data[at] not in (0, 0xFF) and data[at + 1 : at + 2] == b"\1":
            # most socket types of libzmq 3.1.0 send no identity frame (wire.md 9.3); an identity frame never has MORE,
            # and a frame of length 0 has no flags
            fields["version_announced"] = "1.0"
            reader.finding("ZMTP10-GREETING-02", reader.offset + 1, 1, detail="no identity frame")
        elif form is not None:
            try:
                READERS[form](reader, fields)
            except Cut:
                self._partial = data[at : at + 512]
                return False
        self._emit_greeting(reader, fields, complete=True)
        return True

    def _finish_greeting(self, stop: int) -> None:
        form = self.regime.form
        if form is None or not self._partial:
            return
        reader = Reader(self._partial, 0, len(self._partial), self.position)
        fields: Fields = {}
        try:
            READERS[form](reader, fields)
        except Cut:
            if self.regime.version is not None:
                reader.finding("ZMTP-CONN-03")
        reader.position = stop - self.position
        self._emit_greeting(reader, fields, complete=False)

    def _emit_greeting(self, reader: Reader, fields: Fields, complete: bool) -> None:
        start = self.position
        self.position = reader.offset
        loses = not LOSING.isdisjoint(finding.id for finding in reader.findings)
        complete, findings = complete and not loses, tuple(reader.findings)
        self.events.append(Greeting(start, self.position, self.regime, fields, findings, complete, reader.head))
        self.mechanism = fields.get("mechanism")
        self.as_server = fields.get("as_server")
        self.socket_type = fields.get("socket_type")
        self.identity = fields.get("identity")
        if loses:
            self.broken = self.position
        elif not complete or self.regime.version is None:
            self.opaque = True
        elif self.regime.form is Form.GREETING_3:
            self._padding = int.from_bytes(reader.data[start - reader.base + 1 : start - reader.base + 9], "big")
            known = self.mechanism in MECHANISMS
            self._handshake = HandshakeState(self.mechanism, done=not known)
            self._change(phase=Phase.HANDSHAKE if known else Phase.TRAFFIC)
        else:
            self._handshake = HandshakeState(None, done=True)
            self._may_be_too_new = self.regime.form is Form.PSEUDO_SIGNATURE and self.position - start == SIGNATURE_SIZE
            self._change(phase=Phase.TRAFFIC)

    def _pass_greeting_3(self, data: bytes, at: int) -> bool:
        """Decide how octets after a newer peer's signature continue, if the other side speaks 1.0.

        Either 1.0 frames follow, or the rest of a 3.x greeting, from a peer that did not wait for the other side's
        version. Nothing is parsed after such a greeting. `at`: index of the octet after the signature. Returns False if
        more octets are needed.
        """
        continues = continues_as_greeting_3(data[at : at + DECIDING_SIZE])
        if continues is None:
            return False
        self._may_be_too_new = False
        if continues:
            finding = Finding("ZMTP-CONN-07", self.position, GREETING_3_SIZE - SIGNATURE_SIZE)
            self._remark(self.position, self.position + DECIDING_SIZE, [finding])
            self.opaque, self.gave_up_at = True, self.position
        else:
            self._let_scan()
        return True

    # Frames

    def _read_unit(self, data: bytes, base: int) -> bool:
        """Parse the greeting, command or frame at `position`; return False if more octets are needed.

        The first octet of `data` has the stream offset `base`.
        """
        if self.regime.greets:
            return self._read_greeting(data, base)
        if self._may_be_too_new:
            return self._pass_greeting_3(data, self.position - base)
        now = self.regime
        reader = Reader(data, self.position - base, len(data), base)
        try:
            flags, size = read_header_1(reader) if now.is_old else read_header_2(reader, now.has_commands)
        except Cut:
            return False
        reader.body = reader.offset
        if size > LARGEST_SIZE - now.is_old:
            return self._break(reader)
        if size < 0:
            return self._pass_zeros(reader)
        return self._read_body(reader, flags, size)

    def _read_body(self, reader: Reader, flags: int, size: int) -> bool:
        """Parse a frame body of `size` octets, after its header. Returns False if more octets are needed."""
        now, data, body = self.regime, reader.data, reader.position
        stop = body + size
        head = data[body : body + MESSAGE_HEAD if size > MESSAGE_HEAD else stop]
        wanted = MESSAGE_HEAD if self._undecided else content.head_size(now)
        if len(head) < wanted and len(head) < size:
            return False
        if self._undecided and (not flags & COMMAND or head.startswith(MESSAGE_NAME)):
            self._decide_mechanism(size, head)
        kind = content.kind_of(self.regime, flags, size, head, self.message_open)
        if kind == "command":
            return self._read_command(reader, flags, size)
        awaited = kind == "group" or (kind == "subscription" and size <= content.LARGEST_AWAITED_TOPIC)
        if awaited and stop > len(data):
            self.wanted = reader.base + stop
            return False
        reader.stop = stop
        self._read_message(reader, flags, size, kind)
        return True

    def _read_message(self, reader: Reader, flags: int, size: int, kind: Kind) -> None:
        """Add a message frame to the columns.

        Most bodies are not parsed, so `reader.stop` may lie after the octets received.
        """
        if self.regime.is_old:
            habit_noted = flags in HABITUAL_FLAGS_1 and not self._tally.first_time("ZMTP10-FRAME-02")
            judge_header_1(reader, flags, size, reader.body - reader.unit, habit_noted)
        inside, self.message_open = self.message_open, bool(flags & MORE)
        if kind == "encrypted":
            mark = ENCRYPTED
            self._judge_encrypted(reader, flags)
        else:
            self._handshake.message(reader)
            mark = self._read_content(reader, flags, size, kind, inside)
        self.frames.append(reader.unit, reader.body, size, flags | mark)
        self.position = reader.body + size
        if reader.findings:
            self._remark(reader.unit, self.position, reader.findings, frame=True)
        if self.regime.shakes_hands:
            self._settle_phase()

    def _read_command(self, reader: Reader, flags: int, size: int) -> bool:
        whole = size <= LARGEST_AWAITED_COMMAND
        reader.stop = reader.position + (size if whole else COMMAND_HEAD)
        if reader.stop > len(reader.data):
            self.wanted = reader.base + reader.stop
            return False
        if not self._handshake.done and not self.regime.early and starts_padded(reader):
            self._change(early=True)
        if not flags & COMMAND:
            reader.finding("ZMTP3X-CMD-10", reader.unit, 1)
        if self.message_open:
            reader.finding("ZMTP3X-FRAME-07", reader.unit, 1)
        if not whole:
            reader.finding("ZMTP3X-FRAME-08", *reader.size_span)
            reader.head = reader.base + reader.stop
        fields: Fields = {"size": size}
        read_under = self.regime
        layout = read_command(reader, read_under, fields, whole)
        reader.stop = reader.body - reader.base + size
        if layout is not None:
            self._handshake.command(reader, layout)
            if whole:
                self._judge_command(reader, layout.name, fields)
        self.position = reader.body + size
        findings = tuple(reader.findings)
        self.events.append(Command(reader.unit, self.position, read_under, fields, findings, None, reader.head))
        self._settle_phase()
        if self._handshake.error:
            self._let_scan()
        return True

    def _judge_command(self, reader: Reader, name: str, fields: Fields) -> None:
        """Update role, socket type and subscriptions of the side by a command that occurs in a valid order."""
        self._judge_traffic(reader, name, fields)
        if "nonce" in fields:
            self._judge_nonce(reader, name, fields)
        elif "metadata" in fields and self.socket_type is None and self.identity is None:
            self._learn(reader, fields)

    def _learn(self, reader: Reader, fields: Fields) -> None:
        """Store the socket type and identity of the first READY or INITIATE, and check the padding of the signature."""
        self.socket_type = fields.get("socket_type")
        self.identity = fields.get("identity")
        if self.identity is None or not 1 <= self._padding <= 256:
            return
        if self._padding != (len(from_text(self.identity)) + 1 if self.identity else 1):
            reader.finding("ZMTP-GREETING-04", reader.unit, reader.base + reader.stop - reader.unit)

    def _judge_encrypted(self, reader: Reader, flags: int) -> None:
        if self.regime.mechanism == "CURVE":
            if not flags & COMMAND and self._tally.first_time("CURVE-10"):
                reader.finding("CURVE-10", reader.unit, 1)
            if flags & MORE:
                reader.finding("CURVE-18", reader.unit, 1)
        fields: Fields = {"name": "MESSAGE"}
        reader.position += len(MESSAGE_NAME)
        read_data(reader, self.regime, self._handshake.mechanism.commands["MESSAGE"], fields)
        self._judge_nonce(reader, "MESSAGE", fields)
        self._handshake.encrypted(reader)

    def _judge_nonce(self, reader: Reader, name: str, fields: Fields) -> None:
        """Check the CURVE nonce in a command. The check is skipped if the mechanism has no nonces or is unknown."""
        place = self._handshake.mechanism.nonce_at.get(name)
        if place is not None and "nonce" in fields:
            self._nonces.judge(reader, fields["nonce"], reader.body + place)

    def _decide_mechanism(self, size: int, head: bytes) -> None:
        """Guess from the first message frame whether a side encrypts, if its greeting was not captured (wire.md 9.5).

        `size` is that of the body in octets, `head` its first octets.
        """
        self._undecided = False
        if head.startswith(MESSAGE_NAME) and len(head) > 11:
            token = int.from_bytes(head[8:12], "big") == size - 12
            self.mechanism = "GSSAPI" if token else "CURVE"
            self._handshake = HandshakeState(self.mechanism, done=True)
            self._change()
        self._let_scan()

    # Octets outside units

    def _pass_zeros(self, reader: Reader) -> bool:
        """Skip a 1.0 frame length of 0: such a frame has no flags and no body (wire.md 3.1)."""
        if self.unreliable_from is None:
            self.unreliable_from = reader.unit
        self.position = reader.offset
        self._skip(reader.unit, self.position, LENGTH_0, single=self.position - reader.unit > 1)
        self._remark(reader.unit, reader.offset, reader.findings)
        if "ZMTP10-FRAME-01" in self._tally.repeats:
            self._pass_run_of_zeros(reader)
        return True

    def _pass_run_of_zeros(self, reader: Reader) -> None:
        """Skip a run of 1.0 frame lengths of 0 in one step: files that are not ZMTP contain long runs of zeros."""
        stop = end_of_zeros(reader.data, reader.position)
        if stop > reader.position:
            self.position = reader.base + stop
            self._skip(reader.offset, self.position, LENGTH_0, single=False)
            self._tally.repeat("ZMTP10-FRAME-01", stop - reader.position, self.position - 1)

    def _skip(self, start: int, stop: int, reason: str, *, single: bool = True, inside: int = 0) -> None:
        """Record that the octets `start..stop` were skipped, and why.

        `single`: they are one item; `inside` of them are WebSocket control frames. Adjacent runs of single octets
        become one entry.
        """
        last = self.skipped[-1] if self.skipped else None
        if last is not None and not (single or last.single or last.runs) and last.stop == start:
            self.skipped[-1] = last._replace(stop=stop)
        else:
            between_units = not (self.message_open or self.regime.greets or content.seals(self.regime))
            self.skipped.append(Skipped(start, stop, reason, single, inside, between_units))

    def _break(self, reader: Reader) -> bool:
        self._remark(reader.unit, reader.body, reader.findings)
        self._skip(self.position, reader.body, TOO_LARGE, inside=self.inside)
        self.position = self.broken = reader.body
        self.inside = 0
        return True

    # State

    def _begin_amid_traffic(self) -> None:
        """Start within the traffic, after a handshake that was not captured. The order of commands is not checked."""
        self._handshake = HandshakeState(self.mechanism, done=True)
        self.memberships.forgive()
        self._undecided = self.regime.has_commands and self.mechanism is None
        self._let_scan()

    def _settle_phase(self) -> None:
        """Change how the next octets are parsed, if the handshake has ended, or the role or socket type is now
        known."""
        now = self.regime
        done = self._handshake.done
        known = self.socket_type if self.socket_type in PEERS else None
        if done is now.shakes_hands or self._handshake.role != now.role or known != now.socket_type:
            self._change(phase=Phase.TRAFFIC if done else Phase.HANDSHAKE)

    def _change(self, *, phase: Phase | None = None, early: bool = False) -> None:
        now = self.regime
        phase = now.phase if phase is None else phase
        self.regime = regime(
            now.framing,
            now.version,
            self.mechanism,
            phase,
            None,
            self._handshake.role,
            self.socket_type if self.socket_type in PEERS else None,
            phase is Phase.HANDSHAKE and (early or now.early),
        )
        self.regimes.append((self.position, self.regime))
        self._let_scan()

    def _let_scan(self) -> None:
        now = self.regime
        scans = now.mechanism == "CURVE" or not content.seals(now)
        plain = scans and now.socket_type not in RULED
        is_settled = not (self._undecided or self._may_be_too_new or self._handshake.error)
        self._scanning = now.phase is Phase.TRAFFIC and plain and is_settled
