"""Predicates: tests of a single value that is not null."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from zmtpscope.filter.literals import Network, address

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
    """True for any value except `false`."""

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
    """The value is between two limits, which are both included."""

    low: Any
    high: Any

    def __call__(self, value: Any) -> bool:
        return are_alike(value, self.low) and bool(self.low <= value <= self.high)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several predicates is true."""

    predicates: tuple[Predicate, ...]

    def __call__(self, value: Any) -> bool:
        return any(predicate(value) for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class InNetwork:
    """The address is in a network, or outside it if `inverted`."""

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
        """False for other types than text or octets."""
        return type(value) is type(self.part) and self.part in value


@dataclass(frozen=True, slots=True)
class Matches:
    """The text matches a pattern anywhere; see `patterns.py`."""

    in_text: Any
    in_octets: Any

    def __call__(self, value: Any) -> bool:
        """False unless the value is text or octets."""
        if isinstance(value, str):
            return self.in_text.search(value) is not None
        return isinstance(value, bytes) and self.in_octets.search(value) is not None


Predicate = IsThere | Comparison | Within | OneOf | InNetwork | Contains | Matches


def of_members(compare: Compare) -> Compare:
    """Compare payload values of unknown type: two values that cannot be compared fulfil only `!=`."""
    return lambda value, other: compare(value, other) if are_alike(value, other) else compare is operator.ne


def are_alike(value: Any, other: Any) -> bool:
    """Whether both are numbers, or of the same type. Truth values are not numbers."""
    numbers = (int, float)
    if isinstance(value, bool) or isinstance(other, bool):
        return isinstance(value, bool) and isinstance(other, bool)
    if isinstance(value, numbers):
        return isinstance(other, (*numbers, Fraction))
    return type(value) is type(other)
