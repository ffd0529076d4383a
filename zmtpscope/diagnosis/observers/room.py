from __future__ import annotations

from typing import Protocol

MAX_REMEMBERED = 256 << 20
"""Approximate memory in octets for all individual requests, subscriptions and topics."""


class Remembering(Protocol):
    remembered: int


class Room:
    """A memory limit for observations, which the observers of all connections share."""

    def __init__(self, octets: int = MAX_REMEMBERED) -> None:
        self.left = octets
        self.left_out = 0

    def take(self, connection: Remembering, octets: int) -> bool:
        """Reserve memory for a connection. Return False if the limit is reached."""
        if octets > self.left:
            self.left_out += 1
            return False
        self.left -= octets
        connection.remembered += octets
        return True

    def give_back(self, connection: Remembering, octets: int) -> None:
        self.left += octets
        connection.remembered -= octets

    def forget(self, connection: Remembering) -> None:
        self.give_back(connection, connection.remembered)
