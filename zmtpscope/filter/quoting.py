"""Build filters from values, with exact octets."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.filter.writing import quoted
from zmtpscope.records import from_text

LONGEST = 1024
"""Maximum octets of a value in a filter. Longer values are compared by their start."""


def quoted_text(text: str) -> str:
    """Return a `text` value as a quoted literal, with escapes for unprintable characters."""
    return quoted(from_text(text))


def equals(field: str, text: str) -> str:
    """Return the filter that a field equals this text."""
    octets = len(from_text(text))
    return f"{field} == {quoted_text(text)}" if octets <= LONGEST else begins_with(field, text)


def begins_with(field: str, text: str) -> str:
    """Return the filter that a field starts with this text, or with its first octets if it is long."""
    octets = from_text(text)[:LONGEST]
    return f"{field}[0:{len(octets)}] == {quoted(octets)}" if octets else field


def every(*filters: str) -> str:
    """Return the conjunction of filters. An empty filter matches everything and is left out."""
    return " and ".join(f"({each})" if " or " in each else each for each in filters if each)


def one_of(field: str, numbers: Iterable[int]) -> str:
    """Return the filter that a field is one of at least one number. Consecutive numbers become a range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    written = [str(low) if low == high else f"{low}..{high}" for low, high in ranges]
    return f"{field} == {written[0]}" if written == [str(ranges[0][0])] else f"{field} in {{{', '.join(written)}}}"
