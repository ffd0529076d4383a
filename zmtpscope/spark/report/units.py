"""Formats numbers for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from zmtpscope.export.words import scaled, size

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING = "\N{EN DASH}"

DURATIONS = (
    (86_400 * 10**9, "d"),
    (3600 * 10**9, "h"),
    (60 * 10**9, "min"),
    (10**9, "s"),
    (10**6, "ms"),
    (10**3, "µs"),
)


def count(number: float) -> str:
    """Format a number: `1,234,567`, or `12.3` and `0.0123` if it is not whole."""
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def short_count(number: float) -> str:
    """Format a count with a metric prefix: `12.3 M` for 12,300,000."""
    for scale, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if abs(number) >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.3g}"


def power_of_two(octets: int) -> str:
    """Format a size that is a power of two: `512 B`, `64 KiB`."""
    for bits, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if octets >> bits:
            return f"{octets >> bits} {unit}"
    return f"{octets} B"


def short_size(octets: float) -> str:
    """Format a size in octets: `12.3 kB`, `12 B`."""
    return f"{octets:.3g} B" if octets < 1000 else size(octets)


def duration(nanoseconds: float) -> str:
    """Format a duration: `1.23 s`, `45.6 µs`, `3 d 4 h`."""
    for (scale, unit), (lower, smaller) in pairwise(DURATIONS):
        if nanoseconds >= scale and scale >= 60 * 10**9:
            whole, rest = divmod(int(nanoseconds), scale)
            more = f" {rest // lower} {smaller}" if rest // lower else ""
            return f"{whole:,} {unit}{more}"
        if nanoseconds >= scale:
            return scaled(nanoseconds / scale, unit)
    return scaled(nanoseconds / 1000, "µs") if nanoseconds >= 1000 else f"{nanoseconds:.0f} ns"


def moment(microseconds: int) -> str:
    """Format a time in UTC: `2026-11-21 03:08:54.062445`."""
    return (EPOCH + timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M:%S.%f")


def time_of_day(microseconds: int) -> str:
    """Format a time of day in UTC: `03:08:54.062445`."""
    return moment(microseconds)[11:]
