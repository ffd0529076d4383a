"""The first octets of a greeting, possibly incomplete: signature and version (wire.md 4.1, 5, 9.2)."""

from __future__ import annotations

SIGNATURE_SIZE = 10
"""FF, padding of 8 octets, 7F."""

LARGEST_PADDING = 256
"""Size of the longest identity plus 1."""

MAJOR_AT, MINOR_AT = 10, 11
VERSIONED_SIZE = MINOR_AT + 1
"""Octets that determine the other side's reaction (wire.md 9.3)."""


def padding_of(octets: bytes) -> int:
    """Return the padding; if it is incomplete, its minimum."""
    return int.from_bytes(octets[1:9].ljust(8, b"\0"), "big")


def begins_like_a_signature(octets: bytes) -> bool:
    first, last = octets[:1], octets[SIGNATURE_SIZE - 1 : SIGNATURE_SIZE]
    return first in (b"", b"\xff") and padding_of(octets) <= LARGEST_PADDING and last in (b"", b"\x7f")


def announces_a_version(octets: bytes) -> bool:
    return len(octets) > SIGNATURE_SIZE and begins_like_a_signature(octets) and 1 <= octets[MAJOR_AT] <= 3


def announces_version_3(octets: bytes) -> bool:
    """Whether the octets, at least 12, are certainly from a 3.x peer."""
    return octets[0] == 0xFF and octets[SIGNATURE_SIZE - 1] == 0x7F and octets[MAJOR_AT] >= 3
