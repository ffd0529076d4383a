"""What one value is compared with: predicates, which are called with a value that is not null."""

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
"""These do for arrays, too."""


@dataclass(frozen=True, slots=True)
class IsThere:
    """Any value will do; one that is true or false has to be true."""

    def __call__(self, value: Any) -> bool:
        """Whether it does."""
        return value is not False


@dataclass(frozen=True, slots=True)
class Comparison:
    """The value and `other` compare so."""

    compare: Compare
    other: Any

    def __call__(self, value: Any) -> bool:
        """Whether they do."""
        return bool(self.compare(value, self.other))


@dataclass(frozen=True, slots=True)
class Within:
    """The value lies between two others, both included."""

    low: Any
    high: Any

    def __call__(self, value: Any) -> bool:
        """Whether it does."""
        return are_alike(value, self.low) and bool(self.low <= value <= self.high)


@dataclass(frozen=True, slots=True)
class OneOf:
    """At least one of these predicates is true."""

    predicates: tuple[Predicate, ...]

    def __call__(self, value: Any) -> bool:
        """Whether one is."""
        return any(predicate(value) for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class InNetwork:
    """The value is an address, as records have it, of a network; or, inverted, of none but others."""

    network: Network
    is_inverted: bool = False

    def __call__(self, value: str) -> bool:
        """Whether it is."""
        found = address(value)
        is_inside = found is not None and found.version == self.network.version and found in self.network
        return is_inside is not self.is_inverted


@dataclass(frozen=True, slots=True)
class Contains:
    """Text or octets have these within them."""

    part: Any

    def __call__(self, value: Any) -> bool:
        """Whether they do; a value of another type does not."""
        return type(value) is type(self.part) and self.part in value


@dataclass(frozen=True, slots=True)
class Matches:
    """A regular expression fits somewhere; see `patterns.py`."""

    in_text: Any
    in_octets: Any

    def __call__(self, value: Any) -> bool:
        """Whether it does; in what is neither text nor octets it does not."""
        if isinstance(value, str):
            return self.in_text.search(value) is not None
        return isinstance(value, bytes) and self.in_octets.search(value) is not None


Predicate = IsThere | Comparison | Within | OneOf | InNetwork | Contains | Matches


def of_members(compare: Compare) -> Compare:
    """The same for values of payloads, whose types nobody declared: what cannot be compared fits `!=` alone."""
    return lambda value, other: compare(value, other) if are_alike(value, other) else compare is operator.ne


def are_alike(value: Any, other: Any) -> bool:
    """Whether both are numbers, or of the same type; true and false are no numbers."""
    numbers = (int, float)
    if isinstance(value, bool) or isinstance(other, bool):
        return isinstance(value, bool) and isinstance(other, bool)
    if isinstance(value, numbers):
        return isinstance(other, (*numbers, Fraction))
    return type(value) is type(other)
