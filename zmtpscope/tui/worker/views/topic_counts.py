"""Message counts by topic and sender."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.statistics.tally import BARS, MIN_BAR_NS, Scale
from zmtpscope.records import SECOND
from zmtpscope.store.counting import CountedMessages, Sender
from zmtpscope.zmtp.events import MARKED

MAX_ROWS = 65_536
"""Maximum pairs of topic and sender (some 700 octets each); further messages are only counted."""

FEW_CELLS = 1 << 18
"""Maximum combinations of sender and topic in a dense array."""

NONE = -1

MESSAGES, OCTETS, LAST, BEFORE, TIME, TOPIC = range(6)
"""Counts of a row: numbers of messages and octets, record numbers of the last two messages (`NONE` without), time of
the last one (ns), place of the topic in `topics`."""


class Key(NamedTuple):
    """The key of a row: topic, connection and sending side. The topic is cut to `LONGEST_TOPIC` octets."""

    topic: bytes | None
    conn: int
    side: int


class TopicCounts:
    """The number of messages, octets and so on of each topic and sender, as columns. `keys` are the keys of
    the rows."""

    def __init__(self, most: int = MAX_ROWS) -> None:
        self.most = most
        self.keys: list[Key] = []
        self.topics: list[bytes | None] = []
        self.left_out = 0
        """Number of messages beyond `MAX_ROWS`."""
        self.has_marked = False
        """Whether there are messages that subscribe, which are not counted."""
        self.scale = Scale(SECOND, MIN_BAR_NS)
        self.first_ns: int | None = None
        self.last_ns = 0
        self._rows: dict[Key, int] = {}
        self._numbers: dict[bytes | None, int] = {}
        self._columns = np.zeros((6, 64), np.int64)
        self._bars = np.zeros((64, BARS), np.uint32)

    @property
    def columns(self) -> Int64:
        """Return an array with a line for each kind of count (`MESSAGES` and others), and a column for each row of the
        view."""
        return self._columns[:, : len(self.keys)]

    def number(self, topic: bytes | None) -> int:
        return self._numbers[topic]

    def bars(self, rows: Int64) -> list[int]:
        """Return the number of messages of `rows` in each period of time, for a plot."""
        bars: list[int] = self._bars[rows].sum(axis=0)[: self.scale.bars_until(self.last_ns)].tolist()
        return bars

    def count(self, messages: CountedMessages, start: int | None) -> None:
        """Count messages, except messages that subscribe. `start` is the time (ns) of the first packet."""
        is_data: Bool = (messages.special & MARKED) == 0
        which = slice(None)
        if not is_data.all():
            self.has_marked = True
            which = np.flatnonzero(is_data)  # type: ignore[assignment]
        texts, topic_of = messages.topics
        found = self._rows_of(messages.senders, messages.sender_of[which], texts, topic_of[which])
        times, octets, numbers = messages.time_ends[which], messages.body_octets[which], messages.numbers[which]
        if not len(found):
            return
        self._widen(int(times.min()) if start is None else start, int(times.max()))
        there = found != NONE
        if not there.all():
            self.left_out += int(np.count_nonzero(~there))
            found, times, octets, numbers = (each[there] for each in (found, times, octets, numbers))
        self._add(found, times, octets, numbers)

    def _rows_of(self, senders: list[Sender], sender_of: Int64, texts: list[bytes | None], topic_of: Int64) -> Int64:
        """Return the row of each message; `NONE` if there is no space for its row."""
        cells = sender_of * len(texts) + topic_of
        if len(senders) * len(texts) <= FEW_CELLS:
            different = np.flatnonzero(np.bincount(cells))
            row_of_cell = np.full(int(different[-1]) + 1 if len(different) else 0, NONE)
            row_of_cell[different] = [self._row(senders, texts, cell) for cell in different.tolist()]
            rows: Int64 = row_of_cell[cells]
            return rows
        different, which = np.unique(cells, return_inverse=True)
        return np.array([self._row(senders, texts, cell) for cell in different.tolist()], np.int64)[which]

    def _row(self, senders: list[Sender], texts: list[bytes | None], cell: int) -> int:
        sender, text = divmod(cell, len(texts))
        stream, topic = senders[sender].stream, texts[text]
        key = Key(None if topic is None else topic[:LONGEST_TOPIC], stream.conn or 0, stream.side or 0)
        row = self._rows.get(key)
        if row is None:
            if len(self.keys) == self.most:
                return NONE
            row = self._rows[key] = len(self.keys)
            self.keys.append(key)
            if row == self._columns.shape[1]:
                self._columns = np.concatenate([self._columns, np.zeros_like(self._columns)], axis=1)
                self._bars = np.concatenate([self._bars, np.zeros_like(self._bars)])
            self._columns[BEFORE, row] = self._columns[LAST, row] = NONE
            number = self._columns[TOPIC, row] = self._numbers.setdefault(key.topic, len(self.topics))
            if number == len(self.topics):
                self.topics.append(key.topic)
        return row

    def _widen(self, first: int, last: int) -> None:
        self.first_ns = first if self.first_ns is None else min(self.first_ns, first)
        self.last_ns = max(self.last_ns, last)
        for _ in range(self.scale.halvings(first, last)):
            joined = self._bars.reshape(len(self._bars), BARS // 2, 2).sum(axis=2)
            self._bars[:] = 0
            self._bars[:, : BARS // 2] = joined

    def _add(self, rows: Int64, times: Int64, octets: Int64, numbers: Int64) -> None:
        by_row = np.argsort(rows.astype(np.uint16), kind="stable")  # fewer than 2^16 rows: radix sort
        ordered, times = rows[by_row], times[by_row]
        is_first = np.append(True, ordered[1:] != ordered[:-1])
        begins = np.flatnonzero(is_first)
        ends = np.append(begins[1:], len(ordered)) - 1
        seen, columns = ordered[begins], self._columns
        columns[MESSAGES, seen] += ends + 1 - begins
        columns[OCTETS, seen] += np.add.reduceat(octets[by_row], begins)
        columns[TIME, seen] = np.maximum(columns[TIME, seen], np.maximum.reduceat(times, begins))
        cells = (np.cumsum(is_first) - 1) * BARS + self.scale.bars(times)
        bars = np.bincount(cells, minlength=len(seen) * BARS).reshape(len(seen), BARS)
        self._bars[seen] += bars.astype(np.uint32)
        one_before = numbers[by_row[np.maximum(ends - 1, 0)]]
        columns[BEFORE, seen] = np.where(ends > begins, one_before, columns[LAST, seen])
        columns[LAST, seen] = numbers[by_row[ends]]
