"""Which of the records of a chunk a filter holds of: packed columns decide first, and of what they leave open rows are
made again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.records.columns import Column, Integers, Lists
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns
from zmtpscope.filter.conditions import Condition, Either, Every, Inverted
from zmtpscope.filter.fields import FilterField
from zmtpscope.filter.rows import Rows
from zmtpscope.store.chunk import FRAME, MESSAGE, Chunk
from zmtpscope.store.columns import StoredColumns, StoredRecords, StoredRows
from zmtpscope.store.packed import Bool, Int64

MakeBatch = Callable[[Int64], Batch]
"""Some records of the chunk, which ascend, with their octets."""


class StoredRowsOfFilter(Rows):
    """Rows, or records, as a filter asks for them. `again` makes columns of some of them that have all fields."""

    def __init__(
        self, columns: StoredColumns, start: int | None, again: Callable[[Int64], RowColumns[Any]] | None
    ) -> None:
        super().__init__(columns, start)
        self.stored = columns
        self.start = start
        self.again = again

    def that_fulfil_of(self, condition: Condition, rows: Int64) -> Bool:
        """Which of `rows` do."""
        return self._holds(condition, rows)

    def _holds(self, condition: Condition, rows: Int64) -> Bool:
        is_joined = isinstance(condition, Inverted | Every | Either)
        if self.again is None or is_joined or self.stored.missing.isdisjoint(condition.reads) or not len(rows):
            return super()._holds(condition, rows)
        return Rows(self.again(rows), self.start).that_fulfil(condition)

    def column(self, field: FilterField, name: str) -> Column | None:
        if field.name == "size" and name == "sizes":
            sizes = self.columns["sizes"]
            assert isinstance(sizes, Lists)
            if isinstance(sizes.items, Integers) and len(sizes.items.values) == len(self.columns):
                return sizes.items  # one frame each
        return super().column(field, name)


def rows_that_fulfil(
    condition: Condition,
    chunk: Chunk,
    rows: Int64,
    *,
    files: list[str | None],
    options: Options,
    start: int | None,
    read: Callable[[int, int], bytes],
    batch_of: MakeBatch,
) -> Int64:
    """Which of `rows` of a chunk, which ascend, fulfil a condition."""
    fulfil = np.zeros(len(chunk), np.bool_)
    for kind, places in chunk.places(rows):
        columns: StoredColumns
        again = None
        numbers = None if chunk.kinds.more is None else chunk.rows_of(kind)
        if kind in (MESSAGE, FRAME):
            columns = StoredRows(chunk, kind, files)
            again = _maker(kind, numbers, batch_of, options)
        else:
            columns = StoredRecords(chunk, kind, options, read)
        chosen = places[StoredRowsOfFilter(columns, start, again).that_fulfil_of(condition, places)]
        fulfil[chosen if numbers is None else numbers[chosen]] = True
    return np.flatnonzero(fulfil)


def _maker(
    kind: int, numbers: Int64 | None, batch_of: MakeBatch, options: Options
) -> Callable[[Int64], RowColumns[Any]]:
    """Columns with all fields of some of a table, of which each is one of the rows `numbers` of the chunk; None: they
    are all rows of it."""

    def again(some: Int64) -> RowColumns[Any]:
        batch = batch_of(some if numbers is None else numbers[some])
        if kind == MESSAGE:
            return MessageColumns.of(batch, options)
        return FrameRowColumns.of(batch.frame_runs, batch.files)

    return again
