"""Find identities in handshakes: connections that are otherwise equal differ in them."""

from __future__ import annotations

from collections.abc import Iterable

from zmtpscope.records import to_text

IDENTITY = "Identity"
"""The name of the property with an identity."""

PROPERTY = b"\x08" + IDENTITY.encode() + b"\0\0\0"
"""The octets before the size of an identity in READY (wire.md 7.2), if its size has one octet."""

MAX_IDENTITY = 63
"""Maximum octets of an identity that may differ.

Its text, up to four characters for each octet, is not too long for any rule.
"""

Identities = tuple[str | None, str | None]
"""Identities of both sides, if they may differ between connections that open alike."""


def identity_in(octets: bytes) -> slice | None:
    """Return where a segment of a handshake contains an identity; None if it contains none."""
    size_at = octets.find(PROPERTY) + len(PROPERTY)
    if size_at < len(PROPERTY) or size_at >= len(octets):
        return None
    start, stop = size_at + 1, size_at + 1 + octets[size_at]
    is_usual = start < stop <= min(len(octets), start + MAX_IDENTITY) and octets[start]
    return slice(start, stop) if is_usual else None


def without_identity(octets: bytes) -> bytes:
    """Return the octets of a segment with zeros in place of its identity, for comparison with other connections."""
    identity = identity_in(octets)
    if identity is None:
        return octets
    return _with_octets(octets, identity, bytes(identity.stop - identity.start))


def with_other_identity(octets: bytes) -> bytes:
    """Return the octets of a segment with another identity; a ZRE identity is replaced by one if possible."""
    identity = identity_in(octets)
    if identity is None:
        return octets
    size = identity.stop - identity.start
    other = b"\1" + b"\xff" * (size - 1)
    if other == octets[identity]:
        other = b"z" * size
    return _with_octets(octets, identity, other)


def _with_octets(octets: bytes, place: slice, others: bytes) -> bytes:
    return b"".join((octets[: place.start], others, octets[place.stop :]))


def identities_of(segments: Iterable[tuple[int, bytes]]) -> Identities:
    """Return the identity that each side announced in the segments (side, octets) of the handshakes, or None."""
    found: list[str | None] = [None, None]
    for side, octets in segments:
        identity = identity_in(octets)
        if identity is not None and found[side] is None:
            found[side] = to_text(octets[identity])
    return found[0], found[1]
