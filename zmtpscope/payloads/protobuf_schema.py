"""Parse message types from descriptor sets, which `protoc --include_imports --descriptor_set_out=FILE` writes.

A descriptor set is itself a message (google/protobuf/descriptor.proto), and is parsed as one.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.payloads.api import Malformed
from zmtpscope.payloads.protobuf_wire import FIXED_32, FIXED_64, LENGTH, VARINT, WireField, wire_fields
from zmtpscope.payloads.values import Json
from zmtpscope.records import to_text

REPEATED = 3


class FieldType(NamedTuple):
    """A field of a message type. `type_name` is its message or enum type."""

    name: str
    type: int
    repeated: bool
    type_name: str


@dataclass(slots=True, eq=False)
class MessageType:
    """A message type. `is_map_entry`: its fields `key` and `value` are one entry of a map."""

    name: str
    is_map_entry: bool = False
    fields: dict[int, FieldType] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Schema:
    """Message and enum types by their full names, such as acme.Price."""

    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)


@functools.lru_cache(maxsize=8)
def read_schema(descriptor_set: bytes) -> Schema:
    """Parse a descriptor set. Raises `Malformed` if the octets are no descriptor set."""
    schema = Schema()
    for file in _Part.whole(descriptor_set).parts(1):
        package = file.text(2)
        _declare(schema, package, file, messages=4, enums=5)
    if not schema.messages:
        raise Malformed("it declares no message")
    return schema


def _declare(schema: Schema, scope: str, part: _Part, *, messages: int, enums: int) -> None:
    for enum in part.parts(enums):
        words = schema.enums.setdefault(_join(scope, enum.text(1)), {})
        for value in enum.parts(2):
            words.setdefault(signed_32(value.number(2)), value.text(1))
    for each in part.parts(messages):
        name = _join(scope, each.text(1))
        made = schema.messages[name] = MessageType(name, any(options.number(7) for options in each.parts(7)))
        for declared in each.parts(2):
            field_name, number = declared.text(1), declared.number(3)
            if not field_name.isidentifier() or any(other.name == field_name for other in made.fields.values()):
                raise Malformed(f"field {number} of {name} has no name of its own")
            repeated = declared.number(4) == REPEATED
            type_name = declared.text(6).removeprefix(".")
            made.fields[number] = FieldType(field_name, declared.number(5), repeated, type_name)
        _declare(schema, name, each, messages=3, enums=4)


def _join(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


class _Part:
    """Reads one encoded message of a descriptor set: a file, a message type or a field."""

    def __init__(self, data: bytes, start: int, stop: int) -> None:
        self.data = data
        found = wire_fields(data, start, stop)
        self.fields = found.fields
        if found.problem is not None:
            raise Malformed(found.problem)

    @classmethod
    def whole(cls, data: bytes) -> _Part:
        return cls(data, 0, len(data))

    def parts(self, number: int) -> Iterator[_Part]:
        for each in self._all(number, LENGTH):
            yield _Part(self.data, each.begin, each.end)

    def text(self, number: int) -> str:
        found = self._all(number, LENGTH)
        return to_text(self.data[found[-1].begin : found[-1].end]) if found else ""

    def number(self, number: int) -> int:
        found = self._all(number, VARINT)
        return found[-1].value if found else 0

    def _all(self, number: int, wire_type: int) -> list[WireField]:
        return [each for each in self.fields if each.number == number and each.wire_type == wire_type]


STRING, GROUP, MESSAGE, BYTES, ENUM = 9, 10, 11, 12, 14
"""Numbers of `FieldDescriptorProto.Type` for types that are not numbers."""


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
"""Types in order: double, float, int64, uint64, int32, fixed64, fixed32, bool, uint32, enum, sfixed32, sfixed64,
sint32, sint64."""
