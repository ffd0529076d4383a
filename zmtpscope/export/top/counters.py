"""Counters of topics, connections or peers: a row each, columns of numbers, and no more rows than a limit."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.export.top.columns import LastMessage

Key = TypeVar("Key", bound=Hashable)
Int64 = NDArray[np.int64]

MOST_ROWS = 16_384
"""Topics, connections and peers that are told apart, of each so many."""

SENT, SENT_OCTETS, RECEIVED, RECEIVED_OCTETS, FRAMES, CONNECTIONS = range(6)
"""The columns. Octets are those of message frames, headers not counted; connections are those that were new."""
COLUMNS = 6

OTHERS = 0
"""The row of what was folded."""


class TooManyRows(Exception):
    """There is no room for another row: `fold` makes some."""

    def __init__(self, counters: Counters[Any]) -> None:
        super().__init__()
        self.counters = counters


class Counters(Generic[Key]):
    """One kind of rows. `interval` has the numbers of the interval under way, `previous` those of the one before, and
    `total` all up to its end."""

    def __init__(self, order: Callable[[Key], Any], most: int = MOST_ROWS) -> None:
        """`order` sorts keys: which of those with equal numbers is folded must depend on nothing else."""
        self.most = most
        self.folded = 0
        """How often a row was folded."""
        self.keys: list[Key | None] = [None]
        self.rows: dict[Key, int] = {}
        self.first: list[int | None] = [None]
        """Time of the first message."""
        self.last: list[LastMessage | None] = [None]
        self.subscribers: list[int | None] = [None]
        """In the last interval in which the row had messages."""
        self.most_subscribers: list[int | None] = [None]
        self.total, self.interval, self.previous = np.zeros((3, COLUMNS, most + 1), np.int64)
        self.busiest = np.zeros(most + 1, np.int64)
        """Messages in the busiest interval."""
        self._order = order

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.keys, self.first, self.last, self.subscribers, self.most_subscribers

    def __len__(self) -> int:
        return len(self.keys)

    def row(self, key: Key) -> int:
        """The row of a key; a new one if there is room, else `TooManyRows` is raised."""
        row = self.rows.get(key)
        if row is None:
            row = len(self.keys)
            if row > self.most:
                raise TooManyRows(self)
            self.rows[key] = row
            self.keys.append(key)
            for column in self._lists[1:]:
                column.append(None)
        return row

    def roll_back(self, count: int) -> None:
        """Only the first `count` rows shall be there; the others have counted nothing."""
        for key in self.keys[count:]:
            assert key is not None
            del self.rows[key]
        for column in self._lists:
            del column[count:]

    def fold(self) -> None:
        """Count the half of the rows with the fewest messages as others."""
        count = len(self.keys)
        messages = self.total[:, :count] + self.interval[:, :count]
        messages = messages[SENT] + messages[RECEIVED]
        ranked = sorted(range(1, count), key=lambda row: (messages[row], self._order(self._key(row))))
        folded = sorted(ranked[: len(ranked) - self.most // 2])
        kept = [OTHERS, *sorted(ranked[len(folded) :])]
        for matrix in (self.total, self.interval, self.previous):
            matrix[:, OTHERS] += matrix[:, folded].sum(axis=1)
            matrix[:, : len(kept)] = matrix[:, kept]
            matrix[:, len(kept) :] = 0
        self.busiest[: len(kept)] = self.busiest[kept]
        self.busiest[len(kept) :] = 0
        self.first[OTHERS] = min(ns for row in [OTHERS, *folded] if (ns := self.first[row]) is not None)
        for column in self._lists:
            column[:] = [column[row] for row in kept]
        self.rows = {key: row for row, key in enumerate(self.keys) if key is not None}
        self.folded += len(folded)

    def active_rows(self) -> list[int]:
        """The rows that had messages in the interval under way."""
        count = len(self.keys)
        active: list[int] = np.flatnonzero(self.interval[SENT, :count] + self.interval[RECEIVED, :count]).tolist()
        return active

    def end_interval(self) -> None:
        """The interval under way becomes the previous one."""
        count = len(self.keys)
        self.total[:, :count] += self.interval[:, :count]
        messages = self.interval[SENT, :count] + self.interval[RECEIVED, :count]
        np.maximum(self.busiest[:count], messages, out=self.busiest[:count])
        self.previous, self.interval = self.interval, self.previous
        self.interval[:, :count] = 0

    def _key(self, row: int) -> Key:
        key = self.keys[row]
        assert key is not None
        return key
