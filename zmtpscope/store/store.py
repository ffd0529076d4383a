"""The rows of a capture at hand: batches in, any of their records again."""

from __future__ import annotations

import marshal
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, FrameRun, MessageRun, Options
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.store.chunk import Chunk, Kept, Read, join, pack
from zmtpscope.store.packed import Int64
from zmtpscope.store.selecting import rows_that_fulfil
from zmtpscope.store.spool import Spool, SpoolError

SMALL = 8192
"""Chunks of fewer records are joined with those next to them: each takes some kB by itself."""

MOST_KEPT_ONCE = 16_384
"""Different octets of records that are looked for among those that were kept before."""


class Store:
    """The records of one run, in order, numbered from 0; `options` are those that it was analysed with.

    One thread may append while others read: what was appended does not change. `spool` is where octets are kept.
    `first_time` is the time of the first packet of the capture, where somebody has said it (filters on the time since
    the start need it).
    """

    def __init__(self, options: Options, *, spool: Spool | None = None) -> None:
        self.options = options
        self.spool = spool or Spool()
        self.files: list[str | None] = []
        self.first_time: int | None = None
        self._chunks: tuple[tuple[Chunk, ...], tuple[int, ...]] = (), ()
        """Chunks, and how many records are in front of each."""
        self._count = 0
        self._kept_once: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Octets of memory of all columns."""
        return sum(chunk.nbytes for chunk in self._chunks[0])

    # -- records in --------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Take in what follows; how many records there are now. Raises `SpoolError`, and has taken in nothing then."""
        if not (batch.runs or batch.frame_runs or batch.records):
            return self._count
        self.files = batch.files
        keeping = _Keeping(self.spool, self._kept_once)
        chunk = pack(batch, self.options, Kept(keeping.octets, keeping.made, keeping.rest))
        keeping.end()
        chunks, begins = list(self._chunks[0]), list(self._chunks[1])
        chunks.append(chunk)
        begins.append(self._count)
        while len(chunks) > 1 and len(chunks[-2]) < SMALL and 2 * len(chunks[-1]) >= len(chunks[-2]):
            chunks[-2:] = [join(chunks[-2:])]
            begins.pop()
        self._chunks = tuple(chunks), tuple(begins)
        self._count += len(chunk)
        return self._count

    # -- records out -------------------------------------------------------------------------------------------------

    def batch(self, rows: Int64 | Sequence[int] | range | slice, *, octets: bool = True) -> Batch:
        """Some records as a batch, in their order; without octets, and what rides inside, where nobody wants them.

        What is made of this batch, by any output, is what it makes of what the analyser handed up.
        """
        if isinstance(rows, slice):
            rows = range(*rows.indices(self._count))
        numbers = np.unique(np.asarray(rows, np.int64))
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= self._count):
            raise IndexError(f"records are numbered from 0 to {self._count - 1}")
        read = self._read(octets=octets)
        whole = Batch(self.files)
        for chunk, _, some in self._by_chunk(numbers):
            part = chunk.batch(some, self.files, read)
            whole.runs += part.runs
            whole.frame_runs += part.frame_runs
            whole.records += part.records
        return whole

    def row(self, number: int) -> dict[str, Any]:
        """Every field of a record, by the names of `zmtpscope.records`, octets as bytes; secrets masked."""
        batch = self.batch([number if number >= 0 else self._count + number])
        if batch.runs:
            return MessageColumns.of(batch, self.options).values(0)
        if batch.frame_runs:
            return FrameRowColumns.of(batch.frame_runs, self.files).values(0)
        return record_values(batch.records[0], self.options)

    def select(self, filter: Filter, rows: Int64 | None = None) -> Int64:
        """The numbers of the records that `filter` holds of, in order; of `rows` only, which ascend, where given."""
        found = [np.empty(0, np.int64)]
        for _, part in self.selecting(filter, rows):
            found.append(part)
        return np.concatenate(found)

    def selecting(self, filter: Filter, rows: Int64 | None = None) -> Iterator[tuple[int, Int64]]:
        """The same step by step, so that whoever waits can show them, or cancel: up to which record was looked at, and
        the numbers of those of the step that it holds of."""
        numbers = np.arange(self._count) if rows is None else rows
        for chunk, begin, some in self._by_chunk(numbers):
            chosen = rows_that_fulfil(
                filter,
                chunk,
                some,
                files=self.files,
                options=self.options,
                start=self.first_time,
                read=self.spool.read,
                batch_of=partial(chunk.batch, files=self.files, read=self._read(octets=True)),
            )
            yield begin + int(some[-1]) + 1, chosen + begin

    def _by_chunk(self, numbers: Int64) -> Iterator[tuple[Chunk, int, Int64]]:
        """Some records by chunk: (chunk, how many records are in front of it, which records of it)."""
        chunks, begins = self._chunks
        if not len(numbers):
            return
        number = bisect_right(begins, int(numbers[0])) - 1
        at = 0
        for chunk, begin in zip(chunks[number:], begins[number:], strict=True):
            if at == len(numbers):
                return
            stop = int(numbers.searchsorted(begin + len(chunk)))
            if stop > at:
                yield chunk, begin, numbers[at:stop] - begin
            at = stop

    def _read(self, *, octets: bool) -> Read:
        return Read(self._octets if octets else None, self._made if octets else None, self.spool.read)

    def _octets(self, stream: Stream, place: int, start: int, size: int) -> bytes:
        return self.spool.read(place + start, size)

    def _made(self, place: int, size: int) -> Dissected:
        protocol, summary, fields = marshal.loads(self.spool.read(place, size))
        return Dissected(protocol, summary, fields)


class _Keeping:
    """Keeps the octets of one chunk: they are written at once, when all are there."""

    def __init__(self, spool: Spool, kept_once: dict[bytes, int]) -> None:
        self.spool = spool
        self.begin = spool.end
        self.size = 0
        self.pieces: list[bytes] = []
        self.kept_once = kept_once
        self.of_runs: dict[int, int] = {}

    def octets(self, run: MessageRun | FrameRun) -> int:
        """Those of a run: runs that were cut out of one share them."""
        place = self.of_runs.get(id(run.data))
        if place is None:
            place = self.of_runs[id(run.data)] = self._add(run.data)
        return place

    def made(self, made: Dissected) -> tuple[int, int]:
        """What a dissector made of a message."""
        octets = marshal.dumps((made.protocol, made.summary, made.fields), 2)
        return self._add(octets), len(octets)

    def rest(self, octets: bytes) -> tuple[int, int]:
        """What is kept once, however often it comes."""
        place = self.kept_once.get(octets)
        if place is None:
            if len(self.kept_once) >= MOST_KEPT_ONCE:
                self.kept_once.clear()
            place = self.kept_once[octets] = self._add(octets)
        return place, len(octets)

    def _add(self, octets: bytes) -> int:
        place = self.begin + self.size
        self.pieces.append(octets)
        self.size += len(octets)
        return place

    def end(self) -> None:
        """Write them. Raises `SpoolError`."""
        try:
            self.spool.write(b"".join(self.pieces))
        except SpoolError:
            self.kept_once.clear()  # it may name places of what was not written
            raise
