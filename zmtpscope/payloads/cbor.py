"""CBOR (RFC 8949): maps, arrays, and any value with the self-described tag."""

from __future__ import annotations

from struct import Struct

from zmtpscope.payloads.api import Claim, Malformed, Reader
from zmtpscope.payloads.headed import ARRAY, BREAK, MAP, OCTETS, PIECES, SIMPLE, TAG, TEXT, VALUE, Head, Headed, as_text
from zmtpscope.payloads.text import is_text

_KINDS = (VALUE, VALUE, OCTETS, TEXT, ARRAY, MAP, TAG)
"""Kinds by major type; 7 has several."""

_INDEFINITE: dict[int, tuple[int, int | None]] = {
    2: (PIECES, OCTETS),
    3: (PIECES, TEXT),
    4: (ARRAY, None),
    5: (MAP, None),
    7: (BREAK, None),
}
"""Kinds with indefinite lengths, by major type."""

_SIMPLE = {20: False, 21: True, 22: None}
_FLOATS = {25: Struct(">e"), 26: Struct(">f"), 27: Struct(">d")}

BIGNUM, NEGATIVE_BIGNUM, EMBEDDED, SELF_DESCRIBED = 2, 3, 24, 55799
"""Tags (RFC 8949 3.4) whose meaning the fields show; other tags are shown as numbers."""

_FIRST_MAP = 0xA0
_DESCRIBES_ITSELF = b"\xd9\xd9\xf7"


class Cbor(Headed):
    name = "cbor"
    prefix = "cbor"
    begins = bytes([*range(0x80, 0xC0), 0xD9])

    def recognise(self, octets: bytes) -> tuple[Claim, bool | None]:
        claim, known = super().recognise(octets)
        return (Claim.YES if known and octets[0] == _DESCRIBES_ITSELF[0] else claim), known

    def claims_at_once(self, octets: bytes) -> bool:
        if octets[0] == _DESCRIBES_ITSELF[0]:
            return octets.startswith(_DESCRIBES_ITSELF)
        if octets[0] < _FIRST_MAP and is_text(octets[1:]):
            return False  # letters are heads of texts, so an octet before plain text may parse as an array
        return super().claims_at_once(octets)

    def head(self, data: bytes, at: int) -> Head:
        if at >= len(data):
            raise Malformed("the frame ends before a value")
        major, info = divmod(data[at], 0x20)
        stop, argument = at + 1, info
        if 24 <= info < 28:
            stop += 1 << info - 24
            if stop > len(data):
                raise Malformed("the frame ends inside a head")
            argument = int.from_bytes(data[at + 1 : stop])
        elif info == 31 and major in _INDEFINITE:
            kind, of = _INDEFINITE[major]
            return kind, stop, of
        elif info >= 28:
            raise Malformed(f"no value begins with {data[at]:#04x}")
        if major < 7:
            return _KINDS[major], stop, -1 - argument if major == 1 else argument
        if info in _FLOATS:
            return VALUE, stop, _FLOATS[info].unpack_from(data, at + 1)[0]
        if info == 24 and argument < 32:
            raise Malformed(f"the simple value {argument} takes two octets")
        if argument in _SIMPLE:
            return VALUE, stop, _SIMPLE[argument]
        return SIMPLE, stop, argument

    def read_special(self, reader: Reader, name: str, head: Head) -> None:
        kind, stop, argument = head
        length = stop - reader.position
        if kind == SIMPLE:
            with reader.object(name):
                reader.value("simple", length, argument)
        elif kind == PIECES:
            self._read_pieces(reader, name, stop, argument)
        elif argument == SELF_DESCRIBED and reader.position == 0:
            reader.value("tag", length, argument, hidden=True)
            self.read(reader, name)
        elif argument in (BIGNUM, NEGATIVE_BIGNUM) and (span := self._octets_at(reader, stop)) is not None:
            number = int.from_bytes(reader.data[slice(*span)])
            reader.value(name, span[1] - reader.position, -1 - number if argument == NEGATIVE_BIGNUM else number)
        else:
            with reader.object(name):
                reader.value("tag", length, argument)
                if argument == EMBEDDED and (span := self._octets_at(reader, stop)) is not None:
                    reader.value("octets", span[0] - stop, span[1] - span[0], hidden=True)
                    self._read_embedded(reader, span[1])
                else:
                    self.read(reader, "value")

    def _read_embedded(self, reader: Reader, stop: int) -> None:
        outer, reader.stop = reader.stop, stop
        self.read(reader, "value")
        if reader.left:
            raise Malformed(f"octets after the embedded value: {reader.left}")
        reader.stop = outer

    def _read_pieces(self, reader: Reader, name: str, at: int, of: int) -> None:
        """Read a text or octet string that is encoded in pieces, from index `at` on.

        `of` is the kind of the string.
        """
        pieces = []
        kind, stop, argument = self.head(reader.data, at)
        while kind != BREAK:
            at = stop + argument if kind == of else at
            if kind != of or at > reader.stop:
                raise Malformed("a piece is cut off or of another kind")
            reader.budget.spend(0)
            pieces.append(reader.data[stop:at])
            kind, stop, argument = self.head(reader.data, at)
        whole = b"".join(pieces)
        reader.value(name, stop - reader.position, as_text(whole) if of == TEXT else whole)

    def _octets_at(self, reader: Reader, at: int) -> tuple[int, int] | None:
        """Return start and end of the contents of the octet string at index `at`.

        None for other kinds, strings in pieces and truncated strings.
        """
        kind, stop, argument = self.head(reader.data, at)
        return (stop, stop + argument) if kind == OCTETS and stop + argument <= reader.stop else None
