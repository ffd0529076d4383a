"""The hot path: runs of plain message frames into columns, header octets only.

A scanner consumes only frames it can prove plain: flags without reserved or COMMAND bits, the size form canonical, the
size within limits. At any other header it stops, and the careful reader decides. No call and no object per frame.
"""

from __future__ import annotations

from zmtpscope.zmtp.content import MESSAGE_HEAD, MESSAGE_NAME
from zmtpscope.zmtp.events import ENCRYPTED, FrameColumns
from zmtpscope.zmtp.framing import LARGEST_SIZE, LONG
from zmtpscope.zmtp.mechanisms.curve import LARGEST_NONCE, SMALLEST_MESSAGE


def scan_2(data: bytes, at: int, base: int, columns: FrameColumns) -> int:
    """Scan 2.0 and 3.x frames from `data[at]` on (wire.md 4.2, 6); `base` is the stream offset of `data[0]`.

    Gives the index of the first header not consumed, beyond the end of `data` where the last body is not all there.
    """
    offset, body, size_of, flags_of = (
        columns.offsets.append,
        columns.bodies.append,
        columns.sizes.append,
        columns.flags.append,
    )
    number = int.from_bytes
    last = len(data) - 1
    while at < last:
        flags = data[at]
        if flags < 2:
            size = data[at + 1]
            start = at + 2
        elif flags < 4:
            start = at + 9
            if start > last + 1:
                break
            size = number(data[at + 1 : start], "big")
            if not 255 < size <= LARGEST_SIZE:
                break
        else:
            break
        offset(base + at)
        body(base + start)
        size_of(size)
        flags_of(flags)
        at = start + size
    return at


def scan_1(data: bytes, at: int, base: int, columns: FrameColumns, habit: bool) -> int:
    """Scan 1.0 frames (wire.md 3.1), as `scan_2`; `habit`: flags 7E and 7F have been noted already (D40)."""
    offset, body, size_of, flags_of = (
        columns.offsets.append,
        columns.bodies.append,
        columns.sizes.append,
        columns.flags.append,
    )
    number = int.from_bytes
    plain = (0x00, 0x01, 0x7E, 0x7F) if habit else (0x00, 0x01)
    last = len(data) - 1
    while at < last:
        length = data[at]
        start = at + 2
        if length == 255:
            start = at + 10
            if start > last + 1:
                break
            length = number(data[at + 1 : at + 9], "big")
            if not 254 < length <= LARGEST_SIZE:
                break
        elif length == 0:
            break
        flags = data[start - 1]
        if flags not in plain:
            break
        offset(base + at)
        body(base + start)
        size_of(length - 1)
        flags_of(flags)
        at = start + length - 1
    return at


def scan_curve(data: bytes, at: int, base: int, columns: FrameColumns, nonce: int) -> tuple[int, int]:
    """Scan CURVE MESSAGEs in message frames (wire.md 8.3), as `scan_2`, while their nonces count up from `nonce`.

    Gives the nonce that should come next, too. Of each body name and nonce have to be there.
    """
    offset, body, size_of, flags_of = (
        columns.offsets.append,
        columns.bodies.append,
        columns.sizes.append,
        columns.flags.append,
    )
    number = int.from_bytes
    last = len(data) - MESSAGE_HEAD - 2
    while at <= last:
        flags = data[at]
        if flags == 0:
            size = data[at + 1]
            start = at + 2
            if size < SMALLEST_MESSAGE:
                break
        elif flags == LONG:
            start = at + 9
            size = number(data[at + 1 : start], "big")
            if not 255 < size <= LARGEST_SIZE or start + MESSAGE_HEAD > len(data):
                break
        else:
            break
        if nonce > LARGEST_NONCE or data[start : start + MESSAGE_HEAD] != MESSAGE_NAME + nonce.to_bytes(8, "big"):
            break
        nonce += 1
        offset(base + at)
        body(base + start)
        size_of(size)
        flags_of(flags | ENCRYPTED)
        at = start + size
    return at, nonce
