"""Find the counter rows of the topics of many messages at once.

A hash table answers most lookups, for whole columns: a topic of up to 32 octets is read as four words, and their hash
is its index. The words are compared, so that colliding topics stay separate. A topic that is missing in the hash table
is looked up in the dictionary, and replaces the entry.
"""

from __future__ import annotations

import numpy as np

from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.topic_words import FACTOR, LONGEST_TOPIC, WORD, UInt64, mixed, words_of
from zmtpscope.export.top.columns import Columns
from zmtpscope.export.top.counters import Counters
from zmtpscope.export.top.peers import OpenConnections, Peer, Topic

MAX_WORDS = 4
PLACE_BITS = 12

MIN_MESSAGES = 64
"""Messages from which on the hash table is faster than the dictionary."""


class TopicRows:
    """The counter rows of the topics of all senders. An unknown topic gets a new row."""

    def __init__(self, topics: Counters[Topic]) -> None:
        self._topics = topics
        self._rows: dict[Peer, dict[bytes, int]] = {}
        self._words = np.zeros((MAX_WORDS, 1 << PLACE_BITS), np.uint64)
        self._sizes = np.zeros(1 << PLACE_BITS, np.int64)
        self._senders = np.full(1 << PLACE_BITS, -1)
        """Sender of each entry in `_numbers`, or -1 if the place is empty."""
        self._found = np.zeros(1 << PLACE_BITS, np.int64)
        self._numbers: dict[Peer, int] = {}

    def clear(self) -> None:
        """Forget all rows, since the counters have renumbered them."""
        self._rows.clear()
        self._numbers.clear()
        self._senders[:] = -1

    def of_messages(self, columns: Columns, connections: OpenConnections) -> Int64:
        """Return the counter row of each message's topic. Raises `TooManyRows`."""
        messages, sender_of = columns.messages, columns.sender_of.astype(np.int64)
        peers: dict[int, Peer] = {}
        for number in np.flatnonzero(np.bincount(sender_of)).tolist():
            sender = columns.senders[number]
            peers[number] = connections.of_sender(sender).peers[sender.stream.side or 0]
        sizes = np.minimum(messages.topic_sizes[columns.rows], LONGEST_TOPIC)
        has_topic = sizes >= 0
        found = np.empty(len(sizes), np.int64)
        without = sender_of[~has_topic]
        rows_without = np.zeros(len(columns.senders), np.int64)
        for number in np.flatnonzero(np.bincount(without)).tolist() if len(without) else ():
            rows_without[number] = self._topics.row(Topic(peers[number], None))
        found[~has_topic] = rows_without[without]
        if len(without) < len(found):
            topics = messages.topic().octets
            starts = topics.starts[topics.index[columns.rows[has_topic]]]
            found[has_topic] = self.rows(peers, sender_of[has_topic], topics.octets.whole, starts, sizes[has_topic])
        return found

    def rows(self, peers: dict[int, Peer], sender_of: Int64, data: bytes, starts: Int64, sizes: Int64) -> Int64:
        """Return the counter row of each topic `data[start : start + size]`. Raises `TooManyRows`.

        `sender_of` has the number of each topic's sender, `peers` the peer by this number.
        """
        longest = min(int(sizes.max()), WORD * MAX_WORDS)
        count = max(1, -(-longest // WORD))
        by_words = (starts + WORD * count <= len(data)) & (sizes <= WORD * MAX_WORDS)  # whole words are read
        by_words &= len(starts) >= MIN_MESSAGES
        rows = np.empty(len(starts), np.int64)
        some, others = np.flatnonzero(by_words), np.flatnonzero(~by_words)
        rows[others] = self._look_up(peers, sender_of[others], data, starts[others], sizes[others])
        if len(some):
            rows[some] = self._rows_in_table(peers, sender_of[some], data, starts[some], sizes[some], count)
        return rows

    def _rows_in_table(
        self, peers: dict[int, Peer], sender_of: Int64, data: bytes, starts: Int64, sizes: Int64, count: int
    ) -> Int64:
        numbers = np.zeros(max(peers) + 1, np.int64)
        for number, peer in peers.items():
            numbers[number] = self._numbers.setdefault(peer, len(self._numbers))
        peer_of = numbers[sender_of]
        words = words_of(data, starts, sizes, count)
        places = _places(words, sizes, peer_of)
        known = (self._senders[places] == peer_of) & (self._sizes[places] == sizes)
        for column, word in zip(self._words, words, strict=False):
            known &= column[places] == word
        found: Int64 = self._found[places]
        unknown = np.flatnonzero(~known)
        if len(unknown):
            found[unknown] = self._look_up(peers, sender_of[unknown], data, starts[unknown], sizes[unknown])
            places = places[unknown]
            for column, word in zip(self._words, words, strict=False):
                column[places] = word[unknown]
            self._sizes[places], self._senders[places] = sizes[unknown], peer_of[unknown]
            self._found[places] = found[unknown]
        return found

    def _look_up(self, peers: dict[int, Peer], sender_of: Int64, data: bytes, starts: Int64, sizes: Int64) -> list[int]:
        found, rows_of = [], {number: self._rows.setdefault(peer, {}) for number, peer in peers.items()}
        for number, start, stop in zip(sender_of.tolist(), starts.tolist(), (starts + sizes).tolist(), strict=True):
            known, name = rows_of[number], data[start:stop]
            row = known.get(name)
            if row is None:
                row = known[name] = self._topics.row(Topic(peers[number], name))
            found.append(row)
        return found


def _places(words: list[UInt64], sizes: Int64, peers: Int64) -> Int64:
    seeds = sizes.astype(np.uint64) + (peers.astype(np.uint64) << np.uint64(16))
    return (mixed(seeds, words) * FACTOR >> np.uint64(64 - PLACE_BITS)).astype(np.int64)
