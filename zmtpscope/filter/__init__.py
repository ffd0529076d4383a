"""Filters of records, which all commands share: `topic == "prices" and size > 1KiB`."""

from zmtpscope.filter.errors import FilterError
from zmtpscope.filter.filter import Filter

__all__ = ["Filter", "FilterError"]
