"""Capture time, in nanoseconds, and as text of findings."""

from __future__ import annotations

SECOND = 1_000_000_000
"""Also what is allowed for what is under way, or was captured a little out of order."""


def duration(nanoseconds: int) -> str:
    """`3.0 s` or `0.2 ms`; how long it was, whichever came first."""
    length = abs(nanoseconds)
    return f"{length / SECOND:.1f} s" if length > SECOND else f"{length / 1e6:.1f} ms"
