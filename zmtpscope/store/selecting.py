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
from zmtpscope.filter import Filter
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
    filter: Filter,
    chunk: Chunk,
    rows: Int64,
    *,
    files: list[str | None],
    options: Options,
    start: int | None,
    read: Callable[[int, int], bytes],
    batch_of: MakeBatch,
) -> Int64:
    """Which of `rows` of a chunk, which ascend, `filter` holds of."""
    found = []
    for kind, places in chunk.places(rows):
        columns: StoredColumns
        again = None
        if kind in (MESSAGE, FRAME):
            columns = StoredRows(chunk, kind, files)
            numbers = rows if chunk.kinds.more is None else chunk.rows_of(kind)[places]
            again = _maker(kind, places, numbers, batch_of, options)
        else:
            columns = StoredRecords(chunk, kind, options, read)
        held = StoredRowsOfFilter(columns, start, again).that_fulfil_of(filter.condition, places)
        chosen = places[held]
        found.append(chosen if chunk.kinds.more is None else chunk.rows_of(kind)[chosen])
    return found[0] if len(found) == 1 else np.sort(np.concatenate(found))


def _maker(
    kind: int, places: Int64, numbers: Int64, batch_of: MakeBatch, options: Options
) -> Callable[[Int64], RowColumns[Any]]:
    """Columns with all fields of those of `places` that are asked about, which are the rows `numbers` of the chunk."""

    def again(some: Int64) -> RowColumns[Any]:
        batch = batch_of(numbers[places.searchsorted(some)])
        if kind == MESSAGE:
            return MessageColumns.of(batch, options)
        return FrameRowColumns.of(batch.frame_runs, batch.files)

    return again
