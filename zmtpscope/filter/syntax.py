"""The grammar of filters: parses text into a tree. Names and types are checked later (`checking.py`).

filter     = and { ("or" | "||") and }
and        = not { ("and" | "&&") not }
not        = ("not" | "!") not | "(" filter ")" | test
test       = [ "any" | "all" ] operand [ operator operand | "in" "{" member { [","] member } "}" ]
member     = value [ ".." value ]
operand    = function "(" operand ")" | path | value
path       = WORD { "[" index "]" }
index      = number | [number] ":" [number] | number "-" number | STRING
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from zmtpscope.filter.tokens import FilterError, Kind, Token, tokens

OPERATORS = {
    "==": "==",
    "eq": "==",
    "!=": "!=",
    "ne": "!=",
    "<": "<",
    "lt": "<",
    "<=": "<=",
    "le": "<=",
    ">": ">",
    "gt": ">",
    ">=": ">=",
    "ge": ">=",
    "contains": "contains",
    "matches": "matches",
    "~": "matches",
}

FUNCTIONS = ("len", "lower", "upper")
DEEPEST = 50
"""Maximum depth of brackets and `not`."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice: `length` octets, characters or elements from `start` on (None: to the end).

    A negative `start` counts from the end. `is_element`: one element, as in `[2]`.
    """

    start: int
    length: int | None
    is_element: bool
    """Whether it was written as a single number, which selects that element of a list."""


@dataclass(frozen=True, slots=True)
class Path:
    """A field name with slices and quoted member names, at the characters `start..stop` of the filter."""

    name: str
    steps: tuple[Slice | str, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Value:
    """A value in a filter: a quoted text or a word."""

    token: Token

    @property
    def start(self) -> int:
        return self.token.start

    @property
    def stop(self) -> int:
        return self.token.stop


@dataclass(frozen=True, slots=True)
class Call:
    """A function of one operand: `len(topic)`."""

    function: str
    operand: Operand
    start: int
    stop: int


Operand = Path | Value | Call


@dataclass(frozen=True, slots=True)
class Range:
    """A range of values, `1..5`; both limits are included."""

    low: Value
    high: Value


@dataclass(frozen=True, slots=True)
class Test:
    """A comparison or, without `operator`, a test whether the field has a value.

    `right` has several members for "in". `quantifier` is "any", "all" or None.
    """

    left: Operand
    operator: str | None
    operator_token: Token | None
    right: tuple[Operand | Range, ...]
    quantifier: str | None


@dataclass(frozen=True, slots=True)
class Not:
    of: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """Two or more expressions joined by `word`, "and" or "or"."""

    word: str
    parts: tuple[Expression, ...]


Expression = Test | Not | Both


class What(Enum):
    FIELD = "a field, or a prefix of one"
    OPERATOR = "an operator"
    VALUE = "a value"
    SET = "the bracket of a set"
    MEMBER = "a value of a set, or its end"
    JOINER = "the next test"
    NOTHING = "nothing known"


class Next(NamedTuple):
    """The tokens that may follow an incomplete filter.

    - `what`: the kind of the next token
    - `left`: the operand on the left if a comparison follows
    - `joiners`: "and" and "or" if they are possible too
    - `inside`: where a field stands: as an argument of a function ("("), after `any` or `all`, which require a
      comparison ("any"), or as a complete test ("")
    """

    what: What
    left: Operand | None = None
    joiners: tuple[str, ...] = ()
    inside: str = ""


def parse(text: str) -> Expression:
    """Parse a filter into a tree. Raises `FilterError`."""
    return _Parser(text).filter()


def parse_next(text: str) -> Next:
    """Return the tokens that may follow an incomplete filter. Raises `FilterError` if the text has no tokens."""
    parser = _Parser(text)
    with suppress(FilterError):  # it is incomplete
        parser.filter()
    return parser.following or Next(What.NOTHING)


def parse_operand(text: str) -> Operand:
    """Parse an operand without a comparison: `topic[0:4]`. Raises `FilterError`."""
    return _Parser(text).operand_alone()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.depth = 0
        self.brackets = 0
        self.following: Next | None = None
        """The tokens that may follow if more is written."""

    # -- tokens ------------------------------------------------------------------------------------------------------

    @property
    def next(self) -> Token:
        return self.tokens[self.at]

    def advance(self) -> Token:
        token = self.next
        self.at += token.kind is not Kind.END
        return token

    def is_next(self, *texts: str) -> bool:
        token = self.next
        return token.kind in (Kind.SIGN, Kind.WORD) and token.text in texts

    def skip(self, *texts: str) -> bool:
        if self.is_next(*texts):
            self.advance()
            return True
        return False

    def expect(self, sign: str, opened: Token) -> Token:
        if not self.is_next(sign):
            raise self.error(f"{opened.text} has no {sign}", opened)
        return self.advance()

    def error(
        self, sentence: str, at: Token, hint: str | None = None, expected: str | None = None, stop: int | None = None
    ) -> FilterError:
        return FilterError(
            sentence, self.text, at.start, at.stop if stop is None else stop, hint=hint, expected=expected
        )

    def may_follow(self, *following: Any) -> None:
        """Store which tokens may follow, if the end of the filter is reached."""
        if self.next.kind is Kind.END and self.following is None:
            self.following = Next(*following)

    @property
    def joiners(self) -> tuple[str, ...]:
        return ("and", "or", ")") if self.brackets else ("and", "or")

    # -- the grammar -------------------------------------------------------------------------------------------------

    def filter(self) -> Expression:
        self.may_follow(What.FIELD)
        if self.next.kind is Kind.END:
            raise self.error("the filter is empty", self.next, "write a field, for example topic", "field")
        expression = self.either()
        rest = self.next
        if rest.kind is not Kind.END:
            if rest.text in ")]}":
                raise self.error(f"{rest.text} closes nothing", rest)
            raise self.error(f"{rest.text} is not expected here", rest, "join tests with and, or", "operator")
        return expression

    def operand_alone(self) -> Operand:
        if self.next.kind is Kind.END:
            raise self.error("no field is named", self.next, "write one, for example topic", "field")
        operand, rest = self.operand(), self.next
        if rest.kind is not Kind.END:
            raise self.error(f"{rest.text} is not expected here", rest, "write one field, or a part of it")
        return operand

    def either(self) -> Expression:
        return self.joined("or", ("or", "||"), self.every)

    def every(self) -> Expression:
        return self.joined("and", ("and", "&&"), self.negated)

    def joined(self, word: str, texts: tuple[str, ...], part: Callable[[], Expression]) -> Expression:
        parts = [part()]
        while self.skip(*texts):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Both(word, tuple(parts))

    def negated(self) -> Expression:
        token = self.next
        self.may_follow(What.FIELD)
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error(f"more than {DEEPEST} brackets and nots are nested", token)
        try:
            if self.skip("not", "!"):
                return Not(self.negated())
            if self.skip("("):
                self.brackets += 1
                inside = self.either()
                self.expect(")", token)
                self.brackets -= 1
                self.may_follow(What.JOINER, None, self.joiners)
                return inside
            return self.test()
        finally:
            self.depth -= 1

    def test(self) -> Test:
        quantifier = self.advance().text if self.is_next("any", "all") else None
        opened = self.next
        is_bracketed = quantifier is not None and self.skip("(")
        self.may_follow(What.FIELD, None, (), "any")
        left = self.operand()
        self.may_follow(What.OPERATOR, left, () if quantifier is not None else self.joiners)
        operator = self.next
        right: tuple[Operand | Range, ...] = ()
        name: str | None = None
        if self.skip("in"):
            name, right = "in", self.members(operator, left)
        elif operator.kind in (Kind.SIGN, Kind.WORD) and operator.text in OPERATORS:
            self.advance()
            self.may_follow(What.VALUE, left)
            name, right = OPERATORS[operator.text], (self.operand(),)
        elif quantifier is not None:
            raise self.error(f"{quantifier} needs a comparison", operator, "for example: all sizes > 100", "operator")
        self.may_follow(What.JOINER, None, (")",) if is_bracketed else self.joiners)
        if is_bracketed:
            self.expect(")", opened)
            self.may_follow(What.JOINER, None, self.joiners)
        return Test(left, name, operator if name else None, right, quantifier)

    def members(self, operator: Token, left: Operand) -> tuple[Operand | Range, ...]:
        opened = self.next
        self.may_follow(What.SET, left)
        if not self.skip("{"):
            raise self.error("in needs a set", opened, 'for example: topic in {"a", "b"} or size in {1..100}', "value")
        members: list[Operand | Range] = []
        while not self.is_next("}"):
            low = self.value(opened, left)
            members.append(Range(low, self.value(opened, left)) if self.skip("..") else low)
            self.skip(",")
        self.advance()
        if not members:
            raise self.error("the set is empty", opened, stop=self.tokens[self.at - 1].stop, expected="value")
        return tuple(members)

    def value(self, opened: Token, left: Operand) -> Value:
        token = self.next
        self.may_follow(What.MEMBER, left)
        if token.kind is Kind.END:
            raise self.error("the set has no }", opened)
        if token.kind is Kind.SIGN:
            raise self.error(f"{token.text} is not a value", token, expected="value")
        return Value(self.advance())

    def operand(self) -> Operand:
        token = self.next
        if token.kind is Kind.END:
            before = self.tokens[self.at - 1] if self.at else token
            expected = "value" if before.text in OPERATORS else "field"
            raise self.error(f"a {expected} is missing after {before.text}", token, expected=expected)
        if token.kind is Kind.SIGN:
            raise self.error(f"{token.text} is not expected here", token, "write a field or a value", "field")
        self.advance()
        if token.kind is Kind.STRING:
            return Value(token)
        opened = self.next
        if token.text in FUNCTIONS and self.skip("("):
            self.may_follow(What.FIELD, None, (), "(")
            operand = self.operand()
            closed = self.expect(")", opened)
            return Call(token.text, operand, token.start, closed.stop)
        steps: list[Slice | str] = []
        while self.is_next("["):
            steps.append(self.index(self.advance()))
        if not steps:
            return Value(token)  # a name or a value, depending on the context
        return Path(token.text, tuple(steps), token.start, self.tokens[self.at - 1].stop)

    def index(self, opened: Token) -> Slice | str:
        token = self.advance()
        if token.kind is Kind.STRING:
            self.expect("]", opened)
            return token.value.decode("utf-8", "backslashreplace")
        end = self.expect("]", opened)
        found = _slice_of(token.text)
        if found is None:
            hint = 'write [start:length], [first-last], [number] or, of a member, ["its name"]'
            raise self.error(f"{token.text} is not a slice", token, hint, stop=end.start)
        return found


def _slice_of(text: str) -> Slice | None:
    """Parse a slice as in Wireshark: `4:2` is two from 4 on, `4-5` is 4 and 5, `4:` is from 4 on, `:4` is the first
    four, `4` is one."""
    match = re.fullmatch(r"(-?\d{1,9})?(?:([:-])(\d{1,9})?)?", text)
    if match is None or not text or text == ":":
        return None
    start, sign, other = match.groups()
    first = int(start or 0)
    if sign is None:
        return Slice(first, 1, True)
    if sign == ":":
        return Slice(first, None if other is None else int(other), False)
    if start is None or other is None or int(other) < first or first < 0:
        return None
    return Slice(first, int(other) - first + 1, False)
