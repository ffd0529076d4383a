"""Filters of records, which all commands share: `topic == "prices" and size > 1KiB`."""

from zmtpscope.filter.filter import Filter
from zmtpscope.filter.tokens import FilterError

__all__ = ["Filter", "FilterError"]
