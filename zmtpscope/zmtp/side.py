"""One side of a connection: parses octets into message frames (columns) and events.

A scanner parses plain message frames, the careful reader everything else (decisions/core.md).
"""

from __future__ import annotations

import functools

from zmtpscope.zmtp.careful_reader import LENGTH_0, CarefulReader
from zmtpscope.zmtp.events import Runs, Skipped
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.greeting import GREETING_3_SIZE
from zmtpscope.zmtp.handshake_state import HandshakeState
from zmtpscope.zmtp.reader import Finding
from zmtpscope.zmtp.regime import SILENT_FORMS, UPGRADE_FORMS, Form, Framing, Phase, Regime, regime
from zmtpscope.zmtp.scanner import scan_1, scan_2, scan_curve
from zmtpscope.zmtp.socket_types import PEERS

_FRAMINGS = {
    **dict.fromkeys((Form.FRAMES_1, Form.PSEUDO_SIGNATURE, Form.VERSIONED_1), Framing.V1),
    **dict.fromkeys(UPGRADE_FORMS, Framing.ZWS),
}


@functools.lru_cache(maxsize=64)
def _first_regime(form: Form, version: str | None) -> Regime:
    return regime(_FRAMINGS.get(form, Framing.V2), version, None, Phase.GREETING, form)


class SideReader(CarefulReader):
    """Parses the octets of a side whose kind of greeting is known.

    Pass octets to `read`, and get frames and events from `drain`. Octets from `position` on are not consumed: pass them
    again with later ones, unless the side is `opaque` or `broken`.
    """

    moves: list[tuple[int, bytes]] | None = None
    """(stream offset, octets) to move within the stream before anything else uses it (`zmtpscope.zmtp.zws_side`)."""

    shared = 0
    """Octets of control frames inside messages, which are counted in both the events and the messages."""

    def __init__(self, form: Form, version: str | None, *, offset: int = 0) -> None:
        self._enter(_first_regime(form, version), offset)
        self._handshake = HandshakeState(None)
        self.opaque = form in SILENT_FORMS

    @classmethod
    def midstream(
        cls,
        framing: Framing,
        *,
        offset: int,
        version: str | None = None,
        mechanism: str | None = None,
        socket_type: str | None = None,
    ) -> SideReader:
        """Create a reader that starts after the handshake, at a frame boundary with this stream `offset`."""
        side = cls.__new__(cls)
        known = socket_type if socket_type in PEERS else None
        side._enter(regime(framing, version, mechanism, Phase.TRAFFIC, socket_type=known), offset)
        side.socket_type = socket_type
        side.mechanism = mechanism
        side._begin_amid_traffic()
        return side

    @property
    def greeting_end(self) -> int | None:
        """Stream offset after the greeting; None if its size is not fixed."""
        now = self.regime
        fixed = now.phase is Phase.GREETING and now.form is Form.GREETING_3
        return self.position + GREETING_3_SIZE if fixed else None

    @property
    def has_no_boxes(self) -> bool:
        """Whether the mechanism is known and is not CURVE, so that nothing can be decrypted."""
        if self.mechanism is None:
            return not (self._undecided or self.regime.greets)
        return self.mechanism != "CURVE"

    @property
    def handshake_done(self) -> bool:
        return self._handshake.done

    @property
    def error_seen(self) -> bool:
        return self._handshake.error

    @property
    def role(self) -> str | None:
        """ "client" or "server" of the security handshake, or None until a command shows it."""
        return self._handshake.role

    def read(self, data: bytes, base: int) -> None:
        """Parse all complete commands and frames in `data`.

        `data[0]` has the stream offset `base`, which is at most `position`.
        """
        length = len(data)
        self.wanted = 0
        while self.broken is None and not self.opaque and self.position - base < length:
            if self._scanning:
                self._scan(data, base)
                if self.position - base >= length:
                    return
            if not self._read_unit(data, base):
                return

    @property
    def is_plain(self) -> bool:
        """Whether the fast path can read on: all events are drained, and plain 2.0 or 3.x message frames follow."""
        now = self.regime
        return (
            self._scanning
            and now.framing is Framing.V2
            and now.mechanism != "CURVE"
            and self.unreliable_from is None
            and self.broken is None
            and not (self.opaque or self.events or self.memberships.size)
        )

    def resume(self, position: int, *, message_open: bool) -> None:
        """Continue at stream offset `position`, after message frames that the fast path has read.

        `message_open`: the last of these frames had MORE.
        """
        self._handshake.traffic = self._handshake.traffic or position > self.position
        self.position, self.message_open = position, message_open

    def drain_skipped(self) -> list[Skipped]:
        skipped, self.skipped = self.skipped, []
        return skipped

    def drain_moves(self) -> list[tuple[int, bytes]]:
        moves, self.moves = self.moves, []
        return moves or []

    def resynchronise(self, offset: int) -> None:
        """Continue at the frame boundary `offset` after lost octets. An incomplete message is discarded."""
        self.position = offset
        self.broken = None
        self.message_open = False
        self._handshake.forgive()
        self._nonces.forgive()
        self.memberships.forgive()
        if self.regime.greets:
            self._begin_amid_traffic()
            self._change(phase=Phase.TRAFFIC)

    def finish(self, stop: int) -> None:
        """Report an incomplete frame or message at the end of a stream, `stop`, if no octets are missing."""
        if self.opaque or self.broken is not None:
            return
        if self.regime.greets:
            self._finish_greeting(stop)
            return
        old = self.regime.is_old
        if self.position != stop:
            self._remark(min(self.position, stop), stop, [Finding("ZMTP10-FRAME-05" if old else "ZMTP3X-FRAME-05")])
        elif self.message_open:
            self._remark(stop, stop, [Finding("ZMTP10-FRAME-06" if old else "ZMTP3X-FRAME-06")])
        if self._handshake.never_ready and self.regime.mechanism == "NULL":
            self._remark(stop, stop, [Finding("NULL-06")])

    # Scanner

    def _scan(self, data: bytes, base: int) -> None:
        flags = self.frames.flags
        rows = len(flags)
        at = self.position - base
        if self.regime.mechanism == "CURVE":
            nonce = self._nonces.next
            if nonce is None or not self._tally.noted("CURVE-10") or self.message_open:
                return
            at, nonce = scan_curve(data, at, base, self.frames, nonce)
            self._nonces.passed(nonce - 1)
        elif not self.regime.is_old:
            at = scan_2(data, at, base, self.frames)
        else:
            zeros = Runs([], []) if "ZMTP10-FRAME-01" in self._tally.repeats else None
            habit = self._tally.noted("ZMTP10-FRAME-02")
            at = scan_1(data, at, base, self.frames, habit, zeros, MORE if self.message_open else 0)
            if zeros is not None and zeros.starts:
                self._skip_runs(zeros)
                self.position = base + at
        if len(flags) > rows:
            self.position = base + at
            self.message_open = bool(flags[-1] & MORE)
            self._handshake.traffic = True

    def _skip_runs(self, zeros: Runs) -> None:
        """Record 1.0 frame lengths of 0 between messages, with their stream offsets."""
        self._tally.repeat("ZMTP10-FRAME-01", sum(zeros.stops) - sum(zeros.starts), zeros.stops[-1] - 1)
        place = zeros.starts[0], zeros.stops[-1]
        self.skipped.append(Skipped(*place, LENGTH_0, single=False, between_units=True, runs=zeros))
