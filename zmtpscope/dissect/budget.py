"""The maximum number of octets that all connections of a run may keep together: the only limit that they share by
design."""

from __future__ import annotations

from dataclasses import dataclass

ALL_HELD = 256 << 20
"""Octets above which bodies of incomplete messages are dropped, and multipart messages are recorded as far as
received."""

ALL_MEMBERSHIPS = 64 << 20
"""Part of `ALL_HELD` for open topics and groups."""


@dataclass(slots=True, eq=False)
class OctetBudget:
    held: int = 0
    """Octets held by all streams, topics and subscriptions included."""
    memberships: int = 0
    """Part of `held`: topics and groups that readers remember."""
    subscriptions: int = 0
    """Part of `held`: subscriptions for finding the topics of messages (`records/topics.py`)."""

    @property
    def is_exceeded(self) -> bool:
        return self.held > ALL_HELD

    def allows(self, octets: int) -> bool:
        return self.held + octets <= ALL_HELD

    @property
    def left_for_memberships(self) -> int:
        """How many octets topics and groups may still use."""
        return ALL_MEMBERSHIPS - self.memberships

    @property
    def has_room_for_names(self) -> bool:
        """Whether topics and groups use less than half of their limit, so that new ones can be stored."""
        return max(self.memberships, self.subscriptions) < ALL_MEMBERSHIPS // 2

    def take(self, held: int, memberships: int = 0) -> None:
        """Add `held` to the number of buffered octets, and `memberships` to those of topics and groups.

        Negative numbers subtract.
        """
        self.held += held
        self.memberships += memberships

    def hold(self, what: OctetBudget) -> None:
        self.held += what.held
        self.memberships += what.memberships
        self.subscriptions += what.subscriptions

    def let_go(self, what: OctetBudget) -> None:
        self.held -= what.held
        self.memberships -= what.memberships
        self.subscriptions -= what.subscriptions
