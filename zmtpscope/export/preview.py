"""Shorten octets from the network to a few printable characters."""

from __future__ import annotations

import re

from zmtpscope.export.safe_text import safe_text
from zmtpscope.payloads.values import NO_MORE
from zmtpscope.words import cut

READABLE = 0.65
"""Share of readable octets of a body that is shown as text; others are shown as hex digits."""

OCTETS = 4
"""Number of octets examined for each character of a line."""

LEAST = 8
"""Characters that a part of a message needs to be shown."""

MAX_IN_FRONT, MIN_IN_FRONT = 4, 12
"""Limit of each part before the last: one part in `MAX_IN_FRONT` of the line, but at least `MIN_IN_FRONT`
characters."""

BETWEEN = " | "

_BLANK = re.compile(r"[ \t\r\n]+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_CUT = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,2}$")
"""A UTF-8 character that may be truncated."""


def quoted(text: str, limit: int = 40) -> str:
    """Quote a name (topic, identity, group, reason), shortened to about `limit` characters."""
    return f'"{cut(safe_text(text), limit)}"'


def preview(octets: bytes | None, size: int, limit: int) -> str:
    """Format a message body in about `limit` characters.

    `octets` are the first of its `size` octets, or None if they were not kept.
    """
    if octets is None:
        return "not kept"
    if not size:
        return '""'
    head = octets[: OCTETS * limit]
    whole = len(head) == size
    if not head.isascii() or not (safe := head.decode()).isprintable():
        head = head if whole else _CUT.sub(b"", head)
        readable = len(_CONTROL.sub("", head.decode("utf-8", "ignore")).encode())
        if readable < len(head) * READABLE:
            shown = octets[: max(1, (limit - 3) // 2)]
            return f"0x{shown.hex()}" + ("…" if len(shown) < size else "")
        safe = safe_text(_BLANK.sub(" ", head.decode("utf-8", "backslashreplace")))
    return safe if whole and len(safe) <= limit else f"{safe[: limit - 1]}{NO_MORE}"


def parts_preview(bodies: list[tuple[bytes | None, int]], limit: int) -> str:
    """Format the frames of a message in about `limit` characters.

    `bodies` are (first octets or None, size). All but the last get at most a quarter of the space, since ids and empty
    frames precede the content.
    """
    shown: list[str] = []
    left = limit
    for place, (octets, size) in enumerate(bodies):
        last = place == len(bodies) - 1
        room = left if last else min(left - len(BETWEEN + NO_MORE), max(MIN_IN_FRONT, limit // MAX_IN_FRONT))
        if room < LEAST:
            shown.append(NO_MORE)
            break
        shown.append(preview(octets, size, room))
        left -= len(shown[-1]) + len(BETWEEN)
    return BETWEEN.join(shown)
