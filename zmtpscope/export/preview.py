"""Octets from the network in a few characters of one line: never exact, always safe. Exact are -V, -x and --json."""

from __future__ import annotations

import re

from zmtpscope.export.safe_text import safe_text
from zmtpscope.payloads.values import NO_MORE

READABLE = 0.65
"""The share of readable octets from which on a body is shown as text with escapes, else as hex digits."""

OCTETS = 4
"""So many octets for each character of a line are looked at."""

LEAST = 8
"""Characters that a part of a message needs to be shown at all."""

MOST_IN_FRONT, LEAST_IN_FRONT = 4, 12
"""What stands in front of the last part gets one of so many shares of the line, or so many characters."""

BETWEEN = " | "

_BLANK = re.compile(r"[ \t\r\n]+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_CUT = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,2}$")
"""A character of UTF-8 that the end may cut."""


def quoted(text: str, limit: int = 40) -> str:
    """A name (topic, identity, group, reason) in quotes, of at most about `limit` characters."""
    safe = safe_text(text)
    return f'"{safe}"' if len(safe) <= limit else f'"{safe[: limit - 1]}…"'


def preview(octets: bytes | None, size: int, limit: int) -> str:
    """A body of `size` octets, the first of which are `octets` if they were kept, in at most about `limit`
    characters."""
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
    """The frames of a message, (first octets or None, size) each, in about `limit` characters.

    All but the last get a quarter at most: ids and empty frames come first, the content last.
    """
    shown: list[str] = []
    left = limit
    for place, (octets, size) in enumerate(bodies):
        last = place == len(bodies) - 1
        room = left if last else min(left - len(BETWEEN + NO_MORE), max(LEAST_IN_FRONT, limit // MOST_IN_FRONT))
        if room < LEAST:
            shown.append(NO_MORE)
            break
        shown.append(preview(octets, size, room))
        left -= len(shown[-1]) + len(BETWEEN)
    return BETWEEN.join(shown)
