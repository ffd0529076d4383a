"""Find the possible tokens at a position of an incomplete filter."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.conditions import Operand
from zmtpscope.filter.syntax import FUNCTIONS, OPERATORS
from zmtpscope.filter.tokens import FilterError, Kind, Token, tokens

JOINERS = ("and", "or", "&&", "||")
QUANTIFIERS = ("any", "all")

_WORD = re.compile(r"[^\s()\[\]{},\"'=!<>&|~]*$")
_REST_OF_WORD = re.compile(r"[^\s()\[\]{},\"'=!<>&|~]*")
_SIGN = re.compile(r"[=!<>&|]$")


class What(Enum):
    FIELD = "a field, or a prefix of one"
    OPERATOR = "an operator"
    VALUE = "a value"
    SET = "the bracket of a set"
    MEMBER = "a value of a set, or its end"
    JOINER = "the next test"
    NOTHING = "nothing known"


class Expected(NamedTuple):
    """The tokens that can replace the characters `start..stop`: `what` is their kind, `typed` the characters typed so
    far.

    `operand` is the preceding operand if a comparison follows. `joiners` (and, or) are also possible, or alone. `in` is
    the place of a field: an argument of a function ("("), after `any` or `all`, which require a comparison ("any"), or
    a complete test ("").
    """

    what: What
    start: int
    stop: int
    typed: str
    operand: Operand | None = None
    joiners: tuple[str, ...] = ()
    inside: str = ""


def expected(text: str, place: int) -> Expected:
    """Return what a filter may contain at a position of `text`."""
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
    """Return the start of an unclosed quoted text, or None."""
    try:
        tokens(text)
    except FilterError as error:
        return error.start if text[error.start] in "\"'" else None
    return None


def _after(text: str) -> Expected:
    """Return what may follow complete words."""
    nothing = Expected(What.NOTHING, len(text), len(text), "")
    try:
        found = tokens(text)
    except FilterError:
        return nothing
    reader = _Reader(text, found)
    what = reader.read()
    operand = reader.operand if what in (What.OPERATOR, What.VALUE, What.SET, What.MEMBER) else None
    inside = "(" if reader.is_call else "any" if reader.is_quantified else ""
    return nothing._replace(what=what, operand=operand, joiners=reader.joiners(what), inside=inside)


class _Reader:
    """Reads the tokens of an incomplete filter as `syntax.py` does."""

    def __init__(self, text: str, found: list[Token]) -> None:
        self.text = text
        self.tokens = found[:-1]
        self.at = 0
        self.depth = 0
        self.operand: Operand | None = None
        self.is_quantified = False
        """A comparison must follow `any` or `all`."""
        self.is_bracketed = False
        """Whether that comparison is in its own brackets."""
        self.is_call = False

    def read(self) -> What:
        """Return the kind of token after all tokens."""
        what = What.FIELD
        while self.at < len(self.tokens) and what is not What.NOTHING:
            what = _STEPS[what](self)
        return what

    def joiners(self, what: What) -> tuple[str, ...]:
        """Return the words that may follow if a test ends here."""
        if what is not What.JOINER and (what is not What.OPERATOR or self.is_quantified):
            return ()
        closing = (")",) if self.depth or self.is_bracketed else ()
        return closing if self.is_bracketed else ("and", "or", *closing)

    def next(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def is_next(self, text: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].text == text

    def field(self) -> What:
        token = self.next()
        if token.kind is not Kind.STRING and not self.is_quantified:
            if token.text in ("not", "!"):
                return What.FIELD
            if token.text in QUANTIFIERS:
                self.is_quantified, self.is_bracketed = True, self.is_next("(")
                self.at += self.is_bracketed
                return What.FIELD
            if token.text == "(":
                self.depth += 1
                return What.FIELD
        if token.kind is Kind.SIGN:
            return What.NOTHING
        if token.text in FUNCTIONS and self.is_next("(") and not self.pass_by("(", ")"):
            self.is_call = self.at + 1 == len(self.tokens)
            self.at = len(self.tokens)
            return What.FIELD if self.is_call else What.NOTHING
        return self.behind_operand(token.start)

    def behind_operand(self, begin: int) -> What:
        while self.is_next("["):
            if not self.pass_by("[", "]"):
                return What.NOTHING
        try:
            self.operand = operand_of(self.text[begin : self.tokens[self.at - 1].stop])
        except FilterError:
            return What.NOTHING
        return What.OPERATOR

    def pass_by(self, opening: str, closing: str) -> bool:
        """Skip to the matching closing bracket; return False if there is none."""
        depth = 0
        for place in range(self.at, len(self.tokens)):
            text = self.tokens[place].text
            depth += (text == opening) - (text == closing)
            if not depth:
                self.at = place + 1
                return True
        return False

    def operator(self) -> What:
        token = self.tokens[self.at]
        if token.kind is Kind.STRING:
            return What.NOTHING
        if token.text in OPERATORS:
            self.at += 1
            return What.VALUE
        if token.text == "in":
            self.at += 1
            return What.SET
        return What.NOTHING if self.is_quantified else self.joiner()

    def value(self) -> What:
        token = self.next()
        while self.is_next("["):
            if not self.pass_by("[", "]"):
                return What.NOTHING
        return What.NOTHING if token.kind is Kind.SIGN else What.JOINER

    def set(self) -> What:
        return What.MEMBER if self.next().text == "{" else What.NOTHING

    def member(self) -> What:
        token = self.next()
        if token.text == "}":
            return What.JOINER
        return What.NOTHING if token.kind is Kind.SIGN and token.text not in (",", "..") else What.MEMBER

    def joiner(self) -> What:
        token = self.next()
        if token.kind is Kind.STRING:
            return What.NOTHING
        if self.is_bracketed:
            self.is_quantified = self.is_bracketed = False
            return What.JOINER if token.text == ")" else What.NOTHING
        self.is_quantified = False
        if token.text == ")" and self.depth:
            self.depth -= 1
            return What.JOINER
        return What.FIELD if token.text in JOINERS else What.NOTHING


_STEPS = {
    What.FIELD: _Reader.field,
    What.OPERATOR: _Reader.operator,
    What.VALUE: _Reader.value,
    What.SET: _Reader.set,
    What.MEMBER: _Reader.member,
    What.JOINER: _Reader.joiner,
}
