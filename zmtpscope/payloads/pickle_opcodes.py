"""The opcodes of pickles and their arguments, from Python's `pickletools`."""

from __future__ import annotations

import codecs
import re
import struct
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from zmtpscope.payloads.reader import Malformed
from zmtpscope.payloads.values import Json

_INTEGER = re.compile(rb"[-+]?[0-9]++L?")
_LONGEST_INTEGER = 19
"""Maximum characters of a number that is parsed. Longer ones stay octets, because their size has no bound."""
_NO_CONSTANTS = {"BINGET", "EXT1", "EXT2", "EXT4", "GET", "GLOBAL", "INST", "LONG_BINGET", "PERSID"}
"""Opcodes whose argument refers to the value that they put on the stack."""
_LENGTHS = {-2: (1, False), -3: (4, True), -4: (4, False), -5: (8, False)}
"""Size of a length prefix, and whether it is signed, by code in pickletools."""
_LINE = -1
"""Size in pickletools of an argument that ends with its line."""


class Opcode(NamedTuple):
    """An opcode of pickles.

    - `takes`: how many objects it removes from the stack; with `to_mark` also all above the last mark
    - `leaves`: types of the objects that it puts on the stack
    - `argument`: kind of its argument in pickletools; it has `size` octets
    - `constant`: it puts its argument on the stack
    """

    name: str
    argument: str | None
    size: int
    takes: int
    to_mark: bool
    leaves: tuple[str, ...]
    protocol: int
    constant: bool


@cache
def opcodes() -> dict[int, Opcode]:
    import pickletools  # slow to load

    table = {}
    for each in pickletools.opcodes:
        to_mark = pickletools.markobject in each.stack_before
        table[ord(each.code)] = Opcode(
            name=each.name,
            argument=each.arg.name if each.arg is not None else None,
            size=each.arg.n if each.arg is not None else 0,
            takes=each.stack_before.index(pickletools.markobject) if to_mark else len(each.stack_before),
            to_mark=to_mark,
            leaves=tuple(left.name for left in each.stack_after),
            protocol=each.proto,
            constant=each.arg is not None and bool(each.stack_after) and each.name not in _NO_CONSTANTS,
        )
    return table


def read_argument(opcode: Opcode, octets: bytes, begin: int) -> tuple[Json, int]:
    """Parse the argument of an opcode at index `begin`; return it (None if the opcode has none) and its end.

    Two lines naming an import become one text with a dot. Non-ASCII text of Python 2 and numbers of more than 64 bits
    stay octets.
    """
    kind = opcode.argument
    if kind is None:
        return None, begin
    if opcode.size == _LINE:
        line, stop = _line(octets, begin)
        if kind != "stringnl_noescape_pair":
            return _LINES[kind](line), stop
        second, stop = _line(octets, stop)
        return f"{_text(line)}.{_text(second)}", stop
    length = opcode.size
    if length < 0:
        width, signed = _LENGTHS[length]
        length = int.from_bytes(_slice(octets, begin, width), "little", signed=signed)
        begin += width
    return _counted(kind, _slice(octets, begin, length)), begin + length


def _line(octets: bytes, begin: int) -> tuple[bytes, int]:
    end = octets.find(b"\n", begin)
    if end < 0:
        raise Malformed("a line has no end")
    return octets[begin:end], end + 1


def _slice(octets: bytes, begin: int, length: int) -> bytes:
    if not 0 <= length <= len(octets) - begin:
        raise Malformed(f"an argument of {length} octets, but only {len(octets) - begin} remain")
    return octets[begin : begin + length]


def _counted(kind: str, octets: bytes) -> Json:
    if kind == "float8":
        return struct.unpack(">d", octets)[0]
    if kind.startswith("unicodestring"):
        return _text(octets)
    if kind.startswith("string"):
        return octets.decode() if octets.isascii() else octets  # text of Python 2
    if kind.startswith("byte"):
        return octets
    if kind.startswith("long") and len(octets) > 8:
        return octets
    return int.from_bytes(octets, "little", signed=not kind.startswith("uint"))


def _text(octets: bytes) -> str:
    try:
        return octets.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Malformed("text is not UTF-8") from None


def _quoted(line: bytes) -> Json:
    if len(line) < 2 or line[:1] not in (b'"', b"'") or line[-1:] != line[:1]:
        raise Malformed("a string has no quotation marks")
    octets = line[1:-1]
    if b"\\" in octets:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # escapes that Python deprecates
                octets = codecs.escape_decode(octets)[0]
        except ValueError:
            raise Malformed("a string has an invalid escape") from None
    return octets.decode() if octets.isascii() else octets


def _escaped(line: bytes) -> str:
    try:
        return line.decode("raw-unicode-escape")
    except UnicodeDecodeError:
        raise Malformed("a string has an invalid escape") from None


def _real(line: bytes) -> float:
    try:
        return float(line)
    except ValueError:
        raise Malformed("an invalid number") from None


def _integer(line: bytes) -> int | bytes:
    if _INTEGER.fullmatch(line) is None:
        raise Malformed("an invalid number")
    return int(line.rstrip(b"L")) if len(line) <= _LONGEST_INTEGER else line


_LINES: dict[str, Callable[[bytes], Json]] = {
    "stringnl": _quoted,
    "stringnl_noescape": _text,
    "unicodestringnl": _escaped,
    "floatnl": _real,
    "decimalnl_short": _integer,
    "decimalnl_long": _integer,
}
