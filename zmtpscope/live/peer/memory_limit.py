"""One memory limit for all connections of a socket."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class MemoryLimit(Generic[Holder]):
    """A limit of `limit` octets for all holders together.

    Above it, the caller closes the largest holder, so a holder within an equal share is never closed.
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
