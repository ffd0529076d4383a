"""Format received messages as text, raw octets, hex or JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson
from pybase64 import b64encode

from zmtpscope.export.clock import timestamp
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import to_text

TAB = b"\t"

Render = Callable[[Sequence[bytes], int], bytes]
"""Formats (parts, nanoseconds since the epoch) as the octets of a message, with its end."""


def typed(octets: bytes) -> str:
    r"""Return octets as printable `text` (`zmtpscope.records`).

    Octets that cannot be displayed become `\xNN`. The result as input sends the same octets.
    """
    text = to_text(octets)
    if safe_text(text) == text:
        return text
    return "".join(
        each if safe_text(each) == each else "".join(f"\\x{octet:02x}" for octet in each.encode()) for each in text
    )


def renderer(form: str, *, separator: bytes = TAB, end: bytes = b"\n", addressed: bool = False) -> Render:
    """Return the function for a format: "text", "raw", "hex" or "json".

    `separator` separates parts and `end` follows the last one; JSON lines ignore both. `addressed`: each message is
    preceded by the routing id of its sender, as `text` in all formats but hex.
    """
    if form == "json":
        return _json_of_addressed if addressed else _json
    if form == "hex":
        return lambda parts, time: separator.join([part.hex().encode() for part in parts]) + end
    if form == "text":
        return lambda parts, time: separator.join([typed(part).encode() for part in parts]) + end
    if addressed:
        return lambda parts, time: separator.join([typed(parts[0]).encode(), *parts[1:]]) + end
    return lambda parts, time: separator.join(parts) + end


def _json_of_addressed(parts: Sequence[bytes], time: int) -> bytes:
    return _json(parts[1:], time, typed(parts[0]))


def _json(parts: Sequence[bytes], time: int, peer: str | None = None) -> bytes:
    """Format a message as JSON, with field names and formats of `zmtpscope.records`."""
    values = {
        "ts_ns": time,
        "time": timestamp(time),
        "peer": peer,
        "parts": len(parts),
        "sizes": list(map(len, parts)),
        "bodies": [b64encode(part).decode() for part in parts],
        "texts": list(map(to_text, parts)),
    }
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)
