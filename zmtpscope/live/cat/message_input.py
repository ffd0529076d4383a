"""Messages as people and programs write them: arguments, files, lines or NUL-separated pieces of a stream, hex."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.records import from_text

LARGEST = 64 << 20
"""Octets of a message that is written down."""
AT_ONCE = 1 << 18
"""Octets that are read at once."""
TAB = b"\t"


class BadMessage(ValueError):
    """Something that is no message; the text says what and why."""


class Notation(NamedTuple):
    """How messages are written.

    `separator` stands between the parts of one, None where a line is one part; `addressed` messages have their first
    part in front of the first TAB then. That part is a `text` (`zmtpscope.records`), so that any octets can be typed.
    """

    hex: bool = False
    separator: bytes | None = None
    addressed: bool = False

    def parts(self, written: bytes) -> list[bytes]:
        """The parts of a message that is a line. Raises `BadMessage`."""
        if self.separator is not None:
            pieces = written.split(self.separator)
        elif self.addressed:
            pieces = written.split(TAB, 1)
        else:
            pieces = [written]
        if not (self.hex or self.addressed):
            return pieces
        return [self._part(piece, number) for number, piece in enumerate(pieces)]

    def given(self, texts: Sequence[str]) -> list[bytes]:
        """The parts of a message that is written as an argument for each; `@FILE` is what a file holds, `@@` an @.

        Raises `BadMessage`.
        """
        return [
            _content(text[1:]) if _names_a_file(text) else self._part(_literal(text), number)
            for number, text in enumerate(texts)
        ]

    def argument(self, text: str) -> list[bytes]:
        """The parts of a message that is one argument. Raises `BadMessage`."""
        return [_content(text[1:])] if _names_a_file(text) else self.parts(_literal(text))

    def _part(self, written: bytes, number: int) -> bytes:
        if self.hex:
            return _from_hex(written)
        if self.addressed and not number:
            return meant(written)
        return written


def meant(written: bytes) -> bytes:
    """The octets that are meant by a `text` (`zmtpscope.records`) as it was typed."""
    return from_text(written.decode("utf-8", "backslashreplace"))


class Splitter:
    """Cuts what comes in blocks into messages. `end` is the octet behind each, which the last one may lack."""

    def __init__(self, end: bytes, name: str = "standard input") -> None:
        self.end = end
        self._name = name
        self._held: list[bytes] = []
        self._size = 0
        self.count = 0
        """Messages until now."""

    def feed(self, block: bytes) -> list[bytes]:
        """The messages that end in the next block. Raises `BadMessage` where one is larger than `LARGEST`."""
        pieces = block.split(self.end)
        self._held.append(pieces[0])
        self._size += len(pieces[0])
        if self._size > LARGEST:
            what = "line" if self.end == b"\n" else "message"
            raise BadMessage(f"{what} {self.count + 1} of {self._name} is longer than {LARGEST >> 20} MiB")
        if len(pieces) == 1:
            return []
        pieces[0] = b"".join(self._held)
        rest = pieces.pop()
        self._held, self._size = [rest], len(rest)
        self.count += len(pieces)
        return pieces

    def finish(self) -> list[bytes]:
        """What came behind the last end."""
        rest = b"".join(self._held)
        self._held.clear()
        self.count += bool(rest)
        return [rest] if rest else []


def _names_a_file(text: str) -> bool:
    return text.startswith("@") and not text.startswith("@@")


def _literal(text: str) -> bytes:
    return os.fsencode(text[1:] if text.startswith("@@") else text)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            octets = file.read(LARGEST + 1)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadMessage(f"@{path}: {why}; a message that begins with @ is written @@") from None
    if len(octets) > LARGEST:
        raise BadMessage(f"@{path}: larger than {LARGEST >> 20} MiB")
    return octets


def _from_hex(digits: bytes) -> bytes:
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        shown = digits[:20].decode("utf-8", "backslashreplace")
        raise BadMessage(
            f"{shown!r} is not hex: two digits for each octet, blanks between octets as you like"
        ) from None
