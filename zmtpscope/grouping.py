"""Group values by a key, or by pauses in time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Group values by key, both in order of appearance."""
    found: dict[Key, list[Value]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


def divided_at_pauses(values: Iterable[Value], time: Callable[[Value], int], pause: float) -> Iterator[list[Value]]:
    """Divide values, which are in order of time, into groups.

    A group ends where no value follows within `pause`; `time` returns the time of a value.
    """
    together: list[Value] = []
    for value in sorted(values, key=time):
        if together and time(value) - time(together[-1]) > pause:
            yield together
            together = []
        together.append(value)
    if together:
        yield together
