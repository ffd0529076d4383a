"""Values that start with a head, which contains the type and the length: common to MessagePack and CBOR."""

from __future__ import annotations

import json
from collections.abc import Iterator

from zmtpscope.payloads.api import Claim, Json, Malformed, Reader
from zmtpscope.payloads.framewise import Framewise
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.values import LONGEST_SUMMARY, shown, to_key
from zmtpscope.records import to_text

VALUE, TEXT, OCTETS, ARRAY, MAP, PIECES, BREAK, TAG, SIMPLE, EXTENSION = range(10)
"""Kinds of heads, with the argument of each:

  VALUE    the value itself, which is all in the head: a number, a boolean or None
  TEXT     number of octets that follow
  OCTETS   number of octets that follow
  ARRAY    number of items that follow, or None: until a break
  MAP      number of pairs that follow, or None: until a break
  PIECES   kind of the pieces (TEXT, OCTETS) that follow until a break and form one value
  BREAK    None
  TAG      number of the tag, which applies to the following value
  SIMPLE   number of an unassigned simple value, which is all in the head
  EXTENSION  number of octets that follow, the first of which is the type

Plain numbers: members of an Enum take five times as long to look up.
"""

Head = tuple[int, int, Json]
"""Kind, end of the head, and argument."""

MAX_STEPS = 2_000
"""Heads that `claim` parses. A frame without an error so far is accepted."""

MIN_WEIGHT = 3
"""Weight of a claimed map or array. Small numbers take one octet in both formats, so a few random octets can be an
array of them: they have no weight. A valid text weighs its octets and its head; {"id": 7} is the smallest map
claimed."""

WIDE_WEIGHT = 2
"""Weight of an extension, and of a number with octets after its head: few first octets announce one."""

UNTIL_BREAK = -2
"""Count of remaining values if unknown. It counts down, and is even when pairs are complete."""


