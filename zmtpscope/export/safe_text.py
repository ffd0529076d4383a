"""Escape text from the network for a terminal, a page or a file name."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0 with ESC, DEL, C1
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # have no width, or seem to have none
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\ufffb"  # zero width, line separators, bidi controls
    "\ud800-\udfff\ufffe\uffff"  # surrogates, and characters that XML forbids
    "\U000e0000-\U000e0fff"  # tags
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"  # the rest of the format characters
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "]"
)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x80:  # \xNN of others would be an octet, not a character in UTF-8
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe_text(text: str) -> str:
    """Escape characters that could move the cursor, are invisible, or change the direction of writing."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)
