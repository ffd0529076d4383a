"""Converts Protocol Buffers wire values by the declared type of their field."""

from __future__ import annotations

import struct
from collections.abc import Callable

from zmtpscope.payloads.protobuf_wire import FIXED_32, FIXED_64, VARINT
from zmtpscope.payloads.values import Json

STRING, GROUP, MESSAGE, BYTES, ENUM = 9, 10, 11, 12, 14
"""Types that are not numbers (google/protobuf/descriptor.proto, FieldDescriptorProto.Type)."""


def _signed(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits
    return lambda number: (number + half) % whole - half


def _zigzag(bits: int) -> Callable[[int], int]:
    mask = (1 << bits) - 1
    return lambda number: ((number & mask) >> 1) ^ -(number & 1)


def _floating(form: str, size: int) -> Callable[[int], float]:
    def convert(number: int) -> float:
        value: float = struct.unpack(form, number.to_bytes(size, "little"))[0]
        return value

    return convert


signed_32 = _signed(32)

NUMBERS: dict[int, tuple[int, Callable[[int], Json]]] = {
    1: (FIXED_64, _floating("<d", 8)),
    2: (FIXED_32, _floating("<f", 4)),
    3: (VARINT, _signed(64)),
    4: (VARINT, int),
    5: (VARINT, signed_32),
    6: (FIXED_64, int),
    7: (FIXED_32, int),
    8: (VARINT, bool),
    13: (VARINT, lambda number: number & 0xFFFFFFFF),
    ENUM: (VARINT, signed_32),
    15: (FIXED_32, signed_32),
    16: (FIXED_64, _signed(64)),
    17: (VARINT, _zigzag(32)),
    18: (VARINT, _zigzag(64)),
}
"""Wire type and conversion by type: double, float, int64, uint64, int32, fixed64, fixed32, bool, uint32, enum,
sfixed32, sfixed64, sint32, sint64."""
