"""A compiled filter, and the record types that can match it."""

from __future__ import annotations

from zmtpscope.filter.checking import Checker, described
from zmtpscope.filter.conditions import Compared, ComparedFields, Condition, Either, Every
from zmtpscope.filter.fields import Values
from zmtpscope.filter.syntax import parse
from zmtpscope.records import RECORDS


class Filter:
    """A compiled filter expression (docs/filters.md). Raises `FilterError` if it is invalid."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.condition = Checker(text).condition(parse(text))

    @property
    def reads(self) -> frozenset[str]:
        return self.condition.reads

    def holds(self, record: Values) -> bool:
        """Return whether the filter matches a record, given as fields by name with octets as bytes."""
        return self.condition.holds(record)


def types_of(condition: Condition) -> frozenset[str]:
    """Return the record types that have the fields of a condition; records of other types cannot match."""
    if isinstance(condition, Every):
        return frozenset(RECORDS).intersection(*map(types_of, condition.parts))
    if isinstance(condition, Either):
        return frozenset().union(*map(types_of, condition.parts))
    if isinstance(condition, ComparedFields):
        return frozenset(described(condition.left).records).intersection(described(condition.right).records)
    if isinstance(condition, Compared):
        if condition.reads == {"record"}:
            return frozenset(each for each in RECORDS if condition.holds({"record": each}))
        return frozenset(described(condition.operand).records)
    return frozenset(RECORDS)
