"""What all connections of a run hold together: the one limit that they share by design."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OctetBudget:
    """Octets that are held now; each part adds what it takes, and takes it off when it lets go."""

    held: int = 0
    """By the streams of all sides, topics and subscriptions included."""
    memberships: int = 0
    """Those of them that are topics and groups which the readers remember."""
    subscriptions: int = 0
    """Those of them by which topics of messages are found (`topics.py`)."""
