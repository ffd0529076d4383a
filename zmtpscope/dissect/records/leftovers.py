"""The octets of a connection that are in no unit, until they can be written: lost by the capture, or left over.

Each is in one record, which is made when it is known how far the octets go, and not before it is known that this is
ZMTP.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Generic, NamedTuple, TypeVar

from zmtpscope.dissect.arrivals import Arrival

MOST_PENDING = 1024
"""So many gaps, and as many leftovers, of a side are remembered one by one while it is not known whether this is ZMTP;
the last of them then stands for all that follow."""

MANY_GAPS = "many losses before this was known to be ZMTP"
MANY_LEFTOVERS = "many stretches before this was known to be ZMTP"

UNFINISHED = "unfinished"
"""The kind of what is there of a unit whose rest the capture does not have."""
UNDISSECTED = "undissected"
"""The kind of what could not be read as ZMTP."""

BEFORE_A_GAP = "gap behind it"
AT_THE_END = "end of the connection"
AT_THE_END_OF_THE_CAPTURE = "end of the capture"
NOT_ZMTP = "not ZMTP"
TOO_FEW = "too few octets to tell the version"
NO_VERSION = "no version in force"
NO_BOUNDARY = "frame boundary unknown"
NOT_READ_ON = "reading stopped"
FOR_A_PROXY = "for or from a proxy"
"""Why octets are left over, beside the reasons of `zmtpscope.zmtp.events.Skipped`."""


FIRST = 32
"""So many of the octets that are left over are kept, to be shown."""


class Gap(NamedTuple):
    """`octets` octets that were lost within the stream offsets `start..stop`, as the segment `decided` made known."""

    start: int
    stop: int
    octets: int
    reason: str
    decided: Arrival
    resumed_at: int | None
    """Where reading goes on behind it; None: nowhere."""

    def many(self, last: Gap, octets: int) -> Gap:
        """This gap and all up to `last` as one."""
        return self._replace(stop=last.stop, octets=octets, reason=MANY_GAPS, resumed_at=last.resumed_at)


class Leftover(NamedTuple):
    """`octets` octets within the stream offsets `start..stop` that were captured and are in no unit.

    `decided` is the segment with the first of them, with the ordinal of that which made known how far they go.
    `between_units` is that of `zmtpscope.zmtp.events.Skipped`. `data` are the first of these octets, at most `FIRST`;
    None where nobody shall see them.
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
        """This leftover and all up to `last` as one."""
        return self._replace(stop=last.stop, octets=octets, reason=MANY_LEFTOVERS)

    def joined(self, following: Leftover) -> Leftover | None:
        """This and the next leftover of the side as one, if they belong in one record: the same segment has decided
        both, they are of the same kind for the same reason, and what is between them is nothing, or whole units."""
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
    """Gaps or leftovers that are not written yet, by side, in the order of the stream."""

    def __init__(self) -> None:
        self.waiting: tuple[list[T], list[T]] = ([], [])

    def add(self, side: int, item: T) -> None:
        """It is known how far the octets go, and what is behind them."""
        self.waiting[side].append(item)

    def drain(self, since: int | None) -> list[tuple[int, T]]:
        """(side, item) of all that can be written, where the segment `since` has made known that this is ZMTP (None:
        none has, so nothing is written)."""
        if not (self.waiting[0] or self.waiting[1]):
            return []
        taken: list[tuple[int, T]] = []
        for side, items in enumerate(self.waiting):
            if len(items) > MOST_PENDING:
                early = len(items) if since is None else bisect_left(items, since, key=_ordinal)
                items[:early] = _bounded(items[:early])
            if since is not None:
                for item in items:
                    known = item.decided.ordinal >= since
                    taken.append((side, item if known else item._replace(decided=item.decided._replace(ordinal=since))))
                items.clear()
        return taken


class PendingLeftovers(Pending[Leftover]):
    """Leftovers that are not written yet. Segments full of lengths of 0, say, have one record each, not hundreds."""

    def add(self, side: int, item: Leftover) -> None:
        """It is known how far the octets go; they go on with the leftover in front of them, where both are one."""
        items = self.waiting[side]
        one = items[-1].joined(item) if items else None
        if one is None:
            items.append(item)
        else:
            items[-1] = one


def _bounded(items: list[T]) -> list[T]:
    """The first of them, and one for all that are too many."""
    if len(items) <= MOST_PENDING:
        return items
    kept, rest = items[: MOST_PENDING - 1], items[MOST_PENDING - 1 :]
    kept.append(rest[0].many(rest[-1], sum(item.octets for item in rest)))
    return kept


def _ordinal(item: Gap | Leftover) -> int:
    return item.decided.ordinal
