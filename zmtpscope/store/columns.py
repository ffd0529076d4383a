"""Packed records as columns by field name, for all fields that need no octets.

They have the types of `zmtpscope.dissect.records.columns`, so filters work on them as on a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import Options
from zmtpscope.dissect.records import columns as of_records
from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Lists
from zmtpscope.dissect.records.message_columns import KINDS
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.values import record_values
from zmtpscope.records import RECORDS, SCHEMA, to_text
from zmtpscope.store.chunk import FRAME, MESSAGE, Chunk
from zmtpscope.store.chunk import KINDS as TYPES
from zmtpscope.store.packed import Bool, Int64
from zmtpscope.store.record_tables import NUMBERS, OF_STREAM, REST, TRUTHS, PackedRecords
from zmtpscope.store.rows import SHARED, PackedRows
from zmtpscope.store.streams import NUMBERS as STREAM_NUMBERS
from zmtpscope.zmtp.events import ENCRYPTED, SPECIAL
from zmtpscope.zmtp.framing import MORE

Derive = Callable[[Any], Column]


class StoredColumns:
    """The records of one type in a chunk. `derive` has the available fields."""

    def __init__(self, chunk: Chunk, kind: int) -> None:
        self.chunk = chunk
        self.type = TYPES[kind]
        self.derive: Mapping[str, Derive] = {}
        self._made: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self.chunk.tables[TYPES.index(self.type)])

    @property
    def times(self) -> Int64:
        """`ts_ns`, if it is a column."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Column:
        column = self._made.get(name)
        if column is None:
            column = self._made[name] = self.derive[name](self)
        return column

    @cached_property
    def missing(self) -> frozenset[str]:
        """Record fields that are not available."""
        return frozenset(field.name for field in RECORDS[self.type].fields) - self.derive.keys()

    def of_stream(self, name: str, codes: Int64) -> Column:
        """Return a field of the streams with these codes."""
        streams = self.chunk.streams
        if name in STREAM_NUMBERS:
            column = streams.numbers[name]
            known = None if column.known.more is None and column.known.base else column.known.take(codes) != 0
            return Integers(column.values.take(codes), known)
        if name == "conn_id":
            return of_records.Words(streams.column(name), codes)
        words = streams.words[name]
        return of_records.Words(words.words, words.codes.take(codes))


