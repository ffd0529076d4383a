"""Packed records as columns by field name, for all fields that need no octets.

Filters work on them as on a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect import Options
from zmtpscope.dissect.records.columns import Column, Integers, Words
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import (
    STREAM_NUMBERS,
    Derive,
    FieldColumns,
    FrameRowColumns,
    file_name,
    of_stream,
)
from zmtpscope.export.values import record_values
from zmtpscope.records import RECORDS, SCHEMA, to_text
from zmtpscope.store.chunk import FRAME, MESSAGE, Chunk
from zmtpscope.store.chunk import KINDS as TYPES
from zmtpscope.store.packed import Bool, Int64
from zmtpscope.store.record_tables import NUMBERS, OF_STREAM, REST, TRUTHS, PackedRecords
from zmtpscope.store.rows import SHARED, PackedRows
from zmtpscope.zmtp.events import ENCRYPTED, SPECIAL


class StoredColumns(FieldColumns):
    """The packed records of one type as columns. `derive` has the available fields."""

    def __init__(self, chunk: Chunk, kind: int) -> None:
        super().__init__()
        self.chunk = chunk
        self.type = TYPES[kind]
        self.derive = {}

    def __len__(self) -> int:
        return len(self.chunk.tables[TYPES.index(self.type)])

    @property
    def codes(self) -> Int64:
        raise NotImplementedError

    @cached_property
    def missing(self) -> frozenset[str]:
        return frozenset(field.name for field in RECORDS[self.type].fields) - self.derive.keys()

    def of_stream(self, name: str) -> Column:
        """Return a field of connections, such as `src_ip`, which all records of a connection share."""
        streams, codes = self.chunk.streams, self.codes
        if name in STREAM_NUMBERS:
            column = streams.numbers[name]
            known = None if column.known.more is None and column.known.base else column.known.take(codes) != 0
            return Integers(column.values.take(codes), known)
        if name == "conn_id":
            return Words(streams.column(name), codes)
        words = streams.words[name]
        return Words(words.words, words.codes.take(codes))


class StoredRows(StoredColumns):
    """Columns of packed messages or frames: all rows, or only those at the indexes `places`."""

    def __init__(self, chunk: Chunk, kind: int, files: list[str | None], places: Int64 | slice = slice(None)) -> None:
        super().__init__(chunk, kind)
        table = chunk.tables[kind]
        assert isinstance(table, PackedRows)
        self.table = table
        self.files = files
        self.places = places
        self.derive = MESSAGES if kind == MESSAGE else FRAME_ROWS
        if table.topics is not None and table.topics.texts is None:
            self.derive = {name: each for name, each in self.derive.items() if name != "topic"}

    def __len__(self) -> int:
        return len(self.run_of)

    def row(self, name: str) -> Int64:
        return self.table.rows[name].take(self.places)

    @cached_property
    def run_of(self) -> Int64:
        return self.table.run_of.take(self.places)

    @property
    def codes(self) -> Int64:
        return self.table.streams.take(self.run_of)

    @property
    def times(self) -> Int64:
        return self.row("times")

    @cached_property
    def time_ends(self) -> Int64:
        return self.times + self.row("time_delays")

    @cached_property
    def packets(self) -> Int64:
        return self.row("packets")

    @property
    def packet_ends(self) -> Int64:
        return self.packets + self.row("packet_delays")

    @cached_property
    def complete(self) -> Bool:
        return self.row("complete").astype(np.bool_)

    @cached_property
    def first(self) -> Int64:
        edges = self.table.first_frames()
        first: Int64 = (np.arange(len(self.table)) if edges is None else edges[:-1])[self.places]
        return first

    @property
    def last(self) -> Int64:
        return self.first + (self.counts - 1)

    @cached_property
    def counts(self) -> Int64:
        return self.row("counts") if "counts" in self.table.rows else np.ones(len(self), np.int64)

    @property
    def sizes(self) -> Int64:
        return self.table.frames["sizes"].all()

    def of_first_frames(self, name: str) -> Int64:
        column = self.table.frames[name]
        values = column.all() if len(column) == len(self) else column.take(self.first)
        return values + self.table.runs["first_offsets"].take(self.run_of) if name == "offsets" else values

    @cached_property
    def special(self) -> Int64:
        """The mark of each message: `SUBSCRIBE`, `CANCEL`, or 0 for data."""
        special: Int64 = self.of_first_frames("flags") & SPECIAL
        return special

    @cached_property
    def are_open(self) -> bool:
        flags = self.table.frames["flags"]
        return not flags.base & ENCRYPTED if flags.more is None else ENCRYPTED not in self.special

    @cached_property
    def is_open(self) -> Bool:
        return np.ones(len(self), np.bool_) if self.are_open else self.special != ENCRYPTED

    @property
    def lengths(self) -> Int64:
        """Captured octets of each row, with headers, from its first frame on."""
        last, frames, runs = self.last, self.table.frames, self.table.runs
        bodies = frames["offsets"].take(last) + runs["first_offsets"].take(self.run_of) + frames["headers"].take(last)
        there = np.minimum(frames["sizes"].take(last), runs["ends"].take(self.run_of) - bodies)
        lengths: Int64 = bodies + there - self.of_first_frames("offsets")
        return lengths

    @property
    def message_offsets(self) -> Int64:
        return self.of_first_frames("offsets") - self.row("messages")

    def word_of_sender(self, name: str) -> Words:
        shared = self.table.shared
        place = SHARED.index(name)
        return Words([each[place] for each in shared.words], shared.codes.take(self.run_of))

    def of_regimes(self, name: str) -> NDArray[Any]:
        """Return for each row an attribute of its sender's `Regime` (version, framing, phase): a number or truth
        value."""
        shared = self.table.shared
        values = np.array([getattr(each[0], name) for each in shared.words])
        return values[shared.codes.take(self.run_of)]

    def topic(self) -> Words:
        """Return the topic of each message. There must be few distinct ones."""
        topics = self.table.topics
        assert topics is not None
        assert topics.texts is not None
        return Words([None if text is None else to_text(text) for text in topics.texts], topics.codes.all())


class StoredRuns(StoredRows):
    """Columns of fields that all rows of one sender in a batch share."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows.chunk, TYPES.index(rows.type), rows.files)
        self.derive = {name: each for name, each in self.derive.items() if name in OF_RUNS}

    def __len__(self) -> int:
        return len(self.table.streams)

    @cached_property
    def run_of(self) -> Int64:
        return np.arange(len(self))


