"""Parses the decrypted CURVE boxes of one side (`source` 1 in records).

Decryption replaces each octet in place, so offsets, packets, times and frame boundaries are those of the encrypted
stream.
"""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.zmtp import content
from zmtpscope.zmtp.commands import LARGEST_AWAITED_COMMAND, read_command
from zmtpscope.zmtp.content import RULED
from zmtpscope.zmtp.details import read_header
from zmtpscope.zmtp.events import Command, Fields
from zmtpscope.zmtp.mechanisms import curve
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Framing, Phase, Regime, regime
from zmtpscope.zmtp.socket_types import PEERS
from zmtpscope.zmtp.units import UnitReader


class OpenedReader(UnitReader):
    """Reads the decrypted commands and messages of one side.

    Octets outside the boxes are checked by the reader of the encrypted stream.
    """

    def __init__(self, framing: Framing, version: str | None) -> None:
        self._enter(_traffic(framing, version, None), 0)
        self._plain = True

    def read_handshake(self, event: Command, octets: bytes) -> Command:
        """Return the handshake command `event` with the fields in its box; `octets` is the decrypted frame."""
        now = event.regime
        shaking = Phase.HANDSHAKE
        opened = regime(now.framing, now.version, now.mechanism, shaking, None, now.role, None, now.early, True)
        reader = Reader(octets, 0, len(octets), event.start)
        _, size = read_header(reader, opened)
        reader.body = reader.offset
        fields: Fields = {"size": size}
        read_command(reader, opened, fields)
        if "metadata" in fields and self.socket_type is None and self.identity is None:
            self._learn(fields, event.stop)
        findings = (*event.findings, *[finding for finding in reader.findings if finding not in event.findings])
        return event._replace(regime=opened, fields=fields, findings=findings)

    def _learn(self, fields: Fields, offset: int) -> None:
        self.socket_type = fields.get("socket_type")
        self.identity = fields.get("identity")
        self.regime = _traffic(self.regime.framing, self.regime.version, self.socket_type)
        self.regimes.append((offset, self.regime))
        self._plain = self.regime.socket_type not in RULED

    def read_messages(self, data: bytes | bytearray, base: int, rows: Iterable[tuple[int, int, int]]) -> None:
        """Parse decrypted MESSAGEs.

        `rows` are the (offset, body offset, body size) of their frames; `data[0]` has the stream offset `base`.
        """
        frames, head = self.frames, curve.CONTENT_OF_MESSAGE
        for offset, body, size in rows:
            flags = data[body + head - base]
            if flags <= curve.MORE and self._plain:
                frames.append(offset, body + head + 1, size - head - 1, flags)
                self.message_open = flags == curve.MORE
            else:
                self._read_with_care(data[offset - base : body + size - base], offset, body - offset)

    def lose(self) -> None:
        """Discard an incomplete message, since octets were lost or a box could not be decrypted."""
        self.message_open = False
        self.memberships.forgive()

    def _read_with_care(self, octets: bytes | bytearray, offset: int, header: int) -> None:
        reader = Reader(bytes(octets), header, len(octets), offset)
        reader.unit = offset
        flags, kind = content.read_opened(reader, self.regime, self.message_open)
        if kind == "command":
            if flags & curve.MORE:
                reader.finding("ZMTP3X-FRAME-02", reader.body - 1, 1)
            self._read_command(reader)
            return
        body, size = reader.body, reader.left
        inside, self.message_open = self.message_open, bool(flags & curve.MORE)
        mark = self._read_content(reader, flags, size, kind, inside)
        self.frames.append(offset, body, size, flags | mark)
        if reader.findings:
            self._remark(offset, offset + len(octets), reader.findings, frame=True)

    def _read_command(self, reader: Reader) -> None:
        if self._tally.first_time("CURVE-11"):
            reader.finding("CURVE-11", reader.body - 1, 1)
        if self.message_open:
            reader.finding("ZMTP3X-FRAME-07", reader.unit, 1)
        stop = reader.base + reader.stop
        fields: Fields = {"size": reader.left}
        layout = read_command(reader, self.regime, fields, whole=reader.left <= LARGEST_AWAITED_COMMAND)
        if layout is not None and layout.phase is Phase.HANDSHAKE:
            reader.finding("ZMTP3X-CMD-07", *reader.name_span)
        elif layout is not None and layout.name == "MESSAGE":
            reader.finding("ZMTP3X-CMD-11", *reader.name_span)
        elif layout is not None:
            self._judge_traffic(reader, layout.name, fields)
        self.events.append(Command(reader.unit, stop, self.regime, fields, tuple(reader.findings)))


def _traffic(framing: Framing, version: str | None, socket_type: str | None) -> Regime:
    known = socket_type if socket_type in PEERS else None
    return regime(framing, version, "CURVE", Phase.TRAFFIC, socket_type=known, opened=True)
