"""The hot path: runs of plain message frames into columns, header octets only.

A scanner consumes only frames it can prove plain: flags without reserved or COMMAND bits, the size form canonical, the
size within limits. At any other header it stops, and the careful reader decides. No call and no object per frame; where
the same frames come again and again, not even a step of the loop.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping
from itertools import repeat
from typing import NamedTuple

from zmtpscope import compiled
from zmtpscope.zmtp.content import MESSAGE_HEAD, MESSAGE_NAME
from zmtpscope.zmtp.events import ENCRYPTED, FrameColumns, Runs
from zmtpscope.zmtp.framing import LARGEST_SHORT, LARGEST_SIZE, LONG, MORE
from zmtpscope.zmtp.mechanisms.curve import LARGEST_NONCE, SMALLEST_MESSAGE
from zmtpscope.zmtp.websocket import CONTROL, LARGEST_CONTROL

FEWEST, MOST = 32, 4096
"""Frames that are taken at a time: more and more as long as there is nothing new about them."""

WHOLE_BINARY = 0x82
"""The first octet of a binary WebSocket message in one frame."""

_ZEROS = re.compile(rb"\0+")

LONGEST_PERIOD = 4
"""Frames that may take turns in a run of repetitions: topic and body, the envelope and body of a request."""


@compiled.where_possible
def scan_2(data: bytes, at: int, base: int, columns: FrameColumns) -> int:
    """Scan 2.0 and 3.x frames from `data[at]` on (wire.md 4.2, 6); `base` is the stream offset of `data[0]`.

    Gives the index of the first header not consumed, beyond the end of `data` where the last body is not all there.
    """
    number = int.from_bytes
    length = len(data)
    most = FEWEST
    while True:
        offsets: list[int] = []
        bodies: list[int] = []
        sizes: list[int] = []
        flags_of: list[int] = []
        try:
            for _ in repeat(None, most):
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
        if sizes:
            columns.extend(offsets, bodies, sizes, flags_of)
        if len(sizes) < most:
            return at
        rows = len(columns)
        at = _pass_repetitions(data, at, base, columns)
        most = FEWEST if len(columns) - rows > most else min(2 * most, MOST)


def is_part_of_header(data: bytes, at: int) -> bool:
    """Whether `scan_2` stopped at `data[at]` because the header that begins there is not all there: what there is of it
    is plain."""
    flags = data[at]
    return flags <= LONG | MORE and len(data) - at < (9 if flags & LONG else 2)


def scan_1(
    data: bytes, at: int, base: int, columns: FrameColumns, habit: bool, zeros: Runs | None = None, before: int = 0
) -> int:
    """Scan 1.0 frames (wire.md 3.1), as `scan_2`; `habit`: flags 7E and 7F have been noted already (D40).

    `zeros` gets the lengths of 0 that stand between messages; None: the scanner stops at them. `before` are the flags
    of the frame in front.
    """
    number = int.from_bytes
    plain = (0x00, 0x01, 0x7E, 0x7F) if habit else (0x00, 0x01)
    most = FEWEST
    while True:
        offsets: list[int] = []
        bodies: list[int] = []
        sizes: list[int] = []
        flags_of: list[int] = []
        runs = 0 if zeros is None else len(zeros.starts)
        try:
            for _ in repeat(None, most):
                size = data[at] - 1
                body = at + 2
                if size == 254:
                    body = at + 10
                    size = number(data[at + 1 : at + 9], "big") - 1
                    if not 253 < size < LARGEST_SIZE:
                        break
                elif size < 0:
                    if zeros is None or (flags_of[-1] if flags_of else before) & MORE:
                        break
                    stop = at + 1 if data[at + 1] else end_of_zeros(data, at)
                    zeros.starts.append(base + at)
                    zeros.stops.append(base + stop)
                    at = stop
                    continue
                flags = data[body - 1]
                if flags not in plain:
                    break
                offsets.append(base + at)
                bodies.append(base + body)
                sizes.append(size)
                flags_of.append(flags)
                at = body + size
        except IndexError:  # the end of `data`
            pass
        if sizes:
            columns.extend(offsets, bodies, sizes, flags_of)
            before = flags_of[-1]
        runs = 0 if zeros is None else len(zeros.starts) - runs
        if len(sizes) + runs < most:
            return at
        if runs:  # what repeats itself there has more than the headers of frames
            most = min(2 * most, MOST)
            continue
        rows = len(columns)
        at = _pass_repetitions(data, at, base, columns)
        most = FEWEST if len(columns) - rows > most else min(2 * most, MOST)


class OtherFrames(NamedTuple):
    """Whole WebSocket frames between messages that carry no ZMTP, and have no other fault.

    `findings`: which of them are passed over, by their first octet, and for what finding that is only counted.
    """

    findings: Mapping[int, str]
    places: Runs
    firsts: list[int]


def scan_zws(
    data: bytes, at: int, base: int, columns: FrameColumns, masks: bool, others: OtherFrames, before: int = 0
) -> int:
    """Scan WebSocket messages that are one plain frame of ZWS each (wire.md 12), as `scan_2`; the masks were taken off.

    `masks`: the sender is one that has to mask. `others` gets what is passed over. `before` are the flags of the frame
    in front.
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
    """The index behind the zeros that begin at `data[at]`."""
    run = _ZEROS.match(data, at)
    return at if run is None else run.end()