class StoredRows(StoredColumns):
    """Messages or frame rows."""

    def __init__(self, chunk: Chunk, kind: int, files: list[str | None]) -> None:
        super().__init__(chunk, kind)
        table = chunk.tables[kind]
        assert isinstance(table, PackedRows)
        self.table = table
        self.files = files
        self.derive = MESSAGES if kind == MESSAGE else FRAME_ROWS
        if table.topics is not None and table.topics.texts is None:
            self.derive = {name: each for name, each in self.derive.items() if name != "topic"}

    @cached_property
    def run_of(self) -> Int64:
        return self.table.run_of.all()

    @property
    def times(self) -> Int64:
        """`ts_ns`."""
        return self.table.times

    @cached_property
    def packets(self) -> Int64:
        return self.table.rows["packets"].all()

    @cached_property
    def edges(self) -> Int64:
        """First frame of each row, and the end of the last row."""
        edges = self.table.first_frames()
        return np.arange(len(self) + 1) if edges is None else edges

    def of_first_frames(self, name: str) -> Int64:
        """Return a frame column for the first frame of each row."""
        column = self.table.frames[name]
        return column.all() if len(column) == len(self) else column.take(self.edges[:-1])

    @cached_property
    def offsets(self) -> Int64:
        return self.of_first_frames("offsets") + self.table.runs["first_offsets"].take(self.run_of)

    @cached_property
    def special(self) -> Int64:
        """Flags of messages that are not data."""
        special: Int64 = self.of_first_frames("flags") & SPECIAL
        return special

    @cached_property
    def is_open(self) -> Bool | None:
        """Which messages are not encrypted; None if all are."""
        flags = self.table.frames["flags"]
        if flags.more is None and not flags.base & ENCRYPTED:
            return None
        is_open: Bool = self.special != ENCRYPTED
        return None if is_open.all() else is_open

    def shared(self, name: str) -> of_records.Words:
        """Return a word that the rows of a run share."""
        shared = self.table.shared
        place = SHARED.index(name)
        words = [each[place] for each in shared.words]
        return of_records.Words(words, shared.codes.take(self.run_of))

    def of_regimes(self, name: str) -> Int64:
        """Return a number or truth value of the regime of each row."""
        shared = self.table.shared
        numbers = np.array([getattr(each[0], name) for each in shared.words])
        return numbers[shared.codes.take(self.run_of)]

    def same(self, word: str) -> of_records.Words:
        """Return a column with one word in all rows."""
        return of_records.Words([word], np.zeros(len(self), np.int8))

    def file(self) -> of_records.Words:
        """`file`."""
        index = self.packets >> FILE_SHIFT
        return of_records.Words([file_name(name) for name in self.files], index)

    def sizes(self) -> Lists:
        """`sizes`, except of encrypted messages."""
        sizes = self.table.frames["sizes"].all()
        if self.is_open is None:
            return Lists(Integers(sizes), self.edges, np.ones(len(self), np.bool_))
        counts = np.where(self.is_open, np.diff(self.edges), 0)
        frames = of_records.numbers(self.edges[:-1], counts)
        return Lists(Integers(sizes[frames]), np.append(0, np.cumsum(counts)), self.is_open)

    def lengths(self) -> Integers:
        """`length`."""
        last = self.edges[1:] - 1
        frames, runs = self.table.frames, self.table.runs
        offsets = frames["offsets"].take(last) + runs["first_offsets"].take(self.run_of)
        bodies = offsets + frames["headers"].take(last)
        there = np.minimum(frames["sizes"].take(last), runs["ends"].take(self.run_of) - bodies)
        return Integers(bodies + there - self.offsets)

    def topic(self) -> of_records.Words:
        """`topic`, if there are few different ones."""
        topics = self.table.topics
        assert topics is not None
        assert topics.texts is not None
        return of_records.Words([None if text is None else to_text(text) for text in topics.texts], topics.codes.all())

    def kind(self) -> of_records.Words:
        """`kind`."""
        codes = np.zeros(len(self), np.int8)
        if self.special.any():
            for code, bits in enumerate(KINDS):
                codes[self.special == bits] = code
        return of_records.Words(list(KINDS.values()), codes)


