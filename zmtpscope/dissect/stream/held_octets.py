"""The octets of one side that are held, and its share of what all sides may hold."""

from __future__ import annotations

from zmtpscope.dissect.budget import OctetBudget
from zmtpscope.zmtp.memberships import LARGEST_MEMORY, Memberships


class HeldOctets:
    """The octets of one side that wait to be read or whose message is under way, from stream offset `base` on, and what
    the side has of the budget for them and all else that it keeps.

    `data` are these octets and those that have come now, while they are read.
    """

    __slots__ = ("_is_limited", "_memberships", "_share", "base", "budget", "data", "parts")

    def __init__(self, budget: OctetBudget) -> None:
        self.budget = budget
        self._share = self._memberships = 0
        self._is_limited = False
        """Whether other sides have left less for topics and groups than a side may take."""
        self.base = 0
        self.data = b""
        self.parts: list[bytes] = []

    def begin_at(self, offset: int) -> None:
        """Octets have come that begin there, or behind what is held already."""
        if not self.parts:
            self.base = offset

    def begin(self, octets: bytes, end: int) -> bytes:
        """Read all that is held, and `octets` behind that, which end at stream offset `end`."""
        if self.parts:
            octets = b"".join([*self.parts, octets])
        else:
            self.base = end - len(octets)
        self.data = octets
        return octets

    def change(self, data: bytes) -> None:
        """These stand in the place of the octets that are read: as many, in clear, or in their order."""
        self.data = data

    def end(self) -> bytes:
        """They are read: these octets."""
        data, self.data = self.data, b""
        return data

    @property
    def size(self) -> int:
        """How many are held."""
        return sum(map(len, self.parts))

    def joined(self) -> bytes:
        """What is held, as one."""
        return b"".join(self.parts)

    def octets(self, start: int, stop: int) -> bytes:
        """The octets `start..stop` of what is read, as far as they are held."""
        return self.data[max(0, start - self.base) : max(0, stop - self.base)]

    def hold(self, parts: list[bytes], base: int, others: int = 0, memberships: int = 0) -> None:
        """Hold these octets from stream offset `base` on, and no others. `others` octets are kept elsewhere, and so are
        `memberships`, in topics and groups."""
        share = others + memberships + (sum(map(len, parts)) if parts else 0)
        if share != self._share or memberships != self._memberships:
            self.budget.take(share - self._share, memberships - self._memberships)
            self._share, self._memberships = share, memberships
        self.parts, self.base = parts, base

    def append(self, octets: bytes) -> None:
        """Hold these octets behind the others: what waits may be large and come in small pieces."""
        self.parts.append(octets)
        self._share += len(octets)
        self.budget.take(len(octets))

    def give_away(self) -> bytes:
        """Somebody else holds the octets from now on, and all else that was kept but topics and groups."""
        octets = self.joined()
        self.hold_nothing()
        return octets

    def hold_nothing(self) -> None:
        """Hold no octets, and keep none elsewhere but topics and groups."""
        self.hold([], self.base, 0, self._memberships)

    def hold_elsewhere(self, octets: int) -> None:
        """So many octets are kept elsewhere, and none here."""
        self.budget.take(octets - self._share)
        self._share = octets

    def limit(self, memberships: list[Memberships]) -> None:
        """Let these topics and groups of the side take what all sides leave of the limit."""
        left = self.budget.left_for_memberships
        if left >= LARGEST_MEMORY and not self._is_limited:
            return
        self._is_limited = left < LARGEST_MEMORY
        for each in memberships:
            each.limit_to(min(LARGEST_MEMORY, each.size + left))

    def may_hold(self, octets: int) -> bool:
        """Whether the others leave room for so many octets of this side."""
        return self.budget.allows(octets - self._share)

    def release(self) -> None:
        """Nothing is held any more."""
        self.budget.take(-self._share, -self._memberships)
        self._share = self._memberships = 0