class StoredStreams(StoredColumns):
    def __init__(self, chunk: Chunk, kind: int) -> None:
        super().__init__(chunk, kind)
        self.derive = {"record": lambda columns: columns.same(columns.type)}
        self.derive |= {name: of_stream(name) for name in OF_STREAM}

    @cached_property
    def codes(self) -> Int64:
        return np.arange(len(self))

    def __len__(self) -> int:
        return len(self.chunk.streams.ids)


OF_RUNS = frozenset(
    {"schema", "record", "source", "decrypted", "version", "socket_type", "peer_socket_type", "confidence", *OF_STREAM}
)
"""Fields that the rows of a run share."""

NEED_OCTETS = frozenset({"bodies", "bodies_kept", "envelope", "payload"})
"""Fields that are derived from the octets of messages."""

MESSAGES: Mapping[str, Derive] = {
    name: derive for name, derive in MessageColumns.derive.items() if name not in NEED_OCTETS
}
FRAME_ROWS: Mapping[str, Derive] = {name: derive for name, derive in FrameRowColumns.derive.items() if name != "long"}
"""`long` depends on the type of runs."""


class StoredRecords(StoredColumns):
    def __init__(self, chunk: Chunk, kind: int, options: Options, read: Callable[[int, int], bytes]) -> None:
        super().__init__(chunk, kind)
        table = chunk.tables[kind]
        assert isinstance(table, PackedRecords)
        self.table = table
        self.options = options
        self.read = read
        self.derive = OF_RECORDS[self.type]

    @cached_property
    def codes(self) -> Int64:
        return self.table.streams.all()

    @property
    def times(self) -> Int64:
        return self.table.times

    @cached_property
    def rest(self) -> tuple[list[dict[str, Any]], Int64]:
        """The fields that are no numbers, as outputs show them: the distinct combinations, and the index of each
        record's."""
        _, first, which = np.unique(self.table.places.all(), return_index=True, return_inverse=True)
        return list(map(self.values, first.tolist())), which

    def values(self, place: int) -> dict[str, Any]:
        """Return the fields of the record at index `place`, as outputs show them."""
        return record_values(self.table.record(place, self.chunk.streams.__getitem__, self.read), self.options)

    def number(self, name: str) -> Column:
        """Return the column of a field with numbers or truth values, one for each record."""
        column = self.table.numbers[name]
        known = None if column.known.more is None and column.known.base else column.known.all() != 0
        if name not in TRUTHS[self.type]:
            return Integers(column.values.all(), known)
        truths = column.values.all()
        return Words([False, True, None], truths if known is None else np.where(known, truths, 2))  # type: ignore[list-item]

    def words(self, name: str) -> Words:
        """Return the column of a field that is no number, as its distinct values and an index for each record."""
        different, which = self.rest
        return Words([values[name] for values in different], which)

    def file(self) -> Words:
        files = self.table.files
        return Words([file_name(name) for name in files.words], files.codes.all())


def _record_number(name: str) -> Derive:
    return lambda columns: columns.number(name)


def _record_words(name: str) -> Derive:
    return lambda columns: columns.words(name)


OF_RECORDS: Mapping[str, Mapping[str, Derive]] = {
    name: {
        "schema": lambda columns: columns.same(SCHEMA),
        "record": lambda columns: columns.same(columns.type),
        **{each: of_stream(each) for each in OF_STREAM},
        "file": StoredRecords.file,
        **{each: _record_number(each) for each in NUMBERS[name]},
        **{each: _record_words(each) for each in REST[name]},
    }
    for name in TYPES[FRAME + 1 :]
}
"""Columns of other records."""


def stored_columns(
    chunk: Chunk, kind: int, files: list[str | None], options: Options, read: Callable[[int, int], bytes]
) -> StoredRows | StoredRecords:
    return StoredRows(chunk, kind, files) if kind <= FRAME else StoredRecords(chunk, kind, options, read)