class StoredRuns(StoredRows):
    """The runs of rows, with the fields that all rows of a run share."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows.chunk, TYPES.index(rows.type), rows.files)
        self.derive = {name: each for name, each in self.derive.items() if name in OF_RUNS}

    def __len__(self) -> int:
        return len(self.table.streams)

    @cached_property
    def run_of(self) -> Int64:
        return np.arange(len(self))


class StoredStreams(StoredColumns):
    """The streams of a chunk, with the fields that all records of a stream share."""

    def __init__(self, chunk: Chunk, kind: int) -> None:
        super().__init__(chunk, kind)
        self.codes = np.arange(len(chunk.streams.ids))
        self.derive = {"record": lambda columns: of_records.Words([columns.type], np.zeros(len(columns), np.int8))}
        self.derive |= {name: _record_stream(name) for name in OF_STREAM}

    def __len__(self) -> int:
        return len(self.codes)


OF_RUNS = frozenset(
    {"schema", "record", "source", "decrypted", "version", "socket_type", "peer_socket_type", "confidence", *OF_STREAM}
)
"""Fields that the rows of a run share."""


def _number_of_rows(name: str) -> Derive:
    return lambda columns: Integers(columns.table.rows[name].all())


def _of_stream(name: str) -> Derive:
    return lambda columns: columns.of_stream(name, columns.table.streams.take(columns.run_of))


def _of_run(name: str) -> Derive:
    return lambda columns: columns.shared(name)


def _common(record: str) -> dict[str, Derive]:
    return {
        "schema": lambda columns: Integers(np.full(len(columns), SCHEMA)),
        "record": lambda columns: columns.same(record),
        **{name: _of_stream(name) for name in OF_STREAM},
        "ts_ns": lambda columns: Integers(columns.times),
        "file": StoredRows.file,
        "packet": lambda columns: Integers(columns.packets & PACKET_MASK),
        "source": lambda columns: Integers(columns.of_regimes("source")),
        "offset": lambda columns: Integers(columns.offsets),
        "length": StoredRows.lengths,
    }


MESSAGES: Mapping[str, Derive] = {
    **_common("message"),
    "parts": lambda columns: Integers(np.diff(columns.edges), columns.is_open),
    "sizes": StoredRows.sizes,
    "packet_end": lambda columns: Integers((columns.packets + columns.table.rows["packet_delays"].all()) & PACKET_MASK),
    "ts_end_ns": lambda columns: Integers(columns.times + columns.table.rows["time_delays"].all()),
    "version": _of_run("version"),
    "socket_type": _of_run("socket_type"),
    "peer_socket_type": _of_run("peer_socket_type"),
    "topic": StoredRows.topic,
    "kind": StoredRows.kind,
    "decrypted": lambda columns: Booleans(columns.of_regimes("opened").astype(np.bool_)),
    "complete": lambda columns: Booleans(columns.table.rows["complete"].all().astype(np.bool_)),
    "confidence": _of_run("confidence"),
}
"""Functions that derive message fields. `bodies`, `bodies_kept`, `envelope` and `payload` are missing, because they
need octets."""

FRAME_ROWS: Mapping[str, Derive] = {
    **_common("frame"),
    "flags": lambda columns: Integers(columns.of_first_frames("flags") & 0xFF),
    "more": lambda columns: Booleans((columns.of_first_frames("flags") & MORE) != 0),
    "size": lambda columns: Integers(columns.of_first_frames("sizes")),
    "message": lambda columns: Integers(columns.offsets - columns.table.rows["messages"].all()),
}
"""Functions that derive fields of frame rows; `long` depends on the type of runs."""


class StoredRecords(StoredColumns):
    """Records of a type without rows."""

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
        """The stream of each record."""
        return self.table.streams.all()

    @property
    def times(self) -> Int64:
        """`ts_ns`."""
        return self.table.times

    @cached_property
    def rest(self) -> tuple[list[dict[str, Any]], Int64]:
        """The other fields of records as outputs show them: the distinct ones, and the index of each record."""
        _, first, which = np.unique(self.table.places.all(), return_index=True, return_inverse=True)
        return list(map(self.values, first.tolist())), which

    def values(self, place: int) -> dict[str, Any]:
        """Return a record as outputs show it."""
        return record_values(self.table.record(place, self.chunk.streams.__getitem__, self.read), self.options)

    def number(self, name: str) -> Column:
        """Return a column of numbers or truth values."""
        column = self.table.numbers[name]
        known = None if column.known.more is None and column.known.base else column.known.all() != 0
        if name not in TRUTHS[self.type]:
            return Integers(column.values.all(), known)
        truths = column.values.all()
        return of_records.Words([False, True, None], truths if known is None else np.where(known, truths, 2))  # type: ignore[list-item]

    def words(self, name: str) -> of_records.Words:
        """Return a column of another field."""
        different, which = self.rest
        return of_records.Words([values[name] for values in different], which)

    def same(self, value: Any) -> of_records.Words:
        """Return a column with one value in all records."""
        return of_records.Words([value], np.zeros(len(self), np.int8))

    def file(self) -> of_records.Words:
        """`file`."""
        files = self.table.files
        return of_records.Words([file_name(name) for name in files.words], files.codes.all())


def _record_stream(name: str) -> Derive:
    return lambda columns: columns.of_stream(name, columns.codes)


def _record_number(name: str) -> Derive:
    return lambda columns: columns.number(name)


def _record_words(name: str) -> Derive:
    return lambda columns: columns.words(name)


OF_RECORDS: Mapping[str, Mapping[str, Derive]] = {
    name: {
        "schema": lambda columns: columns.same(SCHEMA),
        "record": lambda columns: columns.same(columns.type),
        **{each: _record_stream(each) for each in OF_STREAM},
        "file": StoredRecords.file,
        **{each: _record_number(each) for each in NUMBERS[name]},
        **{each: _record_words(each) for each in REST[name]},
    }
    for name in TYPES[FRAME + 1 :]
}
"""Functions that derive all fields of other records."""
