"""Parse the Protocol Buffers wire format (protobuf.dev/programming-guides/encoding), without nested messages."""

from __future__ import annotations

import sys
from typing import NamedTuple

from zmtpscope.payloads.reader import Malformed

VARINT, FIXED_64, LENGTH, GROUP, GROUP_END, FIXED_32 = range(6)
WIDTHS = {FIXED_64: 8, FIXED_32: 4}
LARGEST_NUMBER = (1 << 29) - 1
LONGEST_KEY = 5
"""Octets of a number of 32 bits."""
LONGEST_VARINT = 10
LARGEST_VARINT = (1 << 64) - 1


class WireField(NamedTuple):
    """A field at `data[start:stop]`, with its value at `data[begin:end]`.

    `value` is the number of a varint or fixed field. A group ends with a key of its own, between `end` and `stop`.
    """

    number: int
    wire_type: int
    start: int
    begin: int
    end: int
    stop: int
    value: int


class WireFields(NamedTuple):
    """The fields in some octets.

    `problem`: why the octets at `stop` are no field, or None. `keys`: number of keys parsed.
    """

    fields: list[WireField]
    stop: int
    problem: str | None
    keys: int

    @property
    def fits(self) -> bool:
        """Whether the octets are completely fields, at least one."""
        return self.problem is None and bool(self.fields)


def wire_fields(data: bytes, start: int, stop: int, most: int = sys.maxsize) -> WireFields:
    """Parse the fields in `data[start:stop]`.

    After `most` keys, including keys in groups, the rest counts as valid because it is never read.
    """
    fields: list[WireField] = []
    groups: list[tuple[int, int, int]] = []
    """Field number, start and begin of each open group."""
    at, keys = start, 0
    try:
        while at < stop and keys < most:
            keys += 1
            number, wire_type, begin = _key(data, at, stop)
            value, end = 0, begin
            if wire_type == VARINT:
                value, end = varint(data, begin, stop)
            elif wire_type == LENGTH:
                length, begin = varint(data, begin, stop)
                end = begin + length
            elif wire_type in WIDTHS:
                end = begin + WIDTHS[wire_type]
                value = int.from_bytes(data[begin:end], "little")
            elif wire_type == GROUP:
                groups.append((number, at, begin))
            elif wire_type != GROUP_END:
                raise Malformed(f"unknown wire type {wire_type}")
            elif not groups or groups[-1][0] != number:
                raise Malformed(f"group {number} ends but did not begin")
            if end > stop:
                raise Malformed(f"field {number} needs {end - begin} octets, but only {stop - begin} remain")
            if wire_type == GROUP_END:
                number, group_start, group_begin = groups.pop()
                if not groups:
                    fields.append(WireField(number, GROUP, group_start, group_begin, at, end, 0))
            elif not groups:
                fields.append(WireField(number, wire_type, at, begin, end, end, value))
            at = end
        if groups and keys < most:
            raise Malformed(f"group {groups[-1][0]} does not end")
    except Malformed as problem:
        return WireFields(fields, groups[0][1] if groups else at, str(problem), keys)
    if groups:
        number, group_start, group_begin = groups[0]
        fields.append(WireField(number, GROUP, group_start, group_begin, stop, stop, 0))
    return WireFields(fields, stop, None, keys)


def varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    """Parse a varint at index `at`, seven bits per octet, least significant first; return number and end.

    Raises `Malformed` if it does not end before `stop`.
    """
    if at < stop and data[at] < 0x80:
        return data[at], at + 1
    value = shift = 0
    for place in range(at, min(stop, at + LONGEST_VARINT)):
        octet = data[place]
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            if value > LARGEST_VARINT:
                raise Malformed("a number has more than 64 bits")
            return value, place + 1
        shift += 7
    raise Malformed("a number does not end" if stop - at < LONGEST_VARINT else "a number has more than 10 octets")


def _key(data: bytes, at: int, stop: int) -> tuple[int, int, int]:
    key, end = varint(data, at, stop)
    number = key >> 3
    if not 0 < number <= LARGEST_NUMBER or end - at > LONGEST_KEY:
        raise Malformed(f"field number {number} is not valid")
    return number, key & 7, end
