"""Octets as text that can be pasted elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

LINE = 12
"""Octets in a line of an array of C."""


def as_hex(octets: bytes) -> str:
    """Two digits for each octet."""
    return octets.hex()


def as_base64(octets: bytes) -> str:
    """As JSON lines and e-mails have it."""
    return b64encode(octets).decode()


def as_c(octets: bytes) -> str:
    """An array of C, and of languages that write theirs alike."""
    digits = [f"0x{octet:02x}" for octet in octets]
    lines = [", ".join(digits[begin : begin + LINE]) for begin in range(0, len(digits), LINE)]
    return "{\n" + "".join(f"    {line},\n" for line in lines) + "}"


OCTET_FORMS: dict[str, Callable[[bytes], str]] = {"hex": as_hex, "base64": as_base64, "c": as_c}
"""By the names of `requests.COPY_FORMS`."""
