"""Scan plain message frames into columns: the inner loop, which reads only frame headers.

A plain frame has no reserved bits, no COMMAND, and a size within limits in its shortest form. At any other header the
scanner stops, and `CarefulReader` continues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import repeat
from typing import NamedTuple

from zmtpscope import compiled
from zmtpscope.zmtp.content import MESSAGE_HEAD, MESSAGE_NAME
from zmtpscope.zmtp.events import ENCRYPTED, FrameColumns, Runs
from zmtpscope.zmtp.framing import LARGEST_SHORT, LARGEST_SIZE, LONG, MORE
from zmtpscope.zmtp.mechanisms.curve import LARGEST_NONCE, SMALLEST_MESSAGE
from zmtpscope.zmtp.websocket import CONTROL, LARGEST_CONTROL

MAX_BATCH = 4096

WHOLE_BINARY = 0x82
"""First octet of an unfragmented binary WebSocket message."""

_ZEROS = re.compile(rb"\0+")


@compiled.where_possible
def scan_2(data: bytes, at: int, base: int, columns: FrameColumns) -> int:
    """Append the 2.0 or 3.x frames from index `at` on to `columns` (wire.md 4.2, 6).

    `data[0]` has the stream offset `base`. Returns the index of the first header that was not consumed; it lies after
    the end of `data` if the last body is incomplete.
    """
    number = int.from_bytes
    length = len(data)
    offsets, bodies, sizes, flags_of = columns.offsets, columns.bodies, columns.sizes, columns.flags
    try:
        while True:
            flags = data[at]
            if flags < 2:
                size = data[at + 1]
                body = at + 2
            elif flags < 4:
                body = at + 9
                if body > length:
                    break
                size = number(data[at + 1 : body], "big")
                if not LARGEST_SHORT < size <= LARGEST_SIZE:
                    break
            else:
                break
            offsets.append(base + at)
            bodies.append(base + body)
            sizes.append(size)
            flags_of.append(flags)
            at = body + size
    except IndexError:  # the end of `data`
        pass
    return at


def is_part_of_header(data: bytes, at: int) -> bool:
    """Whether index `at`, where `scan_2` stopped, is the start of an incomplete header with no invalid bits so far."""
    flags = data[at]
    return flags <= LONG | MORE and len(data) - at < (9 if flags & LONG else 2)


def scan_1(
    data: bytes, at: int, base: int, columns: FrameColumns, habit: bool, zeros: Runs | None = None, before: int = 0
) -> int:
    """Append the 1.0 frames from index `at` on to `columns` (wire.md 3.1).

    `data[0]` has the stream offset `base`. Returns the index of the first header that was not consumed.

    - `habit`: flags 7E and 7F have been reported already (D40)
    - `zeros`: receives the frame lengths of 0 between messages; if None, the scanner stops at them
    - `before`: flags of the previous frame
    """
    number = int.from_bytes
    plain = (0x00, 0x01, 0x7E, 0x7F) if habit else (0x00, 0x01)
    offsets, bodies, sizes, flags_of = columns.offsets, columns.bodies, columns.sizes, columns.flags
    try:
        while True:
            size = data[at] - 1
            body = at + 2
            if size == 254:
                body = at + 10
                size = number(data[at + 1 : at + 9], "big") - 1
                if not 253 < size < LARGEST_SIZE:
                    break
            elif size < 0:
                if zeros is None or before & MORE:
                    break
                stop = at + 1 if data[at + 1] else end_of_zeros(data, at)
                zeros.starts.append(base + at)
                zeros.stops.append(base + stop)
                at = stop
                continue
            flags = data[body - 1]
            if flags not in plain:
                break
            before = flags
            offsets.append(base + at)
            bodies.append(base + body)
            sizes.append(size)
            flags_of.append(flags)
            at = body + size
    except IndexError:  # the end of `data`
        pass
    return at


class OtherFrames(NamedTuple):
    """WebSocket frames without ZMTP between messages, which a scan may skip.

    `findings` are the finding ids of the permitted frames, by first octet. `places` and `firsts` receive the stream
    offsets and first octets of the skipped frames.
    """

    findings: Mapping[int, str]
    places: Runs
    firsts: list[int]


def scan_zws(
    data: bytes, at: int, base: int, columns: FrameColumns, masks: bool, others: OtherFrames, before: int = 0
) -> int:
    """Append ZWS messages (wire.md 12) from index `at` on to `columns`, if each is a single WebSocket frame.

    `data` are without masks; `data[0]` has the stream offset `base`. Returns the index of the first header that was not
    consumed. `masks`: the sender must mask. `others` receives frames without ZMTP. `before`: flags of the previous
    frame.
    """
    number = int.from_bytes
    high, key = (0x80, 4) if masks else (0, 0)
    offsets: list[int] = []
    bodies: list[int] = []
    sizes: list[int] = []
    flags_of: list[int] = []
    try:
        while True:
            first = data[at]
            size = data[at + 1] - high
            body = at + 3 + key
            if size == 126:
                body += 2
                size = number(data[at + 2 : at + 4], "big")
                if size < 126:
                    break
            elif size == 127:
                body += 8
                size = number(data[at + 2 : at + 10], "big")
                if not 0xFFFF < size <= LARGEST_SIZE:
                    break
            elif not 0 <= size < 126:
                break
            if first != WHOLE_BINARY or size == 0:
                stop = body - 1 + size
                if first not in others.findings or stop > len(data) or (size > LARGEST_CONTROL and first & CONTROL):
                    break
                if (flags_of[-1] if flags_of else before) & MORE:
                    break
                others.places.starts.append(base + at)
                others.places.stops.append(base + stop)
                others.firsts.append(first)
                at = stop
                continue
            flags = data[body - 1]
            if flags > 1:
                break
            offsets.append(base + at)
            bodies.append(base + body)
            sizes.append(size - 1)
            flags_of.append(flags)
            at = body + size - 1
    except IndexError:  # the end of `data`
        pass
    columns.extend(offsets, bodies, sizes, flags_of)
    return at


def end_of_zeros(data: bytes, at: int) -> int:
    run = _ZEROS.match(data, at)
    return at if run is None else run.end()


def scan_curve(data: bytes, at: int, base: int, columns: FrameColumns, nonce: int) -> tuple[int, int]:
    """Append the CURVE MESSAGEs in message frames from index `at` on to `columns` (wire.md 8.3).

    `data[0]` has the stream offset `base`. The scan ends where a nonce is not the last one plus one; `nonce` is the
    first one expected. Returns (index of the first header that was not consumed, next expected nonce). Name and nonce
    of each body must be available.
    """
    number = int.from_bytes
    head = number(MESSAGE_NAME + bytes(8), "big") + nonce  # name and nonce as one number, incremented for each frame
    length = len(data)
    while True:
        offsets: list[int] = []
        bodies: list[int] = []
        sizes: list[int] = []
        flags_of: list[int] = []
        most = min(MAX_BATCH, LARGEST_NONCE + 1 - nonce)
        try:
            for _ in repeat(None, most):
                flags = data[at]
                if flags == 0:
                    size = data[at + 1]
                    body = at + 2
                    if size < SMALLEST_MESSAGE:
                        break
                elif flags == LONG:
                    body = at + 9
                    size = number(data[at + 1 : body], "big")
                    if not LARGEST_SHORT < size <= LARGEST_SIZE:
                        break
                else:
                    break
                if body + MESSAGE_HEAD > length or number(data[body : body + MESSAGE_HEAD], "big") != head:
                    break
                head += 1
                offsets.append(base + at)
                bodies.append(base + body)
                sizes.append(size)
                flags_of.append(flags | ENCRYPTED)
                at = body + size
        except IndexError:  # the end of `data`
            pass
        columns.extend(offsets, bodies, sizes, flags_of)
        nonce += len(sizes)
        if len(sizes) < MAX_BATCH:
            return at, nonce