def _pass_repetitions(data: bytes, at: int, base: int, columns: FrameColumns) -> int:
    """Scan on while the last frames of `columns`, up to `LONGEST_PERIOD` of them, come again; gives the new `at`.

    Repetitions have the same header octets, one `stride` apart: each of these octets is compared for many of them at
    once. The windows double, so that a run that ends early costs little more than its own length.
    """
    period = _period(columns.sizes, columns.flags)
    if period is None:
        return at
    first = columns.offsets[-period]
    stride = base + at - first
    heads = [offset - first for offset in columns.offsets[-period:]]
    starts = [body - first for body in columns.bodies[-period:]]
    sizes, flags = columns.sizes[-period:], columns.flags[-period:]
    headers = [place for head, start in zip(heads, starts, strict=True) for place in range(head, start)]
    window = FEWEST
    while True:
        times = window
        for place in headers:
            here = at + place
            octets = data[here : here + times * stride : stride]
            times = len(octets) - len(octets.lstrip(data[here - stride : here - stride + 1]))
        stop = at + times * stride
        for column, places in ((columns.offsets, heads), (columns.bodies, starts)):
            rows = [0] * (times * period)
            for turn, place in enumerate(places):
                rows[turn::period] = range(base + at + place, base + stop + place, stride)
            column.fromlist(rows)
        columns.sizes.extend(sizes * times)
        columns.flags.extend(flags * times)
        at = stop
        if times < window:
            return at
        window = min(2 * window, MOST)


def _period(sizes: array[int], flags: array[int]) -> int | None:
    """After how many frames, as it seems, the same come again; None where they are not that regular."""
    for period in range(1, LONGEST_PERIOD + 1):
        before = slice(-2 * period, -period)
        if sizes[-1] == sizes[-1 - period] and sizes[-period:] == sizes[before] and flags[-period:] == flags[before]:
            return period
    return None


def scan_curve(data: bytes, at: int, base: int, columns: FrameColumns, nonce: int) -> tuple[int, int]:
    """Scan CURVE MESSAGEs in message frames (wire.md 8.3), as `scan_2`, while their nonces count up from `nonce`.

    Gives the nonce that should come next, too. Of each body name and nonce have to be there.
    """
    number = int.from_bytes
    head = number(MESSAGE_NAME + bytes(8), "big") + nonce  # name and nonce, as one number that counts up
    length = len(data)
    while True:
        offsets: list[int] = []
        bodies: list[int] = []
        sizes: list[int] = []
        flags_of: list[int] = []
        most = min(MOST, LARGEST_NONCE + 1 - nonce)
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
        if len(sizes) < MOST:
            return at, nonce
