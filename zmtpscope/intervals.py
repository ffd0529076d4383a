"""Merge intervals of time, or of octets."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]
"""Start and end, which is excluded."""


def disjoint(intervals: Iterable[Interval]) -> list[Interval]:
    """Sort intervals, and merge overlapping and adjacent ones."""
    found: list[Interval] = []
    for start, stop in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], stop)
        else:
            found.append((start, stop))
    return found
