"""The octets that all connections of a run hold together: the one limit that they share by design.

Each connection waits by its own clock and has limits of its own; what it may hold depends on the others only here. The
octets that wait for missing segments are counted by `tcp/`, before it is known whether they are ZMTP.
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_HELD = 256 << 20
"""What all sides together may hold; where that is reached, bodies of messages under way are let go, and messages of
several frames are recorded as far as they came."""

ALL_MEMBERSHIPS = 64 << 20
"""What topics and groups that are open on all sides together may take of it."""


@dataclass(slots=True, eq=False)
class OctetBudget:
    """Octets that are held now; each part adds what it takes, and takes it off when it lets go."""

    held: int = 0
    """By the streams of all sides, topics and subscriptions included."""
    memberships: int = 0
    """Those of them that are topics and groups which the readers remember."""
    subscriptions: int = 0
    """Those of them by which topics of messages are found (`topics.py`)."""

    @property
    def is_exceeded(self) -> bool:
        """Whether all sides together hold too much."""
        return self.held > ALL_HELD

    def allows(self, octets: int) -> bool:
        """Whether so many octets may be held beside those that are held now."""
        return self.held + octets <= ALL_HELD

    @property
    def left_for_memberships(self) -> int:
        """Octets that topics and groups may still take."""
        return ALL_MEMBERSHIPS - self.memberships

    @property
    def has_room_for_names(self) -> bool:
        """Whether topics and groups take less than half of what they may: whoever comes gets room for its own."""
        return max(self.memberships, self.subscriptions) < ALL_MEMBERSHIPS // 2

    def take(self, held: int, memberships: int = 0) -> None:
        """Somebody holds so many octets more (or fewer), so many of them topics and groups."""
        self.held += held
        self.memberships += memberships

    def hold(self, what: OctetBudget) -> None:
        """Somebody holds so much more of everything."""
        self.held += what.held
        self.memberships += what.memberships
        self.subscriptions += what.subscriptions

    def let_go(self, what: OctetBudget) -> None:
        """Somebody holds so much of everything no more."""
        self.held -= what.held
        self.memberships -= what.memberships
        self.subscriptions -= what.subscriptions
