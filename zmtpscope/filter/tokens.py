"""Split a filter into tokens, each with its position."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple


class FilterError(ValueError):
    """An error at the characters `start` to `stop` of `text`, with a remedy as `hint`. `expected` is the kind of
    token that could be at `start`: "field", "operator", "value", or None if none helps."""

    def __init__(
        self, sentence: str, text: str, start: int, stop: int, *, hint: str | None = None, expected: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.text = text
        self.start = start
        self.stop = max(stop, start + 1)
        self.hint = hint
        self.expected = expected

    def __str__(self) -> str:
        hint = "" if self.hint is None else f"; {self.hint}"
        carets = " " * self.start + "^" * (self.stop - self.start)
        return f"{self.sentence}{hint}\n  {self.text}\n  {carets}"


LONGEST = 10_000
"""Characters of a filter."""


class Kind(Enum):
    STRING = "text in quotes"
    WORD = "a name, a number, or a value without quotes"
    SIGN = "an operator or a bracket"
    END = "the end"


class Token(NamedTuple):
    """A token of a filter with its position. `text` is as written; for quoted text, `value` is its content."""

    kind: Kind
    text: str
    start: int
    stop: int
    value: bytes = b""


_SPACE = re.compile(r"\s*")
_STRING = re.compile(r"""(?P<raw>[rR]?)(?P<quote>["'])""")
_SIGN = re.compile(r"==|!=|<=|>=|&&|\|\||\.\.|[<>!~()\[\]{},]")
_WORD = re.compile(r"(?:\.(?!\.)|[^\s()\[\]{},\"'=!<>&|~.])+")
_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", '"': b'"', "'": b"'"}


def tokens(text: str) -> list[Token]:
    """Split a filter into tokens; the last is `END`. Raises `FilterError`."""
    if len(text) > LONGEST:
        raise FilterError(f"a filter has at most {LONGEST:,} characters", text[:60], 0, 60)
    found: list[Token] = []
    at = 0
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if at == len(text):
            found.append(Token(Kind.END, "", at, at))
            return found
        token = _string(text, at) or _sign_or_word(text, at)
        found.append(token)
        at = token.stop


def _sign_or_word(text: str, at: int) -> Token:
    for kind, pattern in ((Kind.SIGN, _SIGN), (Kind.WORD, _WORD)):
        if match := pattern.match(text, at):
            return Token(kind, match[0], at, match.end())
    wanted = {"=": "==", "&": "&&", "|": "||"}.get(text[at])
    raise FilterError(
        f"{text[at]} is not an operator",
        text,
        at,
        at + 1,
        hint=f"write {wanted}" if wanted else None,
        expected="operator",
    )


def _string(text: str, at: int) -> Token | None:
    begin = _STRING.match(text, at)
    if begin is None:
        return None
    is_raw, quote = bool(begin["raw"]), begin["quote"]
    place, value = begin.end(), b""
    while place < len(text):
        character = text[place]
        if character == quote:
            return Token(Kind.STRING, text[at : place + 1], at, place + 1, value)
        if character == "\\" and place + 1 < len(text):
            size, octets = (2, text[place : place + 2].encode()) if is_raw else _escape(text, place)
            if is_raw and text[place + 1] == quote:
                octets = quote.encode()
            value += octets
            place += size
        else:
            value += character.encode("utf-8", "surrogateescape")
            place += 1
    raise FilterError("this text has no end", text, at, len(text), hint=f"close it with {quote}")


def _escape(text: str, at: int) -> tuple[int, bytes]:
    """Return the length in characters of the escape sequence at `at`, and the octets that it stands for."""
    letter = text[at + 1]
    if letter == "x" and re.fullmatch(r"[0-9A-Fa-f]{2}", text[at + 2 : at + 4]):
        return 4, bytes.fromhex(text[at + 2 : at + 4])
    if letter in _ESCAPES:
        return 2, _ESCAPES[letter]
    raise FilterError(
        f"\\{letter} is not an escape",
        text,
        at,
        at + 2,
        hint=r"write \\ for a backslash, \xNN for an octet, or r'...' for literal text",
    )
