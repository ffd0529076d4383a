"""Parse and build the frame headers of ZMTP 1.0 (wire.md 3.1) and of 2.0 and 3.x (wire.md 4.2, 6)."""

from __future__ import annotations

from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.regime import Framing

MORE, LONG, COMMAND = 0x01, 0x02, 0x04

LARGEST_SIZE = 2**63 - 1
LARGEST_SHORT = 255
"""Maximum body in octets after a short header."""

FLAG_BITS_1 = (("zmtp1.flags.more", MORE), ("zmtp1.flags.reserved", 0xFE))
FLAG_BITS_2 = (("zmtp.flags.more", MORE), ("zmtp.flags.long", LONG), ("zmtp.flags.reserved", 0xFC))
FLAG_BITS_3 = (
    ("zmtp.flags.more", MORE),
    ("zmtp.flags.long", LONG),
    ("zmtp.flags.command", COMMAND),
    ("zmtp.flags.reserved", 0xF8),
)

HABITUAL_FLAGS_1 = (0x7E, 0x7F)
"""Flags that libzmq 2.1.11 sets on every 1.0 frame, without and with MORE (D40)."""


def read_header_1(reader: Reader) -> tuple[int, int]:
    """Parse a 1.0 frame header; return (flags, body size in octets).

    The size is -1 for the invalid frame length 0, which has no flags. Raises `Cut` if the header is incomplete.
    """
    start = reader.offset
    if reader.starts_with(b"\xff"):
        reader.u8("zmtp1.length.escape")
        length = reader.u64("zmtp1.length")
        reader.size_span = (start + 1, 8)
    else:
        length = reader.u8("zmtp1.length")
        reader.size_span = (start, 1)
    if length == 0:
        reader.finding("ZMTP10-FRAME-01", *reader.size_span)
        return 0, -1
    if length > LARGEST_SIZE:
        reader.finding("ZMTP10-FRAME-04", *reader.size_span)
    flags = reader.u8("zmtp1.flags")
    reader.bits(FLAG_BITS_1)
    return flags, length - 1


def judge_header_1(reader: Reader, flags: int, size: int, header: int, habit_noted: bool) -> None:
    """Check a 1.0 frame header of `header` octets that starts at stream offset `reader.unit`.

    `habit_noted`: this side has sent flags 7E or 7F before, and the finding is not repeated.
    """
    if header == 10 and size < 254:
        reader.finding("ZMTP10-FRAME-03", reader.unit, 9)
    if flags in HABITUAL_FLAGS_1:
        if not habit_noted:
            reader.finding("ZMTP10-FRAME-02", reader.unit + header - 1, 1, "note")
    elif flags & ~MORE:
        reader.finding("ZMTP10-FRAME-02", reader.unit + header - 1, 1)


def read_header_2(reader: Reader, commands: bool) -> tuple[int, int]:
    """Parse a 2.0 or 3.x frame header; return (flags, body size in octets).

    `commands`: bit 2 of the flags is COMMAND, as in 3.x. Raises `Cut` if the header is incomplete.
    """
    start = reader.unit
    flags = reader.u8("zmtp.flags")
    reader.bits(FLAG_BITS_3 if commands else FLAG_BITS_2)
    if flags & LONG:
        size = reader.u64("zmtp.size")
        reader.size_span = (start + 1, 8)
    else:
        size = reader.u8("zmtp.size")
        reader.size_span = (start + 1, 1)
    if flags > (7 if commands else 3):
        reader.finding("ZMTP3X-FRAME-01" if commands else "ZMTP20-FRAME-01", start, 1)
    if commands and flags & (MORE | COMMAND) == MORE | COMMAND:
        reader.finding("ZMTP3X-FRAME-02", start, 1)
    if flags & LONG:
        if size < 256:
            reader.finding("ZMTP3X-FRAME-03" if commands else "ZMTP20-FRAME-02", start, 9)
        elif size > LARGEST_SIZE:
            reader.finding("ZMTP3X-FRAME-04", start + 1, 8)
    return flags, size


def build_frame(
    framing: Framing, body: bytes, *, more: bool = False, command: bool = False, long: bool = False
) -> bytes:
    """Build a frame around `body` with the flags `more` and `command`; `long` forces the long header.

    1.0 has no commands, so `command` is ignored there.
    """
    if framing is Framing.V1:
        length = len(body) + 1
        if length < 255 and not long:
            return bytes((length, more)) + body
        return b"\xff" + length.to_bytes(8, "big") + bytes((more,)) + body
    size = len(body)
    flags = MORE * more | COMMAND * command
    if size < 256 and not long:
        return bytes((flags, size)) + body
    return bytes((flags | LONG,)) + size.to_bytes(8, "big") + body
