"""Gaps and leftovers that are not written yet: octets that the capture lost, or that cannot be parsed.

A record is made once the extent of the octets is known, and the connection is known to be ZMTP.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from zmtpscope.dissect.arrivals import Arrival

MAX_PENDING = 1024
"""Gaps, and leftovers, of a side before it is known to be ZMTP. The last represents all that follow."""

MANY_GAPS = "many losses before this was known to be ZMTP"
MANY_LEFTOVERS = "many stretches before this was known to be ZMTP"

UNFINISHED = "unfinished"
"""Captured octets of a unit that was not captured to its end."""
UNDISSECTED = "undissected"
"""Octets that could not be read as ZMTP."""

BEFORE_A_GAP = "gap behind it"
AT_THE_END = "end of the connection"
AT_THE_END_OF_THE_CAPTURE = "end of the capture"
NOT_ZMTP = "not ZMTP"
TOO_FEW = "too few octets to tell the version"
NO_VERSION = "no version in force"
NO_BOUNDARY = "frame boundary unknown"
NOT_READ_ON = "reading stopped"
FOR_A_PROXY = "for or from a proxy"
"""Reasons for leftovers, besides `zmtpscope.zmtp.events.Skipped`."""


FIRST = 32
"""Number of octets of a leftover that are kept to display them."""


class Gap(NamedTuple):
    """Octets lost within the stream offsets `start..stop`.

    `decided` is the segment that showed the loss, `resumed_at` the offset at which parsing resumes, or None.
    """

    start: int
    stop: int
    octets: int
    reason: str
    decided: Arrival
    resumed_at: int | None
    """Stream offset at which reading resumes, if it does."""

    def many(self, last: Gap, octets: int) -> Gap:
        return self._replace(stop=last.stop, octets=octets, reason=MANY_GAPS, resumed_at=last.resumed_at)


class Leftover(NamedTuple):
    """Captured octets within `start..stop` that belong to no greeting, command or frame.

    `decided` is the segment with the first of them, with the ordinal of the segment that showed their extent.
    `between_units`: no message continues across them. `data` are the first octets, at most `FIRST`, or None if they
    must stay hidden.
    """

    start: int
    stop: int
    octets: int
    kind: str
    reason: str
    decided: Arrival
    between_units: bool = False
    data: bytes | None = None

    def many(self, last: Leftover, octets: int) -> Leftover:
        return self._replace(stop=last.stop, octets=octets, reason=MANY_LEFTOVERS)

    def joined(self, following: Leftover) -> Leftover | None:
        """Return this leftover joined with the following one; None if they need two records.

        They are joined if the same segment decided both, kind and reason are equal, and nothing or only complete frames
        are between them.
        """
        start, stop, octets, kind, reason, decided, between_units, data = self
        if (
            decided.ordinal == following.decided.ordinal
            and (kind, reason) == (following.kind, following.reason)
            and (stop == following.start or (between_units and following.between_units))
        ):
            if data is not None and len(data) == octets:
                data = (data + (following.data or b""))[:FIRST]
            octets += following.octets
            return Leftover(start, following.stop, octets, kind, reason, decided, between_units, data)
        return None


T = TypeVar("T", Gap, Leftover)


class Pending(Generic[T]):
    """Gaps or leftovers that are not written yet, by side, in stream order."""

    def __init__(self) -> None:
        self.waiting: tuple[list[T], list[T]] = ([], [])

    def add(self, side: int, item: T) -> None:
        self.waiting[side].append(item)

    def drain(self, since: int | None) -> list[tuple[int, T]]:
        """Remove and return the gaps or leftovers that can be written now, as (side, item).

        `since` is the ordinal of the segment that showed that the connection is ZMTP; None: nothing can be written yet.
        """
        if not (self.waiting[0] or self.waiting[1]):
            return []
        taken: list[tuple[int, T]] = []
        for side, items in enumerate(self.waiting):
            if len(items) > MAX_PENDING:
                early = len(items) if since is None else bisect_left(items, since, key=attrgetter("decided.ordinal"))
                items[:early] = _bounded(items[:early])
            if since is not None:
                for item in items:
                    known = item.decided.ordinal >= since
                    taken.append((side, item if known else item._replace(decided=item.decided._replace(ordinal=since))))
                items.clear()
        return taken


class PendingLeftovers(Pending[Leftover]):
    """Leftovers that are not written yet.

    Adjacent ones are joined, so a segment full of zero lengths makes one record.
    """

    def add(self, side: int, item: Leftover) -> None:
        items = self.waiting[side]
        one = items[-1].joined(item) if items else None
        if one is None:
            items.append(item)
        else:
            items[-1] = one


def _bounded(items: list[T]) -> list[T]:
    if len(items) <= MAX_PENDING:
        return items
    kept, rest = items[: MAX_PENDING - 1], items[MAX_PENDING - 1 :]
    kept.append(rest[0].many(rest[-1], sum(item.octets for item in rest)))
    return kept
