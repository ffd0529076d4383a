"""A compiled filter."""

from __future__ import annotations

from zmtpscope.filter.checking import Checker
from zmtpscope.filter.fields import Values
from zmtpscope.filter.syntax import parse


class Filter:
    """A filter with the syntax of docs/filters.md. Raises `FilterError`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.condition = Checker(text).condition(parse(text))

    @property
    def reads(self) -> frozenset[str]:
        """The record fields that the filter reads."""
        return self.condition.reads

    def holds(self, record: Values) -> bool:
        """Whether a record matches. It has fields by name, with octets as bytes."""
        return self.condition.holds(record)
