from __future__ import annotations

import re

from zmtpscope.payloads.api import About, Claim, Message, Payload, Reader
from zmtpscope.payloads.values import BETWEEN_FRAMES, LONGEST_SUMMARY

_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f]")
"""Matches control characters, except ESC, because logs contain colours."""


class Text(Payload):
    """Claims messages whose content frames are text, and not all empty.

    There are no fields, because the octets show everything.
    """

    name = "text"
    prefix = "text"

    def claim(self, message: Message, about: About) -> Claim:
        bodies = message.bodies
        return Claim.MAYBE if any(bodies) and all(map(is_text, bodies)) else Claim.NO

    def dissect(self, message: Message, reader: Reader) -> str:
        return BETWEEN_FRAMES.join(body[: 4 * LONGEST_SUMMARY + 4].decode("utf-8", "ignore") for body in message.bodies)


def is_text(octets: bytes) -> bool:
    """Whether octets are UTF-8 text without control characters."""
    if octets.isascii() and (text := octets.decode()).isprintable():
        return True
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return False
    return _CONTROL.search(text) is None
