"""Filters of records, such as `topic == "prices" and size > 1KiB`, for all commands."""

from zmtpscope.filter.filter import Filter
from zmtpscope.filter.tokens import FilterError

__all__ = ["Filter", "FilterError"]
