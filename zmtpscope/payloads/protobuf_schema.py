"""Message types out of descriptor sets, as `protoc --include_imports --descriptor_set_out=FILE` writes them.

A descriptor set is a message of Protocol Buffers itself (google/protobuf/descriptor.proto), so it is read as one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.payloads.api import Malformed
from zmtpscope.payloads.protobuf_types import signed_32
from zmtpscope.payloads.protobuf_wire import LENGTH, VARINT, WireField, wire_fields
from zmtpscope.records import to_text

REPEATED = 3
"""A label of fields."""


class FieldType(NamedTuple):
    """A field as it was declared; `type_name` is that of its message or enum."""

    name: str
    type: int
    repeated: bool
    type_name: str


@dataclass(slots=True, eq=False)
class MessageType:
    """A message as it was declared; `is_map_entry`: its fields `key` and `value` are one entry of a map."""

    name: str
    is_map_entry: bool = False
    fields: dict[int, FieldType] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Schema:
    """Messages, and the words of enums by their values, by full names such as acme.Price."""

    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, dict[int, str]] = field(default_factory=dict)


@functools.lru_cache(maxsize=8)
def read_schema(descriptor_set: bytes) -> Schema:
    """All that a descriptor set declares. Raises `Malformed` where it is none."""
    schema = Schema()
    for file in _Part.whole(descriptor_set).parts(1):
        package = file.text(2)
        _declare(schema, package, file, messages=4, enums=5)
    if not schema.messages:
        raise Malformed("it declares no message")
    return schema


def _declare(schema: Schema, scope: str, part: _Part, *, messages: int, enums: int) -> None:
    """Take the messages and enums of a file or message, which are its fields of these numbers."""
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
    """One message of a descriptor set, whose fields are asked for by number."""

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
        """The messages in all fields of that number."""
        for each in self._all(number, LENGTH):
            yield _Part(self.data, each.begin, each.end)

    def text(self, number: int) -> str:
        """The text in the last field of that number, "" where there is none."""
        found = self._all(number, LENGTH)
        return to_text(self.data[found[-1].begin : found[-1].end]) if found else ""

    def number(self, number: int) -> int:
        """The value of the last field of that number, without sign, 0 where there is none."""
        found = self._all(number, VARINT)
        return found[-1].value if found else 0

    def _all(self, number: int, wire_type: int) -> list[WireField]:
        return [each for each in self.fields if each.number == number and each.wire_type == wire_type]
