"""Capture time, in nanoseconds, and as text of findings."""

from __future__ import annotations

SECOND = 1_000_000_000
"""Also what is allowed for what is under way, or was captured a little out of order."""

SHORT = 50_000
"""Less is written in microseconds."""


def duration(nanoseconds: int) -> str:
    """`3.0 s`, `0.2 ms` or `1.4 us`; how long it was, whichever came first."""
    length = abs(nanoseconds)
    if length < SHORT:
        return f"{length / 1e3:.3g} us"
    return f"{length / SECOND:.1f} s" if length > SECOND else f"{length / 1e6:.1f} ms"
