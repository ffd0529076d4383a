"""Counters for one kind of key (all messages, topics, peers and so on): one row for each key."""

from __future__ import annotations

from typing import Any

import numpy as np

from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.export.statistics.tally import BARS, MAX_SIZES, Sizes, Tally
from zmtpscope.export.top.counters import OTHERS, Counters

MAX_ROWS = 4096

MAX_SIZES_OF_ALL = 65_536
"""Different sizes to count exactly if there is only one row."""


class Group(Counters[Any]):
    """Counters for one kind of key, with distributions of message sizes and times."""

    def __init__(self, kind: str, most: int = MAX_ROWS) -> None:
        super().__init__(most)
        self.kind = kind
        self.sizes: list[Sizes] = []
        self.bars = np.zeros((most + 1, BARS), np.int64)
        self.gaps, self.gap_octets = np.zeros((2, most + 1), np.int64)
        # number of the current interval of each row, and its messages so far; `busiest` counts the busiest one
        self._interval = np.full(most + 1, -1)
        self._in_interval = np.zeros(most + 1, np.int64)
        self._most_sizes = MAX_SIZES_OF_ALL if kind == "all" else MAX_SIZES

    def add_rows(self, tally: Tally) -> None:
        """Add counted messages. `tally` counts by row."""
        nothing = np.zeros(len(self), np.bool_)
        self.add_tally(tally, np.arange(len(self)), nothing, nothing)

    def add_tally(self, tally: Tally, rows: Int64, is_received: Bool, is_new: Bool) -> None:
        """Add counted messages: those that `tally` counts under the number i belong to row `rows[i]`.

        `is_received[i]`: they count as received. `is_new[i]`: they belong to a new connection.
        """
        there = np.flatnonzero(tally.sums.messages)
        of_there, back = rows[there], is_received[there]
        self.add(self.total, of_there, tally.sums.part(there), back, is_new[there])
        self.note(of_there, tally.times[there], 2 * tally.orders[there] + back)
        self._fill_to(len(self))
        sizes, columns = self.sizes, (rows[tally.sizes.numbers], tally.sizes.values, tally.sizes.counts)
        for row, size, count in zip(*(column.tolist() for column in columns), strict=True):
            sizes[row].add(size, count)
        np.add.at(self.bars, (rows[tally.bars.numbers], tally.bars.values), tally.bars.counts)
        self._count_intervals(tally, rows)

    def add_gap(self, row: int, octets: int) -> None:
        self._fill_to(len(self))
        self.gaps[row] += 1
        self.gap_octets[row] += octets

    def join_bars(self) -> None:
        """Halve the resolution of all histograms over time: join their bars in pairs."""
        count = len(self.bars)
        self.bars[:, : BARS // 2] = self.bars.reshape(count, BARS // 2, 2).sum(axis=2)
        self.bars[:, BARS // 2 :] = 0

    def fold(self) -> tuple[Int64, Int64]:
        kept, folded = super().fold()
        self._fill_to(int(max(kept.max(), folded.max())) + 1)
        for row in folded.tolist():
            self.sizes[OTHERS].merge(self.sizes[row])
        self.sizes = [self.sizes[row] for row in kept.tolist()]
        for column in (self.bars, self.gaps, self.gap_octets):
            column[OTHERS] += column[folded].sum(axis=0)
        for column in (self.bars, self.gaps, self.gap_octets, self._interval, self._in_interval):
            column[: len(kept)] = column[kept]
            column[len(kept) :] = -1 if column is self._interval else 0
        return kept, folded

    def _fill_to(self, count: int) -> None:
        while len(self.sizes) < count:
            self.sizes.append(Sizes(self._most_sizes))

    def _count_intervals(self, tally: Tally, rows: Int64) -> None:
        """Update the number of messages in the busiest interval of each row. Intervals arrive in order."""
        numbers, intervals, counts = tally.intervals.moved(rows)
        if not len(numbers):
            return
        is_first = np.append(True, numbers[1:] != numbers[:-1])
        is_last = np.append(numbers[1:] != numbers[:-1], True)
        goes_on = is_first & (intervals == self._interval[numbers])
        counts = counts + np.where(goes_on, self._in_interval[numbers], 0)
        np.maximum.at(self.busiest, numbers, counts)
        self._interval[numbers[is_last]] = intervals[is_last]
        self._in_interval[numbers[is_last]] = counts[is_last]
