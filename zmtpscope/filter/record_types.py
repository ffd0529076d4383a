"""Find the record types that can match a condition."""

from __future__ import annotations

from zmtpscope.filter.checking import described
from zmtpscope.filter.conditions import Compared, ComparedFields, Condition, Either, Every
from zmtpscope.records import RECORDS


def types_of(condition: Condition) -> frozenset[str]:
    """Return the record types that have the fields of the condition; no others can match."""
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
