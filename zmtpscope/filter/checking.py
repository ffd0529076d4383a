"""Check the names and types of a parsed filter, and convert it to conditions that can be evaluated."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

from zmtpscope.filter.conditions import (
    COMPARE,
    Applied,
    Compare,
    Compared,
    ComparedFields,
    Comparison,
    Condition,
    Contains,
    Either,
    Every,
    FieldOperand,
    InNetwork,
    Inverted,
    IsThere,
    Matches,
    OneOf,
    Operand,
    Predicate,
    Within,
    of_members,
)
from zmtpscope.filter.fields import FIELDS, FilterField, Type
from zmtpscope.filter.literals import literal, octets_of
from zmtpscope.filter.syntax import Both, Call, Expression, Not, Path, Range, Slice, Test, Value, parse_operand
from zmtpscope.filter.syntax import Operand as Written
from zmtpscope.filter.tokens import FilterError, Kind, Token
from zmtpscope.option_texts import nearest

PAYLOAD = "payload.fields"
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SEARCHED = (Type.TEXT, Type.OCTETS, Type.MEMBERS)
_UNORDERED = (Type.ADDRESS, Type.TRUTH)


def operand_of(text: str) -> Operand:
    """Parse a field with slices, or a function of it, for outputs such as columns. Raises `FilterError`."""
    return Checker(text).operand(parse_operand(text))


class Checker:
    """Checks a parsed filter and converts it to conditions. `text` is the filter, for error messages."""

    def __init__(self, text: str) -> None:
        self.text = text

    def condition(self, written: Expression) -> Condition:
        """Convert a parsed expression to a condition that can be evaluated. Raises `FilterError`."""
        if isinstance(written, Not):
            return Inverted(self.condition(written.of))
        if isinstance(written, Both):
            parts = tuple(map(self.condition, written.parts))
            return Every(parts) if written.word == "and" else Either(parts)
        return self._test(written)

    def _test(self, test: Test) -> Condition:
        left, operator_ = test.left, test.operator
        if operator_ is None:
            return Compared(self.operand(left), IsThere(), is_all=False)
        if self._is_value(left) and self._is_field(test.right[0]):
            return self._mirrored(test)
        operand = self.operand(left)
        self._check_operator(operand, test)
        is_all = test.quantifier == "all" or (operator_ == "!=" and test.quantifier is None)
        if operator_ == "in":
            return Compared(operand, OneOf(tuple(self._member(operand, each) for each in test.right)), is_all)
        right = test.right[0]
        assert not isinstance(right, Range)
        if not isinstance(right, Value) or self._means_field(operand, right):
            return self._fields_compared(operand, operator_, self.operand(right), right, is_all)
        assert isinstance(right, Value)
        return Compared(operand, self._predicate(operand, operator_, right.token), is_all)

    def _mirrored(self, test: Test) -> Condition:
        assert test.operator is not None
        (right,) = test.right
        if test.operator not in MIRRORED or isinstance(right, Range):
            raise self._error(f"{test.operator} needs a field before it", test.left)
        return self._test(replace(test, left=right, operator=MIRRORED[test.operator], right=(test.left,)))

    # -- operands ----------------------------------------------------------------------------------------------------

    def _is_value(self, written: Written) -> bool:
        return isinstance(written, Value) and self._field_named(written) is None

    def _is_field(self, written: Written | Range) -> bool:
        return not isinstance(written, Range) and not self._is_value(written)

    def _field_named(self, written: Written) -> FieldOperand | None:
        if isinstance(written, Value) and written.token.kind is Kind.WORD:
            return _field(written.token.text, ())
        return None

    def _means_field(self, operand: Operand, right: Value) -> bool:
        """Whether the word after an operator is a field name, and not a value.

        It is if it names a field of the same type, or if it cannot be a value.
        """
        field = self._field_named(right)
        if field is None or right.token.text in _words(operand):
            return False
        return field.type is operand.type or operand.type not in _SEARCHED

    def operand(self, written: Written) -> Operand:
        """Convert a parsed operand to one that can be evaluated. Raises `FilterError`."""
        if isinstance(written, Call):
            inner = self.operand(written.operand)
            if inner.type not in _SEARCHED:
                raise self._error(f"{written.function} needs text or octets, and this is {inner.type.value}", written)
            return Applied(written.function, inner)
        if isinstance(written, Path):
            operand = _field(written.name, written.steps)
            name = written.name
        elif written.token.kind is Kind.WORD:
            operand, name = _field(written.token.text, ()), written.token.text
        else:
            raise self._error("this is text, not a field", written, expected="field")
        if operand is None:
            raise self._unknown(name, written)
        self._check_steps(operand, written)
        return operand

    def _unknown(self, name: str, written: Written) -> FilterError:
        near = difflib.get_close_matches(name, FIELDS, 1, 0.6) or [each for each in FIELDS if each.endswith(f".{name}")]
        hint = f"did you mean {near[0]}?" if near else "zmtpscope fields lists all"
        stop = written.start + len(name)
        return FilterError(f"no field named {name}", self.text, written.start, stop, hint=hint, expected="field")

    def _check_steps(self, operand: FieldOperand, written: Written) -> None:
        field = operand.field
        for number, step in enumerate(operand.steps):
            if field.type is Type.MEMBERS:
                continue
            if isinstance(step, str):
                raise self._error(f"{field.name} has no members", written)
            is_element = number == 0 and field.is_list and step.is_element
            if not is_element and field.type not in (Type.TEXT, Type.OCTETS):
                raise self._error(f"{field.name} is {field.type.value}, which has no slices", written)

    # -- comparisons -------------------------------------------------------------------------------------------------

    def _check_operator(self, operand: Operand, test: Test) -> None:
        token = test.operator_token
        assert token is not None
        name = test.operator
        if name in ("contains", "matches") and operand.type not in _SEARCHED:
            raise self._operator_error(operand, token, "for text and octets; compare with == or <")
        if name in ("<", "<=", ">", ">=") and operand.type in _UNORDERED:
            raise self._operator_error(operand, token, "for numbers, times and text; compare with == or in")

    def _operator_error(self, operand: Operand, token: Token, what_for: str) -> FilterError:
        return FilterError(
            f"{token.text} cannot be applied to {operand.type.value}",
            self.text,
            token.start,
            token.stop,
            hint=f"it is {what_for}",
            expected="operator",
        )

    def _predicate(self, operand: Operand, name: str, token: Token) -> Predicate:
        if name == "matches":
            return pattern(octets_of(token), token, self.text)
        if name == "contains":
            return Contains(literal(_as_text(operand), token, self.text))
        value = literal(described(operand), token, self.text)
        if name in ("==", "!=") and (words := _words(operand)) and value not in words:
            sentence, hint = f"no {described(operand).name} is {value}", nearest(value, words).removeprefix("; ")
            raise FilterError(sentence, self.text, token.start, token.stop, hint=hint, expected="value")
        if operand.type is Type.ADDRESS:
            return InNetwork(value, is_inverted=name == "!=")
        return Comparison(_compare(operand, name), value)

    def _member(self, operand: Operand, written: Written | Range) -> Predicate:
        if isinstance(written, Range):
            if operand.type in _UNORDERED:
                raise self._error(f"{operand.type.value} has no range", written.low)
            low, high = (literal(described(operand), each.token, self.text) for each in (written.low, written.high))
            return Within(low, high)
        assert isinstance(written, Value)
        return self._predicate(operand, "==", written.token)

    def _fields_compared(self, left: Operand, name: str, right: Operand, written: Written, is_all: bool) -> Condition:
        if left.type is not right.type:
            raise self._error(
                f"the value is {right.type.value}, but the field before {name} is {left.type.value}", written
            )
        for each in (left, right):
            field = described(each)
            if (field.scale, field.shift) != (1, 0):
                ours = field.alias_of
                raise self._error(f"{field.name} can only be compared with numbers", written, hint=f"write {ours}")
        if name == "matches":
            raise self._error("matches needs text in quotes", written, expected="value")
        compare = _has_within if name == "contains" else _compare(left, name)
        return ComparedFields(left, right, compare, is_all)

    def _error(
        self, sentence: str, written: Written, hint: str | None = None, expected: str | None = None
    ) -> FilterError:
        return FilterError(sentence, self.text, written.start, written.stop, hint=hint, expected=expected)


def _words(operand: Operand) -> tuple[str, ...]:
    return operand.field.words if isinstance(operand, FieldOperand) and not operand.steps else ()


def _has_within(value: Any, other: Any) -> bool:
    return type(value) is type(other) and other in value


def _compare(operand: Operand, name: str) -> Compare:
    return of_members(COMPARE[name]) if operand.type is Type.MEMBERS else COMPARE[name]


def _field(name: str, steps: tuple[Slice | str, ...]) -> FieldOperand | None:
    """Return the field `name` with its slices, or the member of a payload with this path; None if there is neither."""
    field = FIELDS.get(name)
    if field is None and name.startswith(f"{PAYLOAD}."):
        field, steps = FIELDS[PAYLOAD], (*name.removeprefix(f"{PAYLOAD}.").split("."), *steps)
    return None if field is None else FieldOperand(field, steps)


def described(operand: Operand) -> FilterField:
    """Return the field whose type and unit apply to values that are compared with an operand."""
    if isinstance(operand, Applied):
        inner = described(operand.operand)
        return replace(inner, name=f"{operand.function}({inner.name})", type=operand.type, scale=1, shift=0)
    return operand.field


def _as_text(operand: Operand) -> FilterField:
    """Return the field for comparisons with a slice or member of an operand.

    Members of payloads have the type text, but match values of any type.
    """
    field = described(operand)
    return replace(field, type=Type.TEXT) if field.type is Type.MEMBERS else field


MEMORY = 8 << 20
"""Maximum memory of a compiled expression, in octets."""

MISSING = "matches needs google-re2, of the extra regex: pip install 'zmtpscope[regex]'; contains needs no extra"


def pattern(expression: bytes, token: Token, text: str) -> Matches:
    """Compile a regular expression to match anywhere in a text, ignoring case.

    `token` is its position in the filter `text`. Raises `FilterError` if the expression is invalid or google-re2 is not
    installed.
    """
    try:
        import re2  # slow to load
    except ModuleNotFoundError:
        raise FilterError(MISSING, text, token.start, token.stop) from None

    def compiled(encoding: Any) -> Any:
        options = re2.Options()
        options.case_sensitive = False
        options.log_errors = False
        options.max_mem = MEMORY
        options.dot_nl = True
        options.encoding = encoding
        return re2.compile(expression, options)

    try:
        texts, octets = compiled(re2.Options.Encoding.UTF8), compiled(re2.Options.Encoding.LATIN1)
    except re2.error as error:
        said = error.args[0]
        reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise FilterError(f"not a regular expression: {reason}", text, token.start, token.stop) from None

    return Matches(texts, octets)
