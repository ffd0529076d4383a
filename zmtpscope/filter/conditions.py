"""A filter whose names are known and whose types fit: conditions on the values of one record.

The rules (docs/filters.md): a comparison with a field that has no value is false, and `not` inverts that. Of several
values one that fits is enough; `!=` and `all` want every one, and at least one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from zmtpscope.filter.fields import FilterField, Type, Values
from zmtpscope.filter.predicates import Predicate
from zmtpscope.filter.syntax import Slice
from zmtpscope.records import from_text, to_text


class Condition(Protocol):
    """Something that a record fulfils or not."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of records that it looks at."""

    def holds(self, record: Values) -> bool:
        """Whether the record fulfils it."""


# -- values of a record --------------------------------------------------------------------------------------------


class Operand(Protocol):
    """Something that has values for a record."""

    @property
    def type(self) -> Type:
        """What they are."""

    @property
    def reads(self) -> frozenset[str]:
        """The fields of records that it looks at."""

    def values(self, record: Values) -> Iterable[Any]:
        """Its values, none of them null."""


@dataclass(frozen=True, slots=True)
class FieldOperand:
    """A field, and what of it."""

    field: FilterField
    steps: tuple[Slice | str, ...] = ()

    @property
    def type(self) -> Type:
        """That of the field."""
        return self.field.type

    @property
    def reads(self) -> frozenset[str]:
        """The fields of records that it is made of."""
        return frozenset(self.field.reads)

    def values(self, record: Values) -> Iterable[Any]:
        """Those of the field, cut as the steps say."""
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
    """The members that the steps lead to; on the way, and at the end, every element of a list is meant."""
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
    """What a function makes of each value of its operand."""

    function: str
    operand: Operand

    @property
    def type(self) -> Type:
        """A number for `len`, else that of the operand."""
        return Type.NUMBER if self.function == "len" else self.operand.type

    @property
    def reads(self) -> frozenset[str]:
        """Those of the operand."""
        return self.operand.reads

    def values(self, record: Values) -> Iterable[Any]:
        """The function of each."""
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


@dataclass(frozen=True, slots=True)
class Compared:
    """`predicate` is true of one value of the operand, or, with `is_all`, of all that it has."""

    operand: Operand
    predicate: Predicate
    is_all: bool

    @property
    def reads(self) -> frozenset[str]:
        """Those of the operand."""
        return self.operand.reads

    def holds(self, record: Values) -> bool:
        """Whether one value, or every one, fits."""
        values = self.operand.values(record)
        if not self.is_all:
            return any(map(self.predicate, values))
        values = list(values)
        return bool(values) and all(map(self.predicate, values))


@dataclass(frozen=True, slots=True)
class ComparedFields:
    """The same of the values of two operands, each with each."""

    left: Operand
    right: Operand
    compare: Callable[[Any, Any], bool]
    is_all: bool

    @property
    def reads(self) -> frozenset[str]:
        """Those of both."""
        return self.left.reads | self.right.reads

    def holds(self, record: Values) -> bool:
        """Whether one pair of values, or every one, fits."""
        others = list(self.right.values(record))
        pairs = [self.compare(value, other) for value in self.left.values(record) for other in others]
        return all(pairs) and bool(pairs) if self.is_all else any(pairs)


@dataclass(frozen=True, slots=True)
class Inverted:
    """The opposite of a condition."""

    of: Condition

    @property
    def reads(self) -> frozenset[str]:
        """Those of the condition."""
        return self.of.reads

    def holds(self, record: Values) -> bool:
        """Whether the condition does not."""
        return not self.of.holds(record)


@dataclass(frozen=True, slots=True)
class Every:
    """All of these."""

    parts: tuple[Condition, ...]

    @property
    def reads(self) -> frozenset[str]:
        """Those of all."""
        return frozenset().union(*(part.reads for part in self.parts))

    def holds(self, record: Values) -> bool:
        """Whether each does."""
        return all(part.holds(record) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of these."""

    parts: tuple[Condition, ...]

    @property
    def reads(self) -> frozenset[str]:
        """Those of all."""
        return frozenset().union(*(part.reads for part in self.parts))

    def holds(self, record: Values) -> bool:
        """Whether one does."""
        return any(part.holds(record) for part in self.parts)
