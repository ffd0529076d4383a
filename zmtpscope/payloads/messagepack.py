"""MessagePack (https://github.com/msgpack/msgpack/blob/master/spec.md): maps and arrays."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from math import isfinite
from struct import Struct
from typing import NamedTuple

import msgspec
import orjson

from zmtpscope.payloads.api import Json, Malformed, Reader
from zmtpscope.payloads.headed import (
    ARRAY,
    EXTENSION,
    MAP,
    MAX_STEPS,
    MIN_WEIGHT,
    OCTETS,
    TEXT,
    VALUE,
    Head,
    Headed,
)
from zmtpscope.payloads.limits import DEEPEST

_FIXED = {
    0xC0: (VALUE, None),
    0xC2: (VALUE, False),
    0xC3: (VALUE, True),
    0xD4: (EXTENSION, 2),
    0xD5: (EXTENSION, 3),
    0xD6: (EXTENSION, 5),
    0xD7: (EXTENSION, 9),
    0xD8: (EXTENSION, 17),
}
"""Values by heads of one octet."""

_LONG = {
    first + index: (kind, Struct(f">{layout}"))
    for first, kind, layouts in (
        (0xC4, OCTETS, "BHI"),
        (0xC7, EXTENSION, "BHI"),
        (0xCA, VALUE, "fd"),
        (0xCC, VALUE, "BHIQ"),
        (0xD0, VALUE, "bhiq"),
        (0xD9, TEXT, "BHI"),
        (0xDC, ARRAY, "HI"),
        (0xDE, MAP, "HI"),
    )
    for index, layout in enumerate(layouts)
}
"""Longer heads: kind and layout of the argument."""

_TIMESTAMP = 0xFF
"""The type of extension -1, a timestamp, as an octet."""

_TIMESTAMPS = (4, 8, 12)
"""Possible sizes of a timestamp in octets."""

_EPOCH = datetime(1970, 1, 1)

_decode = msgspec.msgpack.Decoder().decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""Encode as `in_brief` does, but without a length limit."""

MIN_PLAIN, MAX_PLAIN = 1e-4, 1e16
"""Python and orjson write floats between these bounds without an exponent."""


class MessagePack(Headed):
    name = "messagepack"
    prefix = "messagepack"
    begins = bytes([*range(0x80, 0xA0), *range(0xDC, 0xE0)])

    def at_once(self, octets: bytes) -> tuple[str, Json] | None:
        loaded = _loaded(octets)
        return None if loaded is None else (loaded.in_brief(), loaded.value)

    def claims_at_once(self, octets: bytes) -> bool:
        return _loaded(octets) is not None or super().claims_at_once(octets)

    def head(self, data: bytes, at: int) -> Head:
        if at >= len(data):
            raise Malformed("the frame ends before a value")
        first = data[at]
        if first < 0x80:
            return VALUE, at + 1, first
        if first < 0x90:
            return MAP, at + 1, first & 0x0F
        if first < 0xA0:
            return ARRAY, at + 1, first & 0x0F
        if first < 0xC0:
            return TEXT, at + 1, first & 0x1F
        if first >= 0xE0:
            return VALUE, at + 1, first - 0x100
        if (fixed := _FIXED.get(first)) is not None:
            return fixed[0], at + 1, fixed[1]
        if first not in _LONG:
            raise Malformed(f"no value begins with {first:#04x}")
        kind, layout = _LONG[first]
        stop = at + 1 + layout.size
        if stop > len(data):
            raise Malformed("the frame ends inside a head")
        (argument,) = layout.unpack_from(data, at + 1)
        return kind, stop, argument + 1 if kind == EXTENSION else argument

    def read_special(self, reader: Reader, name: str, head: Head) -> None:
        _, stop, count = head
        length = stop - reader.position
        octets = reader.data[stop : stop + count]
        if len(octets) == count and octets[0] == _TIMESTAMP and (time := as_time(octets[1:])) is not None:
            reader.value(name, length + count, time)
            return
        with reader.object(name):
            reader.value("octets", length, count, hidden=True)
            reader.number("type", 1, signed=True)
            reader.octets("data", count - 1)


class _Loaded(NamedTuple):
    """A map or array that JSON can represent, not nested too deep.

    `has_words`: it contains text, so other octets are unlikely to look like it. `has_exponents`: it contains numbers
    with an exponent.
    """

    value: Json
    has_words: bool
    has_exponents: bool
    """Whether the value contains numbers that orjson writes differently from `in_brief`."""

    def in_brief(self) -> str:
        return _encode(self.value) if self.has_exponents else orjson.dumps(self.value).decode()


def _loaded(octets: bytes) -> _Loaded | None:
    """Parse with msgspec; None if `Headed` would not claim the octets, or would return another value."""
    if len(octets) > MAX_STEPS:
        return None
    try:
        value = _decode(octets)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None
    loaded = _ordinary(value)
    return loaded if loaded is not None and loaded.has_words else None


def _ordinary(value: Json) -> _Loaded | None:
    """Describe a parsed value; None if it or any nested value needs the parser of `Headed`."""
    level, has_words, has_exponents = [value], False, False
    for _ in range(DEEPEST):
        below = []
        for around in level:
            inside = around
            if type(around) is dict:
                inside = [*around, *around.values()]
                if not all(type(key) is str for key in around):
                    return None
            for each in inside:
                kind = type(each)
                if kind is str:
                    has_words = has_words or (len(each) >= MIN_WEIGHT - 1 and each.isprintable())
                elif kind is dict or kind is list:
                    below.append(each)
                elif kind is float:
                    if not isfinite(each):
                        return None
                    has_exponents = has_exponents or not (MIN_PLAIN <= abs(each) < MAX_PLAIN or each == 0)
                elif kind is not int and kind is not bool and each is not None:
                    return None
        if not below:
            return _Loaded(value, has_words, has_exponents)
        level = below
    return None


def as_time(data: bytes) -> str | None:
    """Format a time stamp as in RFC 3339; None if it is invalid or outside the years 1 to 9999."""
    if len(data) not in _TIMESTAMPS:
        return None
    number = int.from_bytes(data)
    nanoseconds, seconds = 0, number
    if len(data) == 8:
        nanoseconds, seconds = number >> 34, number & (1 << 34) - 1
    elif len(data) == 12:
        nanoseconds, seconds = number >> 64, int.from_bytes(data[4:], signed=True)
    if nanoseconds >= 10**9:
        return None
    try:
        whole = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    fraction = f".{nanoseconds:09}" if nanoseconds else ""
    return f"{whole.isoformat()}{fraction}Z"
