"""Values that begin with a head, which says what follows: what MessagePack and CBOR have in common."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.payloads.api import Claim, Json, Malformed, Reader
from zmtpscope.payloads.brief import in_brief
from zmtpscope.payloads.framewise import Framewise
from zmtpscope.payloads.text import is_text
from zmtpscope.payloads.values import to_key
from zmtpscope.records import to_text

VALUE, TEXT, OCTETS, ARRAY, MAP, PIECES, BREAK, TAG, SIMPLE, EXTENSION = range(10)
"""What begins with a head. Its argument is

of VALUE    the value: a number, a truth value or None; the head is all of it
TEXT        how many octets follow
OCTETS      how many octets follow
ARRAY       how many items follow; None: as many as there are until a break
MAP         how many pairs follow; None: as many as there are until a break
PIECES      of what kind the pieces are (TEXT, OCTETS) that follow until a break and are one
BREAK       None
TAG         its number; the value that it is about follows
SIMPLE      the number of a value of which no more is known; the head is all of it
EXTENSION   how many octets follow, the first of which is the type

Plain numbers: members of an Enum take five times as long to look up, and each value needs several.
"""

Head = tuple[int, int, Json]
"""What begins, where its head ends, and the argument."""

MOST_STEPS = 2_000
"""Heads that a claim looks at; what fits so far is taken to fit."""

LEAST_WEIGHT = 3
"""What a map or array must score to be claimed. In both formats most small numbers are one octet, so a few octets of
anything are an array of them now and then: they score nothing. A text that is text scores its octets, head included;
{"id": 7} is the least that is claimed. Of random octets one frame in 40,000 is."""

WIDE_WEIGHT = 2
"""What a number scores that stands behind its head, and an extension: few first octets say that there is one."""

UNTIL_BREAK = -2
"""Stands for the number of values where that is not known, and is counted down from: even where pairs are whole."""


class Headed(Framewise[bool]):
    """A dissector of maps and arrays that take their frame to its end; the fields are what they hold.

    A key that is no text becomes one; where two are the same then, the fields hold the last, and the tree both.
    """

    begins = b""

    def head(self, data: bytes, at: int) -> Head:
        """The head at `at`. Raises Malformed where there is none, or not all of it."""
        raise NotImplementedError

    def read_special(self, reader: Reader, name: str, head: Head) -> None:
        """Read a value of a kind that only this format has."""
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
        return weight >= LEAST_WEIGHT and stop in (None, len(octets))

    def walk(self, data: bytes) -> tuple[int | None, int]:
        """Where the value that begins `data` ends (None: not within `MOST_STEPS` heads), and its weight: how little it
        looks like an accident. Raises Malformed where there is none."""
        at = weight = 0
        outer: list[tuple[int, int]] = []
        left, within = 1, ARRAY  # values to come at this level
        for _ in range(MOST_STEPS):
            kind, stop, argument = self.head(data, at)
            if kind == BREAK:
                if left >= 0 or (within == MAP and left % 2):
                    raise Malformed("a break where a value is due")
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
                raise Malformed("more is announced than there is")
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
            raise Malformed(f"octets behind the value: {reader.left}")
        return in_brief(values[-1])

    def read(self, reader: Reader, name: str) -> None:
        """Read one value with all that is in it."""
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
            raise Malformed("a break where a value is due")
        else:
            self.read_special(reader, name, head)

    def _counted(self, reader: Reader, name: str, length: int, count: int | None) -> Iterator[int]:
        """Read the head of an array or map of `length` octets, then count what is in it."""
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
    """How many values there are inside, and of what."""
    if kind == TAG:
        return 1, kind
    if kind == PIECES:
        return UNTIL_BREAK, argument
    if argument is None:
        return UNTIL_BREAK, kind
    return argument * (1 + (kind == MAP)), kind


def as_text(octets: bytes) -> str:
    """What a peer calls text; where it is not UTF-8, as everywhere, with escapes."""
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return to_text(octets)
