"""Counters of topics, connections or peers: a row each, columns of numbers, and no more rows than a limit."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.export.top.columns import LastMessage, UnreadMessage

Key = TypeVar("Key", bound=Hashable)
Int64 = NDArray[np.int64]

MOST_ROWS = 16_384
"""Topics, connections and peers that are told apart, of each so many."""

SENT, SENT_OCTETS, RECEIVED, RECEIVED_OCTETS, FRAMES, CONNECTIONS = range(6)
"""The columns. Octets are those of message frames, headers not counted; connections are those that were new."""
COLUMNS = 6

OTHERS = 0
"""The row of what was folded."""

NEVER = np.iinfo(np.int64).max


class TooManyRows(Exception):
    """There is no room for another row: `fold` makes some."""

    def __init__(self, counters: Counters[Any]) -> None:
        super().__init__()
        self.counters = counters


class Counters(Generic[Key]):
    """One kind of rows, of which there are no more than `most`, 3 or more: a message has up to two. `interval` has the
    numbers of the interval under way, `previous` those of the one before, and `total` all up to its end."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.most = most
        self.folded = 0
        """How often a row was folded."""
        self.keys: list[Key | None] = [None]
        self.rows: dict[Key, int] = {}
        self.last: list[LastMessage | UnreadMessage | None] = [None]
        self.subscribers: list[int | None] = [None]
        """In the last interval in which the row had messages."""
        self.most_subscribers: list[int | None] = [None]
        self.total, self.interval, self.previous = np.zeros((3, COLUMNS, most + 1), np.int64)
        self.busiest = np.zeros(most + 1, np.int64)
        """Messages in the busiest interval."""
        self.first = np.full(most + 1, NEVER)
        """Time of the first message."""
        self.orders = np.full(most + 1, NEVER)
        """A number that grows with the place of the first message among all: no two rows have the same."""

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.keys, self.last, self.subscribers, self.most_subscribers

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

    def fold(self) -> tuple[Int64, Int64]:
        """Count the half of the rows with the fewest messages as others, of those with equally many the newest.

        The old numbers of the rows that stay, in their new order, and of those that were folded.
        """
        count = len(self.keys)
        messages = self.total[:, :count] + self.interval[:, :count]
        ranked = np.lexsort((-self.orders[1:count], (messages[SENT] + messages[RECEIVED])[1:])) + 1
        folded, kept = ranked[: -(self.most // 2)], np.sort(np.append(OTHERS, ranked[-(self.most // 2) :]))
        for matrix in (self.total, self.interval, self.previous):
            matrix[:, OTHERS] += matrix[:, folded].sum(axis=1)
            matrix[:, : len(kept)] = matrix[:, kept]
            matrix[:, len(kept) :] = 0
        self.first[OTHERS] = min(self.first[OTHERS], self.first[folded].min())
        for column, nothing in ((self.busiest, 0), (self.first, NEVER), (self.orders, NEVER)):
            column[: len(kept)] = column[kept]
            column[len(kept) :] = nothing
        rows = kept.tolist()
        for values in self._lists:
            values[:] = [values[row] for row in rows]
        self.rows = {key: row for row, key in enumerate(self.keys) if key is not None}
        self.folded += len(folded)
        return kept, folded

    def note(self, rows: Int64, times: Int64, orders: Int64) -> None:
        """Rows, some of them perhaps more than once, have first messages."""
        np.minimum.at(self.first, rows, times)
        np.minimum.at(self.orders, rows, orders)

    def read_messages(self) -> None:
        """Keep of the last messages what is shown, and nothing else."""
        self.last = [None if last is None else last.read() for last in self.last]

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
