"""Conditions on one record, with resolved names and types (docs/filters.md).

A comparison with a field without a value is false, and `not` makes it true. If a field has several values, one of them
must fit; `!=` and `all` require that there is a value and that all fit.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zmtpscope.filter.fields import FilterField, Type, Values
from zmtpscope.filter.literals import Network, address
from zmtpscope.filter.syntax import Slice
from zmtpscope.records import from_text, to_text

Compare = Callable[[Any, Any], Any]

COMPARE: dict[str, Compare] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Operators, which work on arrays, too."""


@dataclass(frozen=True, slots=True)
class IsThere:
    """Predicate for a field name alone: true for any value except `false`."""

    def __call__(self, value: Any) -> bool:
        return value is not False


@dataclass(frozen=True, slots=True)
class Comparison:
    compare: Compare
    other: Any

    def __call__(self, value: Any) -> bool:
        return bool(self.compare(value, self.other))


@dataclass(frozen=True, slots=True)
class Within:
    """Predicate: a value is between two limits, which are both included."""

    low: Any
    high: Any

    def __call__(self, value: Any) -> bool:
        return are_alike(value, self.low) and bool(self.low <= value <= self.high)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Predicate: a value fits any of several predicates."""

    predicates: tuple[Predicate, ...]

    def __call__(self, value: Any) -> bool:
        return any(predicate(value) for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class InNetwork:
    """Predicate: an address is in a network, or with `is_inverted` outside of it."""

    network: Network
    is_inverted: bool = False

    def __call__(self, value: str) -> bool:
        found = address(value)
        is_inside = found is not None and found.version == self.network.version and found in self.network
        return is_inside is not self.is_inverted


@dataclass(frozen=True, slots=True)
class Contains:
    part: Any

    def __call__(self, value: Any) -> bool:
        """Return whether a text or octets contain the part; false for values of other types."""
        return type(value) is type(self.part) and self.part in value


@dataclass(frozen=True, slots=True)
class Matches:
    """Predicate: a text matches a regular expression anywhere; `checking.pattern` compiles it."""

    in_text: Any
    in_octets: Any

    def __call__(self, value: Any) -> bool:
        """Return whether a text or octets match; false for values of other types."""
        if isinstance(value, str):
            return self.in_text.search(value) is not None
        return isinstance(value, bytes) and self.in_octets.search(value) is not None


Predicate = IsThere | Comparison | Within | OneOf | InNetwork | Contains | Matches


def bounds(predicate: Predicate) -> tuple[int | None, int | None, bool] | None:
    """Return the numbers that fit a predicate as (lowest, highest, inverted), both included.

    Inverted: the numbers outside of the interval fit. None if the predicate is no interval of numbers.
    """
    if isinstance(predicate, Within) and isinstance(predicate.low, int | Fraction):
        return math.ceil(predicate.low), math.floor(predicate.high), False
    if not isinstance(predicate, Comparison) or not isinstance(predicate.other, int | Fraction):
        return None
    other, compare = predicate.other, predicate.compare
    if compare in (operator.eq, operator.ne):
        return math.ceil(other), math.floor(other), compare is operator.ne
    if compare in (operator.lt, operator.le):
        return None, math.floor(other) if compare is operator.le else math.ceil(other) - 1, False
    if compare in (operator.gt, operator.ge):
        return math.ceil(other) if compare is operator.ge else math.floor(other) + 1, None, False
    return None


def of_members(compare: Compare) -> Compare:
    """Return a comparison for payload members, whose types are unknown.

    Two values that cannot be compared fulfil only `!=`.
    """
    return lambda value, other: compare(value, other) if are_alike(value, other) else compare is operator.ne


def are_alike(value: Any, other: Any) -> bool:
    """Whether two values are both numbers, or have the same type. Truth values are not numbers."""
    numbers = (int, float)
    if isinstance(value, bool) or isinstance(other, bool):
        return isinstance(value, bool) and isinstance(other, bool)
    if isinstance(value, numbers):
        return isinstance(other, (*numbers, Fraction))
    return type(value) is type(other)


# -- values of a record --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldOperand:
    """The values of a field, or slices or members of these values."""

    field: FilterField
    steps: tuple[Slice | str, ...] = ()

    @property
    def type(self) -> Type:
        return self.field.type

    @property
    def reads(self) -> frozenset[str]:
        """The record fields from which the values are derived."""
        return frozenset(self.field.reads)

    def values(self, record: Values) -> Iterable[Any]:
        """Yield the values of a record, after applying slices and members."""
        found = self.field.values(record)
        if self.type is Type.MEMBERS:
            return _members(found, self.steps)
        for number, step in enumerate(self.steps):
            assert isinstance(step, Slice)
            if number == 0 and self.field.is_list and step.is_element:
                elements = list(found)
                found = elements[step.start :][:1] if step.start >= -len(elements) else ()
            else:
                found = [_sliced(value, step) for value in found]
        return found


def _sliced(value: Any, step: Slice) -> Any:
    octets = from_text(value) if isinstance(value, str) else value
    part = octets[step.start :][: step.length]
    return to_text(part) if isinstance(value, str) else part


def _members(found: Iterable[Any], steps: tuple[Slice | str, ...]) -> list[Any]:
    """Return the members that `steps` select. A list stands for all of its elements."""
    for step in steps:
        following: list[Any] = []
        for value in found:
            if isinstance(step, Slice):
                if isinstance(value, list):
                    following += value[step.start :][: step.length] if step.start >= -len(value) else []
            else:
                for each in value if isinstance(value, list) else (value,):
                    if isinstance(each, dict) and each.get(step) is not None:
                        following.append(each[step])
        found = following
    return [each for value in found for each in (value if isinstance(value, list) else (value,)) if each is not None]


@dataclass(frozen=True, slots=True)
class Applied:
    function: str
    operand: Operand

    @property
    def type(self) -> Type:
        """The type of the results: a number for `len`, otherwise the type of the operand."""
        return Type.NUMBER if self.function == "len" else self.operand.type

    @property
    def reads(self) -> frozenset[str]:
        return self.operand.reads

    def values(self, record: Values) -> Iterable[Any]:
        return [made for value in self.operand.values(record) if (made := _APPLY[self.function](value)) is not None]


def _length(value: Any) -> int | None:
    if isinstance(value, str):
        return len(from_text(value))
    return len(value) if isinstance(value, (bytes, list, dict)) else None


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, (str, bytes)) else None


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, (str, bytes)) else None


_APPLY: dict[str, Callable[[Any], Any]] = {"len": _length, "lower": _lower, "upper": _upper}


# -- conditions ------------------------------------------------------------------------------------------------------


Operand = FieldOperand | Applied
"""A source of values of a record: `reads` names its fields, and `values` yields them without nulls."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Condition: `predicate` is true for any value of the operand or, with `is_all`, for all values."""

    operand: Operand
    predicate: Predicate
    is_all: bool

    @property
    def reads(self) -> frozenset[str]:
        return self.operand.reads

    def holds(self, record: Values) -> bool:
        values = self.operand.values(record)
        if not self.is_all:
            return any(map(self.predicate, values))
        values = list(values)
        return bool(values) and all(map(self.predicate, values))


