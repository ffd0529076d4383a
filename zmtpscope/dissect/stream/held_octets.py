from __future__ import annotations

from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.zmtp.memberships import LARGEST_MEMORY, Memberships


class HeldOctets:
    """The octets of one side that are kept: unread ones, and the incomplete message.

    They start at stream offset `base`, and count in the budget of all sides. While the side is read, `data` contains
    them and the new octets.
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
        if not self.parts:
            self.base = offset

    def begin(self, octets: bytes, end: int) -> bytes:
        """Start to read: return the kept octets followed by `octets`, which end at stream offset `end`."""
        if self.parts:
            octets = b"".join([*self.parts, octets])
        else:
            self.base = end - len(octets)
        self.data = octets
        return octets

    def change(self, data: bytes) -> None:
        """Replace the octets being read by decrypted or rearranged ones, as many as before."""
        self.data = data

    def end(self) -> bytes:
        """Stop reading; return the octets that were read."""
        data, self.data = self.data, b""
        return data

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))

    def joined(self) -> bytes:
        return b"".join(self.parts)

    def octets(self, start: int, stop: int) -> bytes:
        """Return the octets from stream offset `start` up to `stop`, as far as they are kept or being read."""
        return self.data[max(0, start - self.base) : max(0, stop - self.base)]

    def hold(self, parts: list[bytes], base: int, others: int = 0, memberships: int = 0) -> None:
        """Keep only the octets `parts`, which start at stream offset `base`.

        `others` octets of the side are kept elsewhere, and `memberships` for topics and groups.
        """
        share = others + memberships + (sum(map(len, parts)) if parts else 0)
        if share != self._share or memberships != self._memberships:
            self.budget.take(share - self._share, memberships - self._memberships)
            self._share, self._memberships = share, memberships
        self.parts, self.base = parts, base

    def append(self, octets: bytes) -> None:
        """Append octets without joining them, which would be slow for a large frame in small pieces."""
        self.parts.append(octets)
        self._share += len(octets)
        self.budget.take(len(octets))

    def hold_nothing(self) -> None:
        """Free all octets, except those for topics and groups."""
        self.hold([], self.base, 0, self._memberships)

    def hold_elsewhere(self, octets: int) -> None:
        """Count octets of this side that are kept elsewhere, and keep none here."""
        self.budget.take(octets - self._share)
        self._share = octets

    def limit(self, memberships: list[Memberships]) -> None:
        """Limit the memory of topics and groups to the amount that all sides together leave."""
        left = self.budget.left_for_memberships
        if left >= LARGEST_MEMORY and not self._is_limited:
            return
        self._is_limited = left < LARGEST_MEMORY
        for each in memberships:
            each.limit_to(min(LARGEST_MEMORY, each.size + left))

    def may_hold(self, octets: int) -> bool:
        return self.budget.allows(octets - self._share)

    def release(self) -> None:
        self.budget.take(-self._share, -self._memberships)
        self._share = self._memberships = 0
