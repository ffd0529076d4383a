"""A filter, ready to be asked."""

from __future__ import annotations

from zmtpscope.filter.checking import Checker
from zmtpscope.filter.fields import Values
from zmtpscope.filter.syntax import parse


class Filter:
    """`text` is what was written. Raises `FilterError`. docs/filters.md says what filters mean."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.condition = Checker(text).condition(parse(text))

    @property
    def reads(self) -> frozenset[str]:
        """The fields of records that it looks at."""
        return self.condition.reads

    def holds(self, record: Values) -> bool:
        """Whether one record, as fields by name, is meant; octets are bytes."""
        return self.condition.holds(record)
