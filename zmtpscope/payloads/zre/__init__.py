"""ZRE, discovery and messages between peers (zre.md): commands over ZMTP, and beacons."""

from __future__ import annotations

UUID = 16


def uuid_of(identity: bytes | None) -> bytes | None:
    """Return the UUID in a ZMTP identity (zre.md 3), after `01` or, in version 1, alone; None if there is none."""
    if identity is None:
        return None
    if len(identity) == UUID + 1 and identity[0] == 1:
        return identity[1:]
    return identity if len(identity) == UUID else None
