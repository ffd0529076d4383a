"""Sequence numbers (RFC 9293, 3.4): 32 bits that wrap around."""

from __future__ import annotations

MODULUS = 1 << 32
HALF = 1 << 31


def distance(later: int, earlier: int) -> int:
    """Return `later - earlier` for two sequence numbers (RFC 1982), from -2^31 to 2^31 - 1."""
    return (later - earlier + HALF) % MODULUS - HALF
