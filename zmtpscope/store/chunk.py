"""A chunk: some thousand consecutive records, packed into one table for each record type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.records import RECORDS
from zmtpscope.store.keeping import Keeping, Kept
from zmtpscope.store.packed import Int64, Packed, joined
from zmtpscope.store.record_tables import PackedRecords, join_records, pack_records
from zmtpscope.store.rows import PackedRows, frame_runs, join_rows, messages, pack_frames, pack_messages
from zmtpscope.store.streams import Streams

KINDS = ("message", "frame", *(name for name in RECORDS if name not in ("message", "frame")))
MESSAGE, FRAME = range(2)
NUMBER_OF = {name: number for number, name in enumerate(KINDS)}


class Chunk:
    """Some thousand consecutive records, packed into columns.

    `kinds` are the type numbers of the records, in order; `tables` contain the records of each type.
    """

    def __init__(self, streams: Streams, kinds: Packed, tables: dict[int, PackedRows | PackedRecords]) -> None:
        self.streams = streams
        self.kinds = kinds
        self.tables = tables

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def nbytes(self) -> int:
        return self.streams.nbytes + self.kinds.nbytes + sum(table.nbytes for table in self.tables.values())

    def rows_of(self, kind: int) -> Int64:
        kinds = self.kinds
        return np.arange(len(self)) if kinds.more is None else np.flatnonzero(kinds.more == kind - kinds.base)

    def places(self, rows: Int64) -> list[tuple[int, Int64]]:
        """Return (type number, indexes in the table of this type) for sorted row numbers of the chunk."""
        if self.kinds.more is None:
            return [(self.kinds.base, rows)]
        if len(rows) == len(self):
            return [(kind, np.arange(len(table))) for kind, table in self.tables.items()]
        kinds = self.kinds.all()
        wanted = kinds[rows]
        found = []
        for kind in self.tables:
            if len(some := rows[wanted == kind]):
                found.append((kind, np.cumsum(kinds == kind)[some] - 1))
        return found

    def batch(self, rows: Int64, files: list[str | None], source: Kept) -> Batch:
        """Return sorted rows of the chunk as a batch.

        `files` are the names of the capture files; `source` reads octets and other data outside of the columns.
        """
        batch = Batch(files)
        streams: dict[int, Stream] = {}

        def stream_of(code: int) -> Stream:
            found = streams.get(code)
            if found is None:
                found = streams[code] = self.streams[code]
            return found

        for kind, places in self.places(rows):
            table = self.tables[kind]
            if isinstance(table, PackedRecords):
                batch.records += [table.record(place, stream_of, source.rest) for place in places.tolist()]
            elif kind == MESSAGE:
                batch.messages = [messages(table, places, stream_of, source)]
            else:
                batch.frames = frame_runs(table, places, stream_of, source)
        return batch


def pack(batch: Batch, options: Options, keeping: Keeping) -> Chunk:
    """Pack the records of a batch, which must not be empty. `keeping` stores octets outside of the columns."""
    order = batch.arranged()
    streams: dict[Stream, int] = {}

    def code_of(stream: Stream) -> int:
        return streams.setdefault(stream, len(streams))

    count = len(order.places) + len(order.between)
    kinds = np.zeros(count, np.int64)
    records: dict[str, list[Record]] = {}
    for number, (place, item, _) in enumerate(order.between):
        if isinstance(item, Record):
            kinds[place + number] = NUMBER_OF[item.type]
            records.setdefault(item.type, []).append(item)
        else:
            kinds[place + number] = FRAME
    tables: dict[int, Any] = {}
    if len(order.places):
        columns = MessageColumns.of_arrangement(order, batch.files, options)
        codes = [code_of(sender.stream) for sender in columns.senders]
        places = [keeping.octets(sender) for sender in columns.senders]
        tables[MESSAGE] = pack_messages(columns, codes, places, keeping.made)
    if batch.frames:
        frames = FrameRowColumns.of(batch)
        codes = [code_of(sender.stream) for sender in frames.senders]
        tables[FRAME] = pack_frames(frames, codes, [keeping.octets(sender) for sender in frames.senders])
    for type_, each in records.items():
        tables[NUMBER_OF[type_]] = pack_records(type_, each, code_of, keeping.rest)
    return Chunk(Streams.of(list(streams)), Packed.of(kinds), tables)


def join(chunks: Sequence[Chunk]) -> Chunk:
    counts = [len(chunk.streams.ids) for chunk in chunks]
    tables: dict[int, Any] = {}
    for kind in sorted({kind for chunk in chunks for kind in chunk.tables}):
        begins = np.cumsum([0, *counts[:-1]]).tolist()
        having = [number for number, chunk in enumerate(chunks) if kind in chunk.tables]
        parts: list[Any] = [chunks[number].tables[kind] for number in having]
        shifts = [begins[number] for number in having]
        tables[kind] = join_records(parts, shifts) if kind > FRAME else join_rows(parts, shifts)
    return Chunk(Streams.joined([chunk.streams for chunk in chunks]), joined([chunk.kinds for chunk in chunks]), tables)
