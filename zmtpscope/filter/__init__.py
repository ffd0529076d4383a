"""Filters of records, the same for every command: `topic == "prices" and size > 1KiB`."""

from zmtpscope.filter.errors import FilterError
from zmtpscope.filter.filter import Filter

__all__ = ["Filter", "FilterError"]
