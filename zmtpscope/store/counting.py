"""Count messages by sender, time, size and topic without unpacking rows: a million take a few hundredths of a
second."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect import Batch
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.message_columns import JSON_INSIDE, OTHER_INSIDE, MessageColumns
from zmtpscope.payloads.dissectors import JSON
from zmtpscope.store.chunk import MESSAGE, Chunk
from zmtpscope.store.columns import StoredRows
from zmtpscope.store.packed import Int64

ReadBatch = Callable[[Int64], Batch]
"""Function that returns the records with these numbers, with octets."""


class Sender(NamedTuple):
    """A side of a connection, with fields that are equal for all its messages."""

    stream: Stream
    version: str | None
    socket_type: str | None
    peer_socket_type: str | None


class CountedMessages(StoredRows):
    """Stored messages to count: message i was sent by `senders[sender_of[i]]`, and is the record `numbers[i]`."""

    def __init__(self, chunk: Chunk, places: Int64, numbers: Int64, read: ReadBatch) -> None:
        super().__init__(chunk, MESSAGE, [], places)
        self.numbers = numbers
        self._at = places
        self._read = read
        table, runs = self.table, np.flatnonzero(np.bincount(self.run_of))
        codes: dict[tuple[int, int], int] = {}
        sender_of_run = np.zeros(int(runs[-1]) + 1, np.int64)
        streams, shared = table.streams.take(runs).tolist(), table.shared.codes.take(runs).tolist()
        for run, stream, words in zip(runs.tolist(), streams, shared, strict=True):
            sender_of_run[run] = codes.setdefault((stream, words), len(codes))
        self.sender_of: Int64 = sender_of_run[self.run_of]
        self.senders = [Sender(chunk.streams[stream], *table.shared.words[words][2:]) for stream, words in codes]

    @cached_property
    def body_octets(self) -> Int64:
        """Captured octets in the frames of each message, without headers."""
        frames, sizes = self.table.frames, self.table.frames["sizes"]
        if len(sizes) == len(self.table):
            octets = sizes.take(self._at)
        else:
            sums = np.append(0, np.cumsum(sizes.all()))
            octets = sums[self.last + 1] - sums[self.first]
        cut = np.flatnonzero(~self.complete)
        if len(cut):
            last, runs = self.last[cut], self.run_of[cut]
            announced = sizes.take(last)
            bodies = self.table.runs["first_offsets"].take(runs) + frames["offsets"].take(last)
            there = self.table.runs["ends"].take(runs) - bodies - frames["headers"].take(last)
            octets[cut] -= announced - np.minimum(announced, np.maximum(there, 0))
        return octets

    def of_protocol(self, protocol: str) -> Int64:
        """Return the numbers of the messages that a payload dissector identified as `protocol`."""
        payloads, inside = self.table.payloads, self.row("inside")
        is_found = (inside == JSON_INSIDE) & (protocol == JSON.name)
        if payloads is not None and protocol in payloads.protocols.words:
            others = np.flatnonzero(inside == OTHER_INSIDE)
            places = self.table.payload_places()[self._at[others]]
            is_found[others] = payloads.protocols.codes.take(places) == payloads.protocols.words.index(protocol)
        numbers: Int64 = self.numbers[is_found]
        return numbers

    @cached_property
    def topics(self) -> tuple[list[bytes | None], Int64]:
        """The distinct topics (None for no topic), and for each message the index of its topic."""
        topics = self.table.topics
        assert topics is not None
        if topics.texts is not None:
            return topics.texts, topics.codes.take(self._at)
        columns = MessageColumns.of(self._read(self.numbers))
        texts: dict[bytes | None, int] = {}
        codes = [texts.setdefault(text, len(texts)) for text in columns.topic().octets.tolist()]
        return list(texts), np.array(codes, np.int64)


def messages_of(chunk: Chunk, rows: Int64, begin: int, read: ReadBatch) -> CountedMessages | None:
    """Return the messages among sorted `rows` of a chunk, or None if there are none.

    `begin` is the number of the chunk's first record; `read` restores records.
    """
    for kind, places in chunk.places(rows):
        if kind == MESSAGE:
            numbers = rows if chunk.kinds.more is None else chunk.rows_of(kind)[places]
            return CountedMessages(chunk, places, numbers + begin, read)
    return None
