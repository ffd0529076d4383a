from __future__ import annotations

import json
from collections.abc import Iterator

from zmtpscope.payloads.api import Json
from zmtpscope.payloads.values import LONGEST_SUMMARY, shown


def in_brief(value: Json) -> str:
    """Return a value as JSON without blanks, octets as h'6f6b', cut to the length of a summary."""
    text = ""
    for piece in _pieces(value):
        text += piece
        if len(text) > LONGEST_SUMMARY:
            break
    return text


def _pieces(value: Json) -> Iterator[str]:
    if isinstance(value, dict):
        between = "{"
        for key, each in value.items():
            yield f"{between}{_quoted(key)}:"
            yield from _pieces(each)
            between = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        between = "["
        for each in value:
            yield between
            yield from _pieces(each)
            between = ","
        yield "]" if value else "[]"
    elif isinstance(value, bytes):
        yield f"h'{value[:LONGEST_SUMMARY].hex()}'"
    else:
        yield _quoted(value) if isinstance(value, str) else str(shown(value))


def _quoted(text: str) -> str:
    return json.dumps(text[: LONGEST_SUMMARY + 1], ensure_ascii=False)
