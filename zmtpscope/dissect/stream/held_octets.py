"""The octets held for one side, and its share of the memory budget of all sides."""

from __future__ import annotations

from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.zmtp.memberships import LARGEST_MEMORY, Memberships


class HeldOctets:
    """The octets held for one side: unread ones, and those of its incomplete message. Counts them in the budget.

    The held octets start at stream offset `base`. While the side is read, `data` contains the held and the new octets.
    """

    __slots__ = ("_is_limited", "_memberships", "_share", "base", "budget", "data", "parts")

    def __init__(self, budget: OctetBudget) -> None:
        self.budget = budget
        self._share = self._memberships = 0
        self._is_limited = False
        """Whether other sides leave less memory for topics and groups than the limit of one side."""
        self.base = 0
        self.data = b""
        self.parts: list[bytes] = []

    def begin_at(self, offset: int) -> None:
        """Start at `offset` if nothing is held."""
        if not self.parts:
            self.base = offset

    def begin(self, octets: bytes, end: int) -> bytes:
        """Start to read the held octets and `octets`, which end at stream offset `end`; return both joined."""
        if self.parts:
            octets = b"".join([*self.parts, octets])
        else:
            self.base = end - len(octets)
        self.data = octets
        return octets

    def change(self, data: bytes) -> None:
        """Replace the octets being read by as many decrypted or reordered ones."""
        self.data = data

    def end(self) -> bytes:
        """Stop reading, and return the octets read."""
        data, self.data = self.data, b""
        return data

    @property
    def size(self) -> int:
        """Number of octets held."""
        return sum(map(len, self.parts))

    def joined(self) -> bytes:
        """Return the octets held, joined."""
        return b"".join(self.parts)

    def octets(self, start: int, stop: int) -> bytes:
        """Return the octets `start..stop`, as far as they are held or being read."""
        return self.data[max(0, start - self.base) : max(0, stop - self.base)]

    def hold(self, parts: list[bytes], base: int, others: int = 0, memberships: int = 0) -> None:
        """Hold only these octets, from stream offset `base` on. `others` and `memberships` are octets kept elsewhere,
        the latter for topics and groups."""
        share = others + memberships + (sum(map(len, parts)) if parts else 0)
        if share != self._share or memberships != self._memberships:
            self.budget.take(share - self._share, memberships - self._memberships)
            self._share, self._memberships = share, memberships
        self.parts, self.base = parts, base

    def append(self, octets: bytes) -> None:
        """Hold more octets. Joining them each time would be slow for a large frame in small pieces."""
        self.parts.append(octets)
        self._share += len(octets)
        self.budget.take(len(octets))

    def hold_nothing(self) -> None:
        """Release everything except topics and groups."""
        self.hold([], self.base, 0, self._memberships)

    def hold_elsewhere(self, octets: int) -> None:
        """Hold nothing here, and count `octets` kept elsewhere."""
        self.budget.take(octets - self._share)
        self._share = octets

    def limit(self, memberships: list[Memberships]) -> None:
        """Limit these topics and groups of the side to the memory that all sides leave."""
        left = self.budget.left_for_memberships
        if left >= LARGEST_MEMORY and not self._is_limited:
            return
        self._is_limited = left < LARGEST_MEMORY
        for each in memberships:
            each.limit_to(min(LARGEST_MEMORY, each.size + left))

    def may_hold(self, octets: int) -> bool:
        """Whether the budget allows this side to hold this many octets."""
        return self.budget.allows(octets - self._share)

    def release(self) -> None:
        """Release everything."""
        self.budget.take(-self._share, -self._memberships)
        self._share = self._memberships = 0
