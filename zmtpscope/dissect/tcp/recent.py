"""A mapping that forgets its oldest entries."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Keeps the last `size` entries that were set, and at most twice as many.

    Many entries are set and forgotten at once, which is faster than a queue of single entries. Which entries are
    forgotten does not depend on how many were set at once.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._newer: dict[K, V] = {}
        self._older: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._newer.get(key)
        return self._older.get(key) if found is None else found

    def update(self, entries: Iterable[tuple[K, V]]) -> None:
        """Set several entries; the last one is the most recent."""
        left = iter(entries)
        while some := list(islice(left, self._size - len(self._newer))):
            self._newer.update(some)
            if len(self._newer) == self._size:
                self._newer, self._older = {}, self._newer

    def remove(self, keys: Iterable[K]) -> None:
        for entries in (self._newer, self._older):
            for key in entries.keys() & keys:
                del entries[key]

    def is_disjoint(self, keys: Iterable[K]) -> bool:
        return self._newer.keys().isdisjoint(keys) and self._older.keys().isdisjoint(keys)
