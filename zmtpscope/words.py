"""Format counts, endpoints, durations and alternatives for sentences."""

from __future__ import annotations

from collections.abc import Sequence

from zmtpscope.records import SECOND

SHORT = 50_000
"""Durations (ns) below this are in microseconds."""


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Write a number with its noun: `1 client` or `3 clients`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def how_many_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def host_port(host: str | None, port: int | None) -> str:
    """Write host and port: `10.0.0.1:5555` or `[::1]:5555`."""
    return f"[{host}]:{port}" if host and ":" in host else f"{host}:{port}"


def either(words: Sequence[str]) -> str:
    """List alternatives: `["a", "b", "c"] -> "a, b or c"`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def listed(names: Sequence[str], most: int) -> str:
    """List at most `most` names, and count the rest: `SUB 10.0.0.2, SUB 10.0.0.3 and 7 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def duration(nanoseconds: int) -> str:
    """Format the absolute value of a duration in nanoseconds: `3.0 s`, `0.2 ms` or `1.4 us`."""
    length = abs(nanoseconds)
    if length < SHORT:
        return f"{length / 1e3:.3g} us"
    return f"{length / SECOND:.1f} s" if length > SECOND else f"{length / 1e6:.1f} ms"
