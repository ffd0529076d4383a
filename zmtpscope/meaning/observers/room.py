"""How much all connections together may make us remember."""

from __future__ import annotations

from typing import Protocol

MOST_REMEMBERED = 256 << 20
"""Octets of memory, about, for what is remembered of single requests, subscriptions and topics."""


class Remembering(Protocol):
    """A connection of which something is remembered: so many octets."""

    remembered: int


class Room:
    """What is left of it; the observers of all connections of a run share one."""

    def __init__(self, octets: int = MOST_REMEMBERED) -> None:
        self.left = octets
        self.left_out = 0
        """How often something was not remembered since there was no room."""

    def take(self, connection: Remembering, octets: int) -> bool:
        """Whether there is room to remember so much more of a connection."""
        if octets > self.left:
            self.left_out += 1
            return False
        self.left -= octets
        connection.remembered += octets
        return True

    def give_back(self, connection: Remembering, octets: int) -> None:
        """So much of what is remembered of a connection is forgotten."""
        self.left += octets
        connection.remembered -= octets

    def forget(self, connection: Remembering) -> None:
        """All of a connection is forgotten."""
        self.give_back(connection, connection.remembered)
