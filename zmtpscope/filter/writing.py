"""Write a filter that matches a value of a record: `topic == "a b"`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from zmtpscope.export.message_lines import typed
from zmtpscope.filter.checking import PAYLOAD
from zmtpscope.filter.fields import FIELDS, FilterField, Type
from zmtpscope.filter.literals import LARGEST
from zmtpscope.records import from_text

LONGEST = 400
"""Characters of a value that is useful in a filter."""

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DECIMAL = re.compile(r"-?\d{1,30}\.\d{1,30}")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"and", "or", "not", "any", "all", "in", "eq", "ne", "lt", "le", "gt", "ge", "contains", "matches"})


def comparison(name: str, value: Any, steps: Sequence[str] = ()) -> str | None:
    """Return a filter that matches a value: `topic == "a b"`; for a list, one of its elements.

    `steps` are the names that lead to a payload member. None if no filter can express the value, or it is very long.
    """
    written = literal(FIELDS[name], value)
    return None if written is None or len(written) > LONGEST else f"{name}{_way(steps)} == {written}"


def way_to(steps: Sequence[str]) -> str:
    return f"{PAYLOAD}{_way(steps)}"


def member(steps: Sequence[str], value: Any) -> str | None:
    """Return a filter that matches a payload member. `steps` are the names that lead to the member."""
    return comparison(PAYLOAD, value, steps)


def _way(steps: Sequence[str]) -> str:
    way = ""
    for step in steps:
        is_plain = _MEMBER.fullmatch(step) is not None and not way.endswith("]")
        way += f".{step}" if is_plain else f"[{quoted(step.encode('utf-8', 'surrogatepass'))}]"
    return way


def literal(field: FilterField, value: Any) -> str | None:
    """Return a value as it is written after an operator; None if it cannot be written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < LARGEST else None
    if isinstance(value, float):
        text = repr(value)
        return text if _DECIMAL.fullmatch(text) and Fraction(text) == value else None
    if isinstance(value, bytes):
        return None if field.type is Type.MEMBERS else quoted(value)
    if not isinstance(value, str):
        return None
    if field.type is Type.ADDRESS:
        return value
    if field.type is Type.MEMBERS:
        return quoted(value.encode()) if value.isprintable() else None
    return _word(field, value)


def _word(field: FilterField, text: str) -> str:
    """Return a text as a word or, if necessary, in quotes."""
    is_word = _PLAIN.fullmatch(text) and ".." not in text and text not in _WORDS
    names_field = text.partition("[")[0] in FIELDS or text.startswith(f"{PAYLOAD}.")
    return text if is_word and (not names_field or text in field.words) else quoted(from_text(text))


def quoted(octets: bytes) -> str:
    return '"' + typed(octets).replace('"', '\\"') + '"'


MAX_COMPARED = 1024
"""Octets of a value to compare; longer ones are compared by their start."""


def quoted_text(text: str) -> str:
    """Return a text in quotes, with escapes for unprintable characters."""
    return quoted(from_text(text))


def equals(field: str, text: str) -> str:
    octets = len(from_text(text))
    return f"{field} == {quoted_text(text)}" if octets <= MAX_COMPARED else begins_with(field, text)


def begins_with(field: str, text: str) -> str:
    """Return a filter for texts that start with `text`, or with its first octets if it is long."""
    octets = from_text(text)[:MAX_COMPARED]
    return f"{field}[0:{len(octets)}] == {quoted(octets)}" if octets else field


def every(*filters: str) -> str:
    """Join filters with `and`; empty ones, which match everything, are left out."""
    return " and ".join(f"({each})" if " or " in each else each for each in filters if each)


def one_of(field: str, numbers: Iterable[int]) -> str:
    """Return a filter for any of `numbers`, at least one. Consecutive numbers become a range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    written = [str(low) if low == high else f"{low}..{high}" for low, high in ranges]
    return f"{field} == {written[0]}" if written == [str(ranges[0][0])] else f"{field} in {{{', '.join(written)}}}"
