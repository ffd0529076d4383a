"""A value of a record written as a filter that holds of all records with it: `topic == "a b"`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from zmtpscope.export.message_lines import typed
from zmtpscope.filter.checking import PAYLOAD
from zmtpscope.filter.fields import FIELDS, FilterField, Type
from zmtpscope.filter.literals import LARGEST
from zmtpscope.records import from_text

LONGEST = 400
"""Characters of a value that somebody would want to see in a filter."""

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_DECIMAL = re.compile(r"-?\d{1,30}\.\d{1,30}")
_MEMBER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = frozenset({"and", "or", "not", "any", "all", "in", "eq", "ne", "lt", "le", "gt", "ge", "contains", "matches"})


def comparison(name: str, value: Any, steps: Sequence[str] = ()) -> str | None:
    """`name == value`; of a list, that one element is the value. `steps` lead to a member of what rides inside. None
    where no filter says it, or a very long one."""
    written = literal(FIELDS[name], value)
    return None if written is None or len(written) > LONGEST else f"{name}{_way(steps)} == {written}"


def way_to(steps: Sequence[str]) -> str:
    """A member of what rides inside a message."""
    return f"{PAYLOAD}{_way(steps)}"


def member(steps: Sequence[str], value: Any) -> str | None:
    """The same of a member of what rides inside a message, by the names of members on the way to it."""
    return comparison(PAYLOAD, value, steps)


def _way(steps: Sequence[str]) -> str:
    way = ""
    for step in steps:
        is_plain = _MEMBER.fullmatch(step) is not None and not way.endswith("]")
        way += f".{step}" if is_plain else f"[{quoted(step.encode('utf-8', 'surrogatepass'))}]"
    return way


def literal(field: FilterField, value: Any) -> str | None:
    """A value of a field as it is written behind an operator; None where there is no way to write it."""
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
    """Text without quotes where they are not needed."""
    is_word = _PLAIN.fullmatch(text) and ".." not in text and text not in _WORDS
    names_field = text.partition("[")[0] in FIELDS or text.startswith(f"{PAYLOAD}.")
    return text if is_word and (not names_field or text in field.words) else quoted(from_text(text))


def quoted(octets: bytes) -> str:
    """Octets as text in quotes."""
    return '"' + typed(octets).replace('"', '\\"') + '"'
