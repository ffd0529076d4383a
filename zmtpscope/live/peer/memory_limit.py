"""What the connections of a socket hold in memory: each is counted, and there is one limit for all."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class MemoryLimit(Generic[Holder]):
    """At most `limit` octets for all holders. Beyond that the one that holds most has to go: nobody has to who holds no
    more than an equal share."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._held: dict[Holder, int] = {}
        """Of those that hold anything."""

    def charge(self, holder: Holder, octets: int) -> None:
        """It holds so many octets now."""
        self.total += octets - self._held.get(holder, 0)
        if octets:
            self._held[holder] = octets
        else:
            self._held.pop(holder, None)

    def largest(self) -> tuple[Holder, int]:
        """Who holds most, and how many octets. Somebody has to hold something."""
        return max(self._held.items(), key=lambda each: each[1])
