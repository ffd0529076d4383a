"""Filters made of values: text that says exactly these octets, whatever they are."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.filter.writing import quoted
from zmtpscope.records import from_text

LONGEST = 1024
"""Octets of a value that are written out: filters have an end, and of longer ones the beginning is asked for."""


def quoted_text(text: str) -> str:
    """A value of the type `text`, as records have it, in the quotes of a filter: what cannot be shown is escaped."""
    return quoted(from_text(text))


def equals(field: str, text: str) -> str:
    """The filter that a field is this text."""
    octets = len(from_text(text))
    return f"{field} == {quoted_text(text)}" if octets <= LONGEST else begins_with(field, text)


def begins_with(field: str, text: str) -> str:
    """The filter that a field begins with this text; of a long one with its first octets."""
    octets = from_text(text)[:LONGEST]
    return f"{field}[0:{len(octets)}] == {quoted(octets)}" if octets else field


def every(*filters: str) -> str:
    """The filter that all of these hold; an empty one holds always."""
    return " and ".join(f"({each})" if " or " in each else each for each in filters if each)


def one_of(field: str, numbers: Iterable[int]) -> str:
    """The filter that a field is one of some numbers, at least one; those that follow each other are written as a
    range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    written = [str(low) if low == high else f"{low}..{high}" for low, high in ranges]
    return f"{field} == {written[0]}" if written == [str(ranges[0][0])] else f"{field} in {{{', '.join(written)}}}"