@dataclass(frozen=True, slots=True)
class ComparedFields:
    """Condition: `compare` is true for any pair of values of two operands or, with `is_all`, for all pairs."""

    left: Operand
    right: Operand
    compare: Callable[[Any, Any], bool]
    is_all: bool

    @property
    def reads(self) -> frozenset[str]:
        return self.left.reads | self.right.reads

    def holds(self, record: Values) -> bool:
        others = list(self.right.values(record))
        pairs = [self.compare(value, other) for value in self.left.values(record) for other in others]
        return all(pairs) and bool(pairs) if self.is_all else any(pairs)


@dataclass(frozen=True, slots=True)
class Inverted:
    of: Condition

    @property
    def reads(self) -> frozenset[str]:
        return self.of.reads

    def holds(self, record: Values) -> bool:
        return not self.of.holds(record)


@dataclass(frozen=True, slots=True)
class Every:
    """Condition: all parts are true."""

    parts: tuple[Condition, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(part.reads for part in self.parts))

    def holds(self, record: Values) -> bool:
        return all(part.holds(record) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """Condition: any part is true."""

    parts: tuple[Condition, ...]

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(part.reads for part in self.parts))

    def holds(self, record: Values) -> bool:
        return any(part.holds(record) for part in self.parts)


Condition = Compared | ComparedFields | Inverted | Every | Either
"""`reads` names the fields of a record that decide whether it `holds`."""
