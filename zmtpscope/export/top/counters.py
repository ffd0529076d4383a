"""Count messages by topic, connection or peer, with a limited number of rows."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.export.top.columns import LastMessage, Sums, UnreadMessage

Key = TypeVar("Key", bound=Hashable)

MAX_ROWS = 16_384


class Counts(NamedTuple):
    """Counts of one row.

    Octets are those of message frames, without headers; `connections` are new connections.
    """

    sent: int
    sent_octets: int
    received: int
    received_octets: int
    frames: int
    connections: int

    @property
    def messages(self) -> int:
        return self.sent + self.received

    @property
    def octets(self) -> int:
        return self.sent_octets + self.received_octets


SENT, SENT_OCTETS, RECEIVED, RECEIVED_OCTETS, FRAMES, CONNECTIONS = range(len(Counts._fields))

OTHERS = 0
"""The row that counts all folded rows."""

NEVER = np.iinfo(np.int64).max


class TooManyRows(Exception):
    """The limit of rows is reached; `counters.fold` merges rows."""

    def __init__(self, counters: Counters[Any]) -> None:
        super().__init__()
        self.counters = counters


class Counters(Generic[Key]):
    """Counters for one kind of key, with at most `most` rows (at least 3, since a message needs up to two).

    `interval` counts the current interval, `previous` the one before, `total` all finished intervals.
    """

    def __init__(self, most: int = MAX_ROWS) -> None:
        self.most = most
        self.folded = 0
        self.keys: list[Key | None] = [None]
        self.rows: dict[Key, int] = {}
        self.last: list[LastMessage | UnreadMessage | None] = [None]
        self.subscribers: list[int | None] = [None]
        """Number of subscribers by row, in the last interval in which it had messages."""
        self.most_subscribers: list[int | None] = [None]
        self.total, self.interval, self.previous = np.zeros((3, len(Counts._fields), most + 1), np.int64)
        self.busiest = np.zeros(most + 1, np.int64)
        """Messages in the busiest interval, by row."""
        self.first = np.full(most + 1, NEVER)
        """Time of the first message, by row."""
        self.orders = np.full(most + 1, NEVER)
        """Sorts rows by their first messages."""

    @property
    def _lists(self) -> tuple[list[Any], ...]:
        return self.keys, self.last, self.subscribers, self.most_subscribers

    def __len__(self) -> int:
        return len(self.keys)

    def row(self, key: Key) -> int:
        """Return the row of a key, which is created for a new key. Raises `TooManyRows`."""
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
        """Remove all rows but the first `count`. The removed rows must not have counted any messages."""
        for key in self.keys[count:]:
            assert key is not None
            del self.rows[key]
        for column in self._lists:
            del column[count:]

    def fold(self) -> tuple[Int64, Int64]:
        """Merge the half of the rows with the fewest messages into the row `OTHERS`; among equal rows the newest.

        Returns the old numbers of the rows that stay, in their new order, and the old numbers of the merged rows.
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

    def add(self, counts: Int64, rows: Int64, sums: Sums, is_received: Bool, is_new: Bool) -> None:
        """Add `sums` to the rows `rows` of `counts`, one of the matrices.

        `is_received`: they count as received messages. `is_new`: they belong to a new connection.
        """
        np.add.at(counts, (np.where(is_received, RECEIVED, SENT), rows), sums.messages)
        np.add.at(counts, (np.where(is_received, RECEIVED_OCTETS, SENT_OCTETS), rows), sums.octets)
        np.add.at(counts[FRAMES], rows, sums.frames)
        np.add.at(counts[CONNECTIONS], rows, is_new)

    def note(self, rows: Int64, times: Int64, orders: Int64) -> None:
        """Store time and order of the first messages of `rows`. A row may occur more than once."""
        np.minimum.at(self.first, rows, times)
        np.minimum.at(self.orders, rows, orders)

    def read_messages(self) -> None:
        """Read the parts of each last message that are shown, which frees the tables of messages."""
        self.last = [None if last is None else last.read() for last in self.last]

    def active_rows(self) -> list[int]:
        count = len(self.keys)
        active: list[int] = np.flatnonzero(self.interval[SENT, :count] + self.interval[RECEIVED, :count]).tolist()
        return active

    def end_interval(self) -> None:
        """Add the current interval to the totals and start the next one."""
        count = len(self.keys)
        self.total[:, :count] += self.interval[:, :count]
        messages = self.interval[SENT, :count] + self.interval[RECEIVED, :count]
        np.maximum(self.busiest[:count], messages, out=self.busiest[:count])
        self.previous, self.interval = self.interval, self.previous
        self.interval[:, :count] = 0
