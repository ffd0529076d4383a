"""The octets that the capture lost of one connection, until they can be told: each loss is in one gap record.

A loss is told when it is known where reading goes on behind it, and not before it is known that this is ZMTP.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival

MOST_GAPS = 1024
"""So many losses of a side are remembered one by one while it is not known whether this is ZMTP; the last of them then
stands for all that follow."""

MANY = "many losses before this was known to be ZMTP"


class Gap(NamedTuple):
    """`octets` octets that were lost within the stream offsets `start..stop`, as the segment `told` made known."""

    start: int
    stop: int
    octets: int
    reason: str
    told: Arrival
    resumed_at: int | None
    """Where reading goes on behind it; None: nowhere."""


class Gaps:
    """Gaps that are not told yet, by side, in the order of the stream."""

    def __init__(self) -> None:
        self.waiting: tuple[list[Gap], list[Gap]] = ([], [])

    def add(self, side: int, gap: Gap) -> None:
        """It is known what becomes of a loss."""
        self.waiting[side].append(gap)

    def take(self, since: int | None) -> list[tuple[int, Gap]]:
        """(side, gap) of all that can be told, where the segment `since` has made known that this is ZMTP (None: none
        has, so nothing is told)."""
        taken: list[tuple[int, Gap]] = []
        for side, gaps in enumerate(self.waiting):
            if len(gaps) > MOST_GAPS:
                early = len(gaps) if since is None else bisect_left(gaps, since, key=_ordinal)
                gaps[:early] = _bounded(gaps[:early])
            if since is not None:
                for gap in gaps:
                    ordinal = max(gap.told.ordinal, since)
                    taken.append((side, gap._replace(told=gap.told._replace(ordinal=ordinal))))
                gaps.clear()
        return taken


def _bounded(gaps: list[Gap]) -> list[Gap]:
    """The first of them, and one for all that are too many."""
    if len(gaps) <= MOST_GAPS:
        return gaps
    rest = gaps[MOST_GAPS - 1 :]
    octets = sum(gap.octets for gap in rest)
    many = Gap(rest[0].start, rest[-1].stop, octets, MANY, rest[0].told, rest[-1].resumed_at)
    return [*gaps[: MOST_GAPS - 1], many]


def _ordinal(gap: Gap) -> int:
    return gap.told.ordinal
