"""Find the tokens that a user can type next in an incomplete filter."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import NamedTuple

from zmtpscope.filter.checking import Checker
from zmtpscope.filter.conditions import Operand
from zmtpscope.filter.syntax import What, parse_next
from zmtpscope.filter.tokens import FilterError, tokens

_WORD = re.compile(r"[^\s()\[\]{},\"'=!<>&|~]*$")
_REST_OF_WORD = re.compile(r"[^\s()\[\]{},\"'=!<>&|~]*")
_SIGN = re.compile(r"[=!<>&|]$")


class Expected(NamedTuple):
    """The tokens that a user can type in place of the characters `start..stop` of a filter.

    `what` is the kind of token, `typed` the characters typed so far. The other fields are those of `Next`, of which
    `operand` is `left`.
    """

    what: What
    start: int
    stop: int
    typed: str
    operand: Operand | None = None
    joiners: tuple[str, ...] = ()
    inside: str = ""


def expected(text: str, place: int) -> Expected:
    """Return the tokens that a user can type at the character `place` of the filter `text`."""
    before = text[:place]
    start = _open_quote(before)
    if start is not None:
        stop = place + text[place : place + 1].startswith(before[start])
    elif (sign := _SIGN.search(before)) and (found := _after(before[: sign.start()])).what is What.OPERATOR:
        return found._replace(start=sign.start(), stop=place, typed=sign[0])
    else:
        start = _WORD.search(before).start()  # type: ignore[union-attr]  # it matches everywhere
        stop = place + _REST_OF_WORD.match(text, place).end() - place  # type: ignore[union-attr]
    return _after(before[:start])._replace(start=start, stop=stop, typed=before[start:])


def _open_quote(text: str) -> int | None:
    """Return the index of the quote of an unclosed quoted text, or None."""
    try:
        tokens(text)
    except FilterError as error:
        return error.start if text[error.start] in "\"'" else None
    return None


def _after(text: str) -> Expected:
    """Return the tokens that a user can type after `text`, which ends with a complete word."""
    with suppress(FilterError):
        what, left, joiners, inside = parse_next(text)
        operand = None if left is None else Checker(text).operand(left)
        return Expected(what, len(text), len(text), "", operand, joiners, inside)
    return Expected(What.NOTHING, len(text), len(text), "")
