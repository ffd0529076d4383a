"""Octets as text to paste elsewhere."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

LINE = 12


def as_hex(octets: bytes) -> str:
    return octets.hex()


def as_base64(octets: bytes) -> str:
    return b64encode(octets).decode()


def as_c(octets: bytes) -> str:
    """Return an array initialiser for C and similar languages."""
    digits = [f"0x{octet:02x}" for octet in octets]
    lines = [", ".join(digits[begin : begin + LINE]) for begin in range(0, len(digits), LINE)]
    return "{\n" + "".join(f"    {line},\n" for line in lines) + "}"


OCTET_FORMS: dict[str, Callable[[bytes], str]] = {"hex": as_hex, "base64": as_base64, "c": as_c}
"""Formats by their names in `requests.COPY_FORMS`."""
