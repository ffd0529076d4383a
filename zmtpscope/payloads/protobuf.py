"""Protocol Buffers, with the field names of a descriptor set, or with field numbers.

Without a descriptor set nearly any octets fit, so only messages that the user selected are dissected.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from zmtpscope.payloads.api import About, Claim, Json, Malformed, Message, Payload, Reader, Settings
from zmtpscope.payloads.limits import MAX_FIELDS, Limit
from zmtpscope.payloads.protobuf_schema import (
    BYTES,
    ENUM,
    GROUP,
    MESSAGE,
    NUMBERS,
    STRING,
    FieldType,
    MessageType,
    Schema,
    read_schema,
)
from zmtpscope.payloads.protobuf_wire import GROUP as WIRE_GROUP
from zmtpscope.payloads.protobuf_wire import LENGTH, WIDTHS, WireField, WireFields, varint, wire_fields
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.values import LONGEST_SUMMARY, shown
from zmtpscope.records import to_text
from zmtpscope.words import listed

LARGEST_CLAIMED = 1000
"""Field number of a claimed message. Higher ones are rare in messages, and common in other data."""
MAX_KEYS = 4 * MAX_FIELDS
"""Keys to parse in one message; afterwards no octets are tried as nested fields."""
FIRST_PRINTABLE = 0x20
NAMED = 5
"""Number of message types listed in the error about an unknown type."""


class Wanted(NamedTuple):
    kind: MessageType
    schema: Schema


class Protobuf(Payload):
    """Dissects messages whose first content frame is a Protocol Buffers message.

    `settings.argument` is its type in a descriptor set of `settings.files`; None: fields are named by number.
    """

    name = prefix = "protobuf"
    automatic = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._wanted: Wanted | str | None = None
        """The selected type, or why it is unknown. None: not looked up yet."""

    def claim(self, message: Message, about: About) -> Claim:
        body = message.bodies[0]
        if is_text(body):
            return Claim.NO
        found = wire_fields(body, 0, len(body), MAX_FIELDS + 1)
        fits = found.fits and all(each.number <= LARGEST_CLAIMED for each in found.fields)
        return Claim.MAYBE if fits else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        kind: MessageType | None = None
        schema = Schema()
        if self.settings.argument is not None:
            if self._wanted is None:
                self._wanted = _wanted(self.settings.argument, self.settings)
            if isinstance(self._wanted, str):
                raise Malformed(self._wanted)
            kind, schema = self._wanted
        _Fields(reader, schema).read(0, reader.stop, kind)
        return f"{kind.name if kind is not None else ''} {_summary_of(reader.fields)}".strip()


def _wanted(name: str, settings: Settings) -> Wanted | str:
    if not settings.files:
        return "no descriptor set: add one with --payload-file protobuf=FILE (protoc --descriptor_set_out=FILE)"
    schema = Schema()
    for path, octets in settings.files.items():
        try:
            read = read_schema(octets)
        except Malformed as problem:
            return f"{path} is not a descriptor set: {problem}"
        schema.messages.update(read.messages)
        schema.enums.update(read.enums)
    kind = schema.messages.get(name.removeprefix("."))
    if kind is None:
        names = sorted(each.name for each in schema.messages.values() if not each.is_map_entry)
        return f"the descriptor set has no message {name}; it has {listed(names, NAMED)}"
    return Wanted(kind, schema)


class _Fields:
    """Reads the fields of a message, with `reader` at the first one."""

    def __init__(self, reader: Reader, schema: Schema) -> None:
        self.reader = reader
        self.data = reader.data
        self.schema = schema
        self.keys = 0
        """Keys parsed, also of octets that turned out to be no fields: each costs time."""

    def read(self, start: int, stop: int, kind: MessageType | None) -> None:
        """Read the fields in `data[start:stop]`, a message of type `kind`.

        Raises `Malformed` after the last valid field.
        """
        self._all(self._look(start, stop), kind)

    def _look(self, start: int, stop: int) -> WireFields:
        """Parse fields in `data[start:stop]`, at most as many as the limits allow.

        Raises `Limit` after `MAX_KEYS` keys.
        """
        if self.keys > MAX_KEYS:
            raise Limit("PAYLOAD-02", f"more than {MAX_KEYS} fields, including possible ones")
        found = wire_fields(self.data, start, stop, MAX_FIELDS + 1)
        self.keys += found.keys
        return found

    def _all(self, found: WireFields, kind: MessageType | None) -> None:
        counts = Counter(each.number for each in found.fields)
        for each in found.fields:
            declared = kind.fields.get(each.number) if kind is not None else None
            if declared is not None and _fits(declared, each):
                self._known(declared, each)
            elif counts[each.number] > 1:
                with self.reader.more(str(each.number), []):
                    self._guessed(each)
            else:
                self._guessed(each)
        if found.problem is not None:
            raise Malformed(found.problem)

    # -- undeclared fields ---------------------------------------------------------------------------------------------

    def _guessed(self, each: WireField) -> None:
        """Read a field without a declaration.

        A field with a length is tried as printable text, as a message, as other text, and last as octets.
        """
        name, length = str(each.number), each.stop - each.start
        if each.wire_type == WIRE_GROUP:
            return self._message(name, each, None)
        if each.wire_type != LENGTH:
            return self.reader.value(name, length, each.value)
        text: str | bytes | None = None
        if each.begin == each.end or self.data[each.begin] >= FIRST_PRINTABLE:
            text = _printable(self.data[each.begin : each.end])
        if text is None:
            if (found := self._look(each.begin, each.end)).fits:
                return self._nested(name, each, found, None)
            octets = self.data[each.begin : each.end]
            text = to_text(octets) if is_text(octets) else octets
        self.reader.value(name, length, text)

    # -- declared fields -----------------------------------------------------------------------------------------------

    def _known(self, declared: FieldType, each: WireField) -> None:
        entry = self.schema.messages.get(declared.type_name)
        if not declared.repeated:
            self._value(declared.name, declared, each)
        elif entry is not None and entry.is_map_entry and each.wire_type == LENGTH:
            with self.reader.more(declared.name, {}), self.reader.group(declared.name):
                self._entry(entry, each)
        else:
            with self.reader.more(declared.name, []):
                self._value(declared.name, declared, each)

    def _value(self, name: str, declared: FieldType, each: WireField) -> None:
        if declared.type in (MESSAGE, GROUP):
            self._message(name, each, self.schema.messages.get(declared.type_name))
        elif declared.type in NUMBERS and each.wire_type == LENGTH:
            self._packed(name, declared, each)
        else:
            self.reader.value(name, each.stop - each.start, self._plain(declared, each))

    def _plain(self, declared: FieldType, each: WireField) -> Json:
        if declared.type in NUMBERS:
            return self._number(declared, each.value)
        octets = self.data[each.begin : each.end]
        return octets if declared.type == BYTES else to_text(octets)

    def _number(self, declared: FieldType, number: int) -> Json:
        value = NUMBERS[declared.type][1](number)
        return self.schema.enums.get(declared.type_name, {}).get(value, value) if declared.type == ENUM else value

    def _packed(self, name: str, declared: FieldType, each: WireField) -> None:
        reader = self.reader
        with reader.group(name):
            reader.octets("tag", each.begin - each.start, hidden=True)
            width = WIDTHS.get(NUMBERS[declared.type][0])
            while reader.position < each.end:
                at = reader.position
                if width is None:
                    number, end = varint(self.data, at, each.end)
                elif (end := at + width) > each.end:
                    raise Malformed(f"{name} needs {width} octets, but only {each.end - at} remain")
                else:
                    number = int.from_bytes(self.data[at:end], "little")
                reader.value(name, end - at, self._number(declared, number))

    def _entry(self, entry: MessageType, each: WireField) -> None:
        """Read a map entry, a message that contains a key and a value."""
        reader = self.reader
        reader.octets("tag", each.begin - each.start, hidden=True)
        found = self._look(each.begin, each.end)
        key = next((self._plain(part, one) for one in reversed(found.fields) if (part := _part(entry, one, 1))), None)
        if key is None:
            key = self._default(entry.fields.get(1))
        name = str(shown(key))
        if not any(_part(entry, one, 2) for one in found.fields):
            reader.give(name, self._default(entry.fields.get(2)))
        for one in found.fields:
            if value := _part(entry, one, 2):
                self._value(name, value, one)
            elif part := _part(entry, one, 1):
                reader.value("key", one.stop - one.start, self._plain(part, one), hidden=True)
            else:
                reader.octets(str(one.number), one.stop - one.start, hidden=True)
        if found.problem is not None:
            raise Malformed(found.problem)

    def _default(self, declared: FieldType | None) -> Json:
        """Return the default of a key or value that the sender left out."""
        if declared is None or declared.type == MESSAGE:
            return {}
        if declared.type in NUMBERS:
            return self._number(declared, 0)
        return b"" if declared.type == BYTES else ""

    # -- messages in messages ------------------------------------------------------------------------------------------

    def _message(self, name: str, each: WireField, kind: MessageType | None) -> None:
        self._nested(name, each, self._look(each.begin, each.end), kind)

    def _nested(self, name: str, each: WireField, found: WireFields, kind: MessageType | None) -> None:
        with self.reader.object(name):
            self.reader.octets("tag", each.begin - each.start, hidden=True)
            self._all(found, kind)
            if each.stop > each.end:
                self.reader.octets("end", each.stop - each.end, hidden=True)


def _printable(octets: bytes) -> str | None:
    """Return text without control characters and line ends; None for other octets."""
    try:
        return to_text(octets) if octets.decode().isprintable() else None
    except UnicodeDecodeError:
        return None


def _fits(declared: FieldType, each: WireField) -> bool:
    if declared.type in NUMBERS:
        return each.wire_type == NUMBERS[declared.type][0] or (each.wire_type == LENGTH and declared.repeated)
    if declared.type in (MESSAGE, GROUP):
        return each.wire_type in (LENGTH, WIRE_GROUP)
    return declared.type in (STRING, BYTES) and each.wire_type == LENGTH


def _part(entry: MessageType, each: WireField, number: int) -> FieldType | None:
    """Return the declared type of the key (`number` 1) or value (2) of a map entry."""
    declared = entry.fields.get(number) if each.number == number else None
    return declared if declared is not None and _fits(declared, each) else None


def _summary_of(fields: dict[str, Json]) -> str:
    parts: list[str] = []
    room = LONGEST_SUMMARY
    for name, value in fields.items():
        if room < 0:
            break
        parts.append(f"{name}={_in_short(value)}")
        room -= len(parts[-1])
    return " ".join(parts)


def _in_short(value: Json) -> str:
    if isinstance(value, dict | list):
        return f"{{{len(value)}}}" if isinstance(value, dict) else f"[{len(value)}]"
    if isinstance(value, bytes):
        return f"{len(value)} octets"
    return str(shown(value))[:LONGEST_SUMMARY]
