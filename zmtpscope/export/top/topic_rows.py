"""Find the rows of the topics of many messages at once.

A dictionary knows every topic, but needs a slice for each message. A hash table answers most lookups first, for whole
columns at a time: a topic of up to 32 octets is read as four words of eight octets, and their hash is its place. The
words are compared, so that colliding topics stay separate. A topic that is not in its place is looked up in the
dictionary and replaces the entry.
"""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect import MessageRun
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.topic_words import FACTOR, LONGEST_TOPIC, WORD, UInt64, mixed, words_of
from zmtpscope.export.top.columns import Columns
from zmtpscope.export.top.counters import Counters
from zmtpscope.export.top.open_connections import OpenConnections
from zmtpscope.export.top.peers import Peer, Topic

MAX_WORDS = 4
PLACE_BITS = 12

MIN_MESSAGES = 64
"""Minimum number of messages for which columns are faster than the dictionary."""


class TopicRows:
    """The rows of the topics of all senders. An unknown topic gets a new row."""

    def __init__(self, topics: Counters[Topic]) -> None:
        self._topics = topics
        self._rows: dict[Peer, dict[bytes, int]] = {}
        self._words = np.zeros((MAX_WORDS, 1 << PLACE_BITS), np.uint64)
        self._sizes = np.zeros(1 << PLACE_BITS, np.int64)
        self._senders = np.full(1 << PLACE_BITS, -1)
        """Number of the sender of each entry in `_numbers`, or -1 if the place is empty."""
        self._found = np.zeros(1 << PLACE_BITS, np.int64)
        self._numbers: dict[Peer, int] = {}

    def clear(self) -> None:
        """Forget the numbers of all rows, because the table has renumbered its rows."""
        self._rows.clear()
        self._numbers.clear()
        self._senders[:] = -1

    def of_messages(self, columns: Columns, connections: OpenConnections) -> Int64:
        """Return the row of the topic of each message. Raises `TooManyRows`."""
        found = np.empty(len(columns.run_of), np.int64)
        by_run = np.argsort(columns.run_of, kind="stable")
        begins = [0, *(np.flatnonzero(np.diff(columns.run_of[by_run])) + 1).tolist()]
        for begin, end in zip(begins, [*begins[1:], len(found)], strict=True):
            among = by_run[begin:end]
            run = columns.runs[int(columns.run_of[among[0]])]
            sender = connections.of_run(run).peers[run.stream.side or 0]
            found[among] = self._rows_of_run(run, columns.row_of[among], sender)
        return found

    def _rows_of_run(self, run: MessageRun, rows: Int64, sender: Peer) -> Int64 | int:
        """Return the display row of the topic of each message. `rows` are the numbers of the messages in the run."""
        if run.topics is None:
            return self._topics.row(Topic(sender, None))
        sizes = np.minimum(run.topics[rows], LONGEST_TOPIC)
        starts = run.bodies[run.first[rows]] - run.base
        has_topic = sizes >= 0
        if has_topic.all():
            return self.rows(sender, run.data, starts, sizes)
        found = np.full(len(rows), self._topics.row(Topic(sender, None)))
        if has_topic.any():
            found[has_topic] = self.rows(sender, run.data, starts[has_topic], sizes[has_topic])
        return found

    def rows(self, sender: Peer, data: bytes, starts: Int64, sizes: Int64) -> Int64:
        """Return the row of each topic `data[start : start + size]` of a sender. Raises `TooManyRows`."""
        longest = int(sizes.max())
        count = max(1, -(-longest // WORD))
        if len(starts) < MIN_MESSAGES or count > MAX_WORDS:
            return np.array(self._look_up(sender, data, starts, sizes))
        is_inside = starts + WORD * count <= len(data)
        if is_inside.all():
            return self._rows_by_words(sender, data, starts, sizes, count)
        rows = np.empty(len(starts), np.int64)  # whole words are read, and too few octets follow the last topics
        rows[~is_inside] = self._look_up(sender, data, starts[~is_inside], sizes[~is_inside])
        if is_inside.any():
            rows[is_inside] = self._rows_by_words(sender, data, starts[is_inside], sizes[is_inside], count)
        return rows

    def _rows_by_words(self, sender: Peer, data: bytes, starts: Int64, sizes: Int64, count: int) -> Int64:
        number = self._numbers.setdefault(sender, len(self._numbers))
        words = words_of(data, starts, sizes, count)
        places = _places(words, sizes, number)
        known = (self._senders[places] == number) & (self._sizes[places] == sizes)
        for column, word in zip(self._words, words, strict=False):
            known &= column[places] == word
        found: Int64 = self._found[places]
        unknown = np.flatnonzero(~known)
        if len(unknown):
            found[unknown] = self._look_up(sender, data, starts[unknown], sizes[unknown])
            places = places[unknown]
            for column, word in zip(self._words, words, strict=False):
                column[places] = word[unknown]
            self._sizes[places], self._senders[places], self._found[places] = sizes[unknown], number, found[unknown]
        return found

    def _look_up(self, sender: Peer, data: bytes, starts: Int64, sizes: Int64) -> list[int]:
        known = self._rows.setdefault(sender, {})
        found = []
        for start, stop in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
            name = data[start:stop]
            row = known.get(name)
            if row is None:
                row = known[name] = self._topics.row(Topic(sender, name))
            found.append(row)
        return found


def _places(words: list[UInt64], sizes: Int64, sender: int) -> Int64:
    seeds = sizes.astype(np.uint64) + np.uint64(sender << 16)
    return (mixed(seeds, words) * FACTOR >> np.uint64(64 - PLACE_BITS)).astype(np.int64)
