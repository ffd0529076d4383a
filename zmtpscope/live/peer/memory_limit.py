"""One memory limit for all connections of a socket."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class MemoryLimit(Generic[Holder]):
    """A limit of `limit` octets for all holders together.

    When it is exceeded, the caller evicts the largest holder. A holder of no more than an equal share is never the
    largest.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._held: dict[Holder, int] = {}
        """Octets of each holder, without zeros."""

    def charge(self, holder: Holder, octets: int) -> None:
        """Set the number of octets that `holder` holds."""
        self.total += octets - self._held.get(holder, 0)
        if octets:
            self._held[holder] = octets
        else:
            self._held.pop(holder, None)

    def largest(self) -> tuple[Holder, int]:
        """Return the largest holder and its octets. At least one holder must have octets."""
        return max(self._held.items(), key=lambda each: each[1])
