"""The contents of WebSocket messages in ZWS 2.0 (wire.md 12): each message is one ZMTP frame."""

from __future__ import annotations

from zmtpscope.zmtp.events import Fields
from zmtpscope.zmtp.framing import COMMAND, MORE
from zmtpscope.zmtp.reader import Cut, Reader
from zmtpscope.zmtp.socket_types import LARGEST_IDENTITY
from zmtpscope.zmtp.websocket import (
    CLOSE,
    OPCODE,
    PING,
    PONG,
    read_frame_header,
)

ZWS_MORE, ZWS_COMMAND = 0x01, 0x02
FLAG_BITS = (("zws.flags.more", ZWS_MORE), ("zws.flags.command", ZWS_COMMAND), ("zws.flags.reserved", 0xFC))

CONTROL_NAMES = {CLOSE: "WS-CLOSE", PING: "WS-PING", PONG: "WS-PONG"}
"""Names of the commands as which control frames are reported."""


def read_header_zws(reader: Reader) -> tuple[int, int]:
    """Parse the WebSocket headers of a message, and its ZWS flags octet.

    Returns (ZMTP flags, body size in octets). Raises `Cut`.
    """
    size = 0
    while True:
        header = read_frame_header(reader)
        if header.is_control:
            reader.octets("websocket.control", header.size)
            continue
        size += header.size
        if header.final:
            return read_flags(reader), size - 1


def read_flags(reader: Reader) -> int:
    """Parse the flags octet of ZWS; return the equal ZMTP flags. In ZWS bit 1 is COMMAND (D38)."""
    flags = reader.u8("zws.flags")
    reader.bits(FLAG_BITS)
    if flags > ZWS_COMMAND:
        reader.finding("ZWS-02", reader.offset - 1, 1)
    return MORE * (flags & ZWS_MORE) | (COMMAND if flags & ZWS_COMMAND else 0)


def read_identity(reader: Reader, fields: Fields) -> None:
    """Parse the identity, the first message of a side without a mechanism."""
    flags, size = read_header_zws(reader)
    if flags or size > LARGEST_IDENTITY:
        reader.finding("ZWS-08", reader.offset - 1, 1 + size)
    fields["identity"] = reader.text("zws.identity", size)


def begins_with_control(reader: Reader) -> bool:
    return reader.left > 0 and reader.data[reader.position] & OPCODE in CONTROL_NAMES


def read_control(reader: Reader, fields: Fields) -> None:
    """Parse a WebSocket ping, pong or close (with code and reason)."""
    header = read_frame_header(reader)
    fields["size"] = header.size
    fields["name"] = CONTROL_NAMES[header.opcode]
    if header.opcode != CLOSE:
        fields["context"] = reader.octets("websocket.context", header.size)
    elif header.size:
        try:
            fields["close_code"] = reader.u16("websocket.close.code")
        except Cut:
            reader.finding("ZWS-06", reader.unit, reader.offset - reader.unit, None, "half of a close code")
            return
        fields["reason"] = reader.text("websocket.close.reason", header.size - 2)