class Headed(Framewise[bool]):
    """Base of dissectors of a map or array that fills its frame; the items become fields.

    Keys of other types are converted to text. Of equal keys, the fields have the last value, the field tree all.
    """

    begins = b""

    def head(self, data: bytes, at: int) -> Head:
        """Parse the head of the value at index `at`. Raises `Malformed` if it is not complete."""
        raise NotImplementedError

    def read_special(self, reader: Reader, name: str, head: Head) -> None:
        """Read a value of a kind that only MessagePack or only CBOR has."""
        raise NotImplementedError

    # -- claims --------------------------------------------------------------------------------------------------------

    def recognise(self, octets: bytes) -> tuple[Claim, bool | None]:
        may_begin = octets[:1] != b"" and octets[:1] in self.begins
        return (Claim.MAYBE, True) if may_begin and self.claims_at_once(octets) else (Claim.NO, None)

    def claims_at_once(self, octets: bytes) -> bool:
        try:
            stop, weight = self.walk(octets)
        except Malformed:
            return False
        return weight >= MIN_WEIGHT and stop in (None, len(octets))

    def walk(self, data: bytes) -> tuple[int | None, int]:
        """Return the end and the weight of the first value in `data`.

        The higher the weight, the less likely other octets look like this value. The end is None if it is not within
        `MAX_STEPS` heads. Raises `Malformed` if there is no value.
        """
        at = weight = 0
        outer: list[tuple[int, int]] = []
        left, within = 1, ARRAY  # values left to read at this level
        for _ in range(MAX_STEPS):
            kind, stop, argument = self.head(data, at)
            if kind == BREAK:
                if left >= 0 or (within == MAP and left % 2):
                    raise Malformed("a break instead of a value")
                left = 0
            else:
                if within in (TEXT, OCTETS) and kind != within:
                    raise Malformed("a piece is of another kind")
                left -= 1
                if kind in _IN_ONE:
                    length = argument if kind in _WITH_OCTETS else 0
                    if kind == TEXT:
                        weight += length + 1 if length and is_text(data[stop : stop + length]) else 0
                    elif kind != OCTETS and stop > at + 1:
                        weight += WIDE_WEIGHT
                    stop += length
                else:
                    outer.append((left, within))
                    left, within = _level(kind, argument)
            at = stop
            if left > len(data) - at or at > len(data):
                raise Malformed("the announced size exceeds the frame")
            while left == 0:
                if not outer:
                    return at, weight
                left, within = outer.pop()
        return None, weight

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_frame(self, reader: Reader, known: bool | None, values: list[Json]) -> str:
        with reader.aside() as read:
            try:
                self.read(reader, "value")
            finally:
                values += read[:1]
        if reader.left:
            raise Malformed(f"octets after the value: {reader.left}")
        return in_brief(values[-1])

    def read(self, reader: Reader, name: str) -> None:
        """Read one value, including nested values, as the field `name`."""
        head = kind, stop, argument = self.head(reader.data, reader.position)
        length = stop - reader.position
        if kind == VALUE:
            reader.value(name, length, argument)
        elif kind == TEXT:
            reader.value(name, length + argument, as_text(reader.data[stop : stop + argument]))
        elif kind == OCTETS:
            reader.value(name, length + argument, reader.data[stop : stop + argument])
        elif kind == ARRAY:
            with reader.array(name):
                for index in self._counted(reader, "items", length, argument):
                    self.read(reader, str(index))
        elif kind == MAP:
            with reader.object(name):
                for _ in self._counted(reader, "pairs", length, argument):
                    with reader.aside() as keys:
                        self.read(reader, "key")
                    key = keys[0]
                    self.read(reader, to_key(in_brief(key) if isinstance(key, dict | list) else key))
        elif kind == BREAK:
            raise Malformed("a break instead of a value")
        else:
            self.read_special(reader, name, head)

    def _counted(self, reader: Reader, name: str, length: int, count: int | None) -> Iterator[int]:
        """Read the head of an array or map, which has `length` octets; then yield the index of each item.

        `count` is the number of items, None if unknown.
        """
        if count is not None:
            reader.value(name, length, count, hidden=True)
            if count > reader.left:
                raise Malformed(f"{name}: {count}, octets left: {reader.left}")
            yield from range(count)
            return
        reader.value(name, length, "until a break", hidden=True)
        index = 0
        while self.head(reader.data, reader.position)[0] != BREAK:
            yield index
            index += 1
        reader.u8("break", hidden=True)


_WITH_OCTETS = (TEXT, OCTETS, EXTENSION)
_IN_ONE = (*_WITH_OCTETS, VALUE, SIMPLE)


def _level(kind: int, argument: Json) -> tuple[int, int]:
    """Return how many values a container has (a map two for each entry), and its kind."""
    if kind == TAG:
        return 1, kind
    if kind == PIECES:
        return UNTIL_BREAK, argument
    if argument is None:
        return UNTIL_BREAK, kind
    return argument * (1 + (kind == MAP)), kind


def as_text(octets: bytes) -> str:
    """Decode UTF-8; invalid octets are escaped."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return to_text(octets)


def in_brief(value: Json) -> str:
    """Return a value as short JSON, with octets as h'6f6b', truncated to the length of a summary."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > LONGEST_SUMMARY:
            break
    return text


def _pieces(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        between = "{"
        for key, each in value.items():
            yield f"{between}{_quoted(key)}:"
            yield from _pieces(each)
            between = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        between = "["
        for each in value:
            yield between
            yield from _pieces(each)
            between = ","
        yield "]" if value else "[]"
    elif isinstance(value, bytes):
        yield f"h'{value[:LONGEST_SUMMARY].hex()}'"
    else:
        yield _quoted(value) if isinstance(value, str) else str(shown(value))


def _quoted(text: str) -> str:
    return json.dumps(text[: LONGEST_SUMMARY + 1], ensure_ascii=False)
