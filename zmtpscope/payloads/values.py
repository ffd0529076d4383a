from __future__ import annotations

import math
from typing import Any

from zmtpscope.records import to_text
from zmtpscope.zmtp.reader import Value

Json = Any
"""A JSON value or octets (base64 in every output)."""

LONGEST_SUMMARY = 200
LONGEST_DETAIL = 400
NO_MORE = "…"
"""Ends a text that was cut."""
BETWEEN_FRAMES = " | "
"""Separator of frames in a summary."""

_MIN_INT, _LARGEST_INT = -(2**63), 2**64 - 1


def shortened(text: str, limit: int = LONGEST_SUMMARY) -> str:
    """Cut a text to `limit` characters."""
    text = str.__str__(text)
    return text if len(text) <= limit else text[: limit - 1] + NO_MORE


def as_summary(text: str) -> str:
    """Cut a text to the length of a summary, and escape characters that some outputs cannot hold."""
    if type(text) is str and len(text) <= LONGEST_SUMMARY and text.isascii():
        return text
    shown: str = plain(shortened(text))
    return shown


def plain(value: Json) -> Json:
    """Return a number, text or other scalar in a form for all output formats, or a container unchanged.

    Raises `TypeError` for other types.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if kind is int:
        return value if _MIN_INT <= value <= _LARGEST_INT else hex(value)
    if kind is float:
        return (
            value if math.isfinite(value) else "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        )
    if value is None or kind is bool or kind is bytes or kind is list or kind is dict:
        return value
    raise TypeError(f"{kind.__name__} is not a JSON type")


def to_key(key: Json) -> str:
    """Convert any value to the name of a field."""
    if isinstance(key, bytes):
        return to_text(key)
    text = key if isinstance(key, str) else "null" if key is None else str(shown(key))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def shown(value: Json) -> Value:
    """Convert a value to a type that field trees support."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return value if _MIN_INT <= value <= _LARGEST_INT else hex(value)
    return value if isinstance(value, str | bytes) else str(plain(value))
