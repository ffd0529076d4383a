"""Parse messages to send, as text or hex: from arguments, files, or a stream divided by lines or NUL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.records import from_text

LARGEST = 64 << 20
"""Octets of a message read from a file or a stream."""
AT_ONCE = 1 << 18
TAB = b"\t"


class BadMessage(ValueError):
    """A message to send cannot be parsed. The text contains the input and the reason."""


class Notation(NamedTuple):
    """How the user writes messages.

    A line is a message of one part, unless a `separator` divides it. An `addressed` line (ROUTER, RADIO ...) without a
    separator has two parts, divided at the first TAB. The first part of an addressed message may contain escapes such
    as \\xNN for any octet.
    """

    hex: bool = False
    separator: bytes | None = None
    addressed: bool = False

    def parts(self, written: bytes) -> list[bytes]:
        """Split a line into message parts. Raises `BadMessage`."""
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
        """Return the messages of the command line, one per argument. `@FILE` is replaced by the contents of FILE, a
        leading `@@` by `@`.

        Raises `BadMessage`.
        """
        return [
            _content(text[1:]) if _names_a_file(text) else self._part(_literal(text), number)
            for number, text in enumerate(texts)
        ]

    def argument(self, text: str) -> list[bytes]:
        """Split one argument into message parts. Raises `BadMessage`."""
        return [_content(text[1:])] if _names_a_file(text) else self.parts(_literal(text))

    def _part(self, written: bytes, number: int) -> bytes:
        if self.hex:
            return _from_hex(written)
        if self.addressed and not number:
            return typed_octets(written)
        return written


def typed_octets(written: bytes) -> bytes:
    """Return the octets of a text in which \\xNN stands for any octet, as in fields of type `text`
    (`zmtpscope.records`)."""
    return from_text(written.decode("utf-8", "backslashreplace"))


class Splitter:
    """Splits a stream into messages at the octet `end`, which is optional after the last message."""

    def __init__(self, end: bytes, name: str = "standard input") -> None:
        self.end = end
        self._name = name
        self._held: list[bytes] = []
        self._size = 0
        self.count = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Return the messages that end in the next block. Raises `BadMessage` for a message above `LARGEST` octets."""
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
        """Return the octets after the last `end` as a message, in a list; empty if there are none."""
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
        raise BadMessage(f"@{path}: {why}; write @@ for a leading @") from None
    if len(octets) > LARGEST:
        raise BadMessage(f"@{path}: larger than {LARGEST >> 20} MiB")
    return octets


def _from_hex(digits: bytes) -> bytes:
    try:
        return bytes.fromhex(digits.decode("ascii"))
    except ValueError:
        shown = digits[:20].decode("utf-8", "backslashreplace")
        raise BadMessage(
            f"{shown!r} is not hex: use two digits per octet, with or without spaces between octets"
        ) from None
