"""Select the records of a chunk that match a filter.

Packed columns are evaluated first, and only rows that are still undecided are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.records.columns import Column, Integers, Lists
from zmtpscope.dissect.records.message_columns import columns_of_rows
from zmtpscope.dissect.records.row_columns import RowColumns
from zmtpscope.filter.conditions import Condition, Either, Every, Inverted
from zmtpscope.filter.fields import FilterField
from zmtpscope.filter.rows import Rows
from zmtpscope.store.chunk import Chunk
from zmtpscope.store.columns import StoredColumns, StoredRows, stored_columns
from zmtpscope.store.narrow import Memory, Narrow, OfStreams
from zmtpscope.store.packed import Bool, Int64

MakeBatch = Callable[[Int64], Batch]
"""Function that returns sorted records of the chunk with their octets."""


class StoredRowsOfFilter(Rows):
    """Stored rows of a chunk, to which a filter is applied.

    `again` restores rows with all fields, for conditions on fields that the columns lack.
    """

    def __init__(
        self,
        columns: StoredColumns,
        start: int | None,
        narrow: Narrow,
        again: Callable[[Int64], RowColumns[Any]] | None,
    ) -> None:
        super().__init__(columns, start)
        self.stored = columns
        self.start = start
        self.narrow = narrow
        self.again = again

    def that_fulfil_of(self, condition: Condition, rows: Int64) -> Bool:
        return self._holds(condition, rows)

    def _holds(self, condition: Condition, rows: Int64) -> Bool:
        is_joined = isinstance(condition, Inverted | Every | Either)
        if not is_joined and (decision := self.narrow.decide(condition)) is not None:
            return np.full(len(rows), decision) if isinstance(decision, bool) else decision[rows]
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


class Selecting:
    def __init__(
        self,
        condition: Condition,
        *,
        files: list[str | None],
        options: Options,
        start: int | None,
        read: Callable[[int, int], bytes],
    ) -> None:
        self.condition = condition
        self.files = files
        self.options = options
        self.start = start
        self.read = read
        self._memory: Memory = {}

    def rows(self, chunk: Chunk, rows: Int64 | None, batch_of: MakeBatch) -> Int64:
        """Return which of the sorted `rows` of a chunk (None: all) match the filter.

        `batch_of` restores rows as a batch.
        """
        found: list[Int64] = []
        streams = OfStreams(chunk, self.start)
        tables = [(kind, None) for kind in chunk.tables] if rows is None else chunk.places(rows)
        for kind, places in tables:
            chosen = self._places(chunk, kind, places, streams, batch_of)
            if len(chosen):
                found.append(chosen if chunk.kinds.more is None else chunk.rows_of(kind)[chosen])
        if len(found) < 2:
            return found[0] if found else np.empty(0, np.int64)
        fulfil = np.zeros(len(chunk), np.bool_)
        for each in found:
            fulfil[each] = True
        return fulfil.nonzero()[0]

    def _places(self, chunk: Chunk, kind: int, places: Int64 | None, streams: OfStreams, batch_of: MakeBatch) -> Int64:
        columns = stored_columns(chunk, kind, self.files, self.options, self.read)
        narrow = Narrow(columns, streams, self.start, self._memory)
        decision = narrow.decide(self.condition)
        if decision is None:
            asked = np.arange(len(columns)) if places is None else places

            def again(some: Int64) -> RowColumns[Any]:
                batch = batch_of(some if chunk.kinds.more is None else chunk.rows_of(kind)[some])
                found = columns_of_rows(batch, self.options)
                assert found is not None
                return found

            is_row = isinstance(columns, StoredRows)
            rows = StoredRowsOfFilter(columns, self.start, narrow, again if is_row else None)
            return asked[rows.that_fulfil_of(self.condition, asked)]
        if decision is False:
            return np.empty(0, np.int64)
        if decision is True:
            return np.arange(len(columns)) if places is None else places
        return decision.nonzero()[0] if places is None else places[decision[places]]
