"""Capture time in nanoseconds, and its text in findings."""

from __future__ import annotations

SECOND = 1_000_000_000
"""One second; also the tolerance for events under way, or captured slightly out of order."""

SHORT = 50_000
"""Durations below this are printed in microseconds."""


def duration(nanoseconds: int) -> str:
    """Format the absolute value of a duration: `3.0 s`, `0.2 ms` or `1.4 us`."""
    length = abs(nanoseconds)
    if length < SHORT:
        return f"{length / 1e3:.3g} us"
    return f"{length / SECOND:.1f} s" if length > SECOND else f"{length / 1e6:.1f} ms"
