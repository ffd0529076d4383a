"""Build the field tree of one greeting, command or frame from its octets, on demand (P5, P6)."""

from __future__ import annotations

from zmtpscope.zmtp import content
from zmtpscope.zmtp.commands import read_command
from zmtpscope.zmtp.content import MESSAGE_HEAD
from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.framing import read_header_1, read_header_2
from zmtpscope.zmtp.greeting import READERS
from zmtpscope.zmtp.reader import Cut, FieldNode, Reader, Recorder
from zmtpscope.zmtp.regime import Framing, Phase, Regime
from zmtpscope.zmtp.zws import begins_with_control, read_control, read_header_zws


def read_header(reader: Reader, regime: Regime) -> tuple[int, int]:
    """Parse a frame header of any version; return (flags as in 3.x, body size in octets).

    Raises `Cut` if it is incomplete.
    """
    if regime.framing is Framing.ZWS:
        return read_header_zws(reader)
    return read_header_1(reader) if regime.is_old else read_header_2(reader, regime.has_commands)


def field_tree(regime: Regime, octets: bytes, offset: int, *, inside: bool = False) -> FieldNode:
    """Return the field tree of one greeting, command or frame, which starts at stream offset `offset`.

    The leaves cover `octets` exactly; if `octets` are truncated, so is the last field. `inside`: the frame continues a
    message, so it is not a subscription.
    """
    recorder = Recorder("zmtp.greeting" if regime.phase is Phase.GREETING else "zmtp.frame", offset)
    reader = Reader(octets, 0, len(octets), offset, recorder)
    try:
        if regime.phase is Phase.GREETING:
            if octets and regime.form in READERS:
                READERS[regime.form](reader, {})
        else:
            _read_frame(reader, regime, inside)
    except Cut:
        pass
    if reader.left > 0:
        reader.rest("zmtp.trailing")
    return recorder.finish()


def _read_frame(reader: Reader, regime: Regime, inside: bool) -> None:
    if regime.framing is Framing.ZWS and begins_with_control(reader):
        read_control(reader, {})
        return
    flags, size = read_header(reader, regime)
    if size <= 0:
        return
    reader.body = reader.offset
    whole = size <= reader.left
    reader.stop = reader.position + min(size, reader.left)
    head = reader.data[reader.position : min(reader.position + MESSAGE_HEAD, reader.stop)]
    kind = content.kind_of(regime, flags, size, head, inside)
    if kind == "encrypted" and regime.opened:
        _, kind = content.read_opened(reader, regime, inside)
    fields: Fields = {}
    if kind == "command":
        read_command(reader, regime, fields, whole)
    elif kind == "encrypted":
        content.read_sealed(reader, regime, fields)
    elif kind == "subscription":
        content.read_subscription(reader, regime, fields)
    elif kind == "group":
        content.read_group_frame(reader, regime, fields)
    else:
        reader.skip("zmtp1.body" if regime.is_old else "zmtp.body", reader.left)
