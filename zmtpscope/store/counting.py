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
from zmtpscope.store.packed import Bool, Int64
from zmtpscope.store.rows import PackedRows
from zmtpscope.zmtp.events import SPECIAL

ReadBatch = Callable[[Int64], Batch]
"""Function that returns the records with these numbers, with octets."""


class Sender(NamedTuple):
    """A side of a connection, with facts that are equal for all its messages."""

    stream: Stream
    version: str | None
    socket_type: str | None
    peer_socket_type: str | None


class CountedMessages:
    """Message i was sent by `senders[sender_of[i]]`, and its record is `numbers[i]`."""

    def __init__(self, chunk: Chunk, places: Int64, numbers: Int64, read: ReadBatch) -> None:
        table = chunk.tables[MESSAGE]
        assert isinstance(table, PackedRows)
        self.numbers = numbers
        self._table = table
        self._places = places
        self._read = read
        run_of = table.run_of.take(places)
        runs = np.flatnonzero(np.bincount(run_of))
        codes: dict[tuple[int, int], int] = {}
        sender_of_run = np.zeros(int(runs[-1]) + 1, np.int64)
        streams, shared = table.streams.take(runs).tolist(), table.shared.codes.take(runs).tolist()
        for run, stream, words in zip(runs.tolist(), streams, shared, strict=True):
            sender_of_run[run] = codes.setdefault((stream, words), len(codes))
        self.sender_of: Int64 = sender_of_run[run_of]
        self.senders = [Sender(chunk.streams[stream], *table.shared.words[words][2:]) for stream, words in codes]
        self._run_of = run_of

    def __len__(self) -> int:
        return len(self._places)

    def _row(self, name: str) -> Int64:
        return self._table.rows[name].take(self._places)

    def _frame(self, name: str, frames: Int64) -> Int64:
        return self._table.frames[name].take(frames)

    @cached_property
    def times(self) -> Int64:
        """Return the times of the messages' last octets (ns since the epoch)."""
        return self._row("times") + self._row("time_delays")

    @cached_property
    def complete(self) -> Bool:
        return self._row("complete").astype(np.bool_)

    @cached_property
    def frames(self) -> Int64:
        return self._row("counts")

    @cached_property
    def _first(self) -> Int64:
        edges = self._table.first_frames()
        return self._places if edges is None else edges[self._places]

    @cached_property
    def special(self) -> Int64:
        """Flags of messages that are not data, as bits of `zmtpscope.zmtp.events.SPECIAL`."""
        return self._frame("flags", self._first) & SPECIAL

    @cached_property
    def octets(self) -> Int64:
        """Captured, in the frames of each message, without headers."""
        sizes = self._table.frames["sizes"]
        edges = self._table.first_frames()
        if edges is None:
            octets = sizes.take(self._places)
        else:
            sums = np.append(0, np.cumsum(sizes.all()))
            octets = sums[edges[self._places + 1]] - sums[edges[self._places]]
        cut = np.flatnonzero(~self.complete)
        if len(cut):
            last = (self._places if edges is None else edges[self._places + 1] - 1)[cut]
            runs, announced = self._run_of[cut], sizes.take(last)
            bodies = self._table.runs["first_offsets"].take(runs) + self._frame("offsets", last)
            there = self._table.runs["ends"].take(runs) - bodies - self._frame("headers", last)
            octets[cut] -= announced - np.minimum(announced, np.maximum(there, 0))
        return octets

    def of_protocol(self, protocol: str) -> Int64:
        """Record numbers of messages for which a dissector found this protocol."""
        payloads, inside = self._table.payloads, self._row("inside")
        is_found = (inside == JSON_INSIDE) & (protocol == JSON.name)
        if payloads is not None and protocol in payloads.protocols.words:
            others = np.flatnonzero(inside == OTHER_INSIDE)
            places = self._table.payload_places()[self._places[others]]
            is_found[others] = payloads.protocols.codes.take(places) == payloads.protocols.words.index(protocol)
        numbers: Int64 = self.numbers[is_found]
        return numbers

    @cached_property
    def topics(self) -> tuple[list[bytes | None], Int64]:
        """Distinct topics (None for no topic), and the index of each message's topic."""
        topics = self._table.topics
        assert topics is not None
        if topics.texts is not None:
            return topics.texts, topics.codes.take(self._places)
        columns = MessageColumns.of(self._read(self.numbers))
        texts: dict[bytes | None, int] = {}
        codes = [texts.setdefault(text, len(texts)) for text in columns.topic().octets.tolist()]
        return list(texts), np.array(codes, np.int64)


def messages_of(chunk: Chunk, rows: Int64, begin: int, read: ReadBatch) -> CountedMessages | None:
    """Return the messages among sorted rows of a chunk, if any. `begin` is the number of the chunk's first record."""
    for kind, places in chunk.places(rows):
        if kind == MESSAGE:
            numbers = rows if chunk.kinds.more is None else chunk.rows_of(kind)[places]
            return CountedMessages(chunk, places, numbers + begin, read)
    return None
