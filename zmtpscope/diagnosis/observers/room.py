"""Memory limit for facts about all connections together."""

from __future__ import annotations

from typing import Protocol

MAX_REMEMBERED = 256 << 20
"""Approximate octets of memory for individual requests, subscriptions and topics."""


class Remembering(Protocol):
    """A connection with the octets remembered of it."""

    remembered: int


class Room:
    """The remaining memory for facts, shared by the observers of all connections of a run."""

    def __init__(self, octets: int = MAX_REMEMBERED) -> None:
        self.left = octets
        self.left_out = 0
        """Number of facts not remembered for lack of room."""

    def take(self, connection: Remembering, octets: int) -> bool:
        """Reserve memory for a connection, and return whether there was room."""
        if octets > self.left:
            self.left_out += 1
            return False
        self.left -= octets
        connection.remembered += octets
        return True

    def give_back(self, connection: Remembering, octets: int) -> None:
        """Release memory of a connection."""
        self.left += octets
        connection.remembered -= octets

    def forget(self, connection: Remembering) -> None:
        """Release all memory of a connection."""
        self.give_back(connection, connection.remembered)
