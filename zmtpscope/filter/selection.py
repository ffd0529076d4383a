"""Select the records of a batch that match a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns
from zmtpscope.export.values import record_values
from zmtpscope.filter.fields import CAPTURE_START
from zmtpscope.filter.filter import Filter
from zmtpscope.filter.rows import Rows
from zmtpscope.zmtp.events import MARKED

R = TypeVar("R", MessageTable, FrameTable)


class Selection:
    """The records and rows of `batch` that match a filter.

    Values are those that outputs show: secrets are masked, and bodies are limited by `options`. `start` is the time of
    the first packet of the capture, if known.
    """

    def __init__(self, filter: Filter, batch: Batch, options: Options, start: int | None) -> None:
        self.batch = batch
        self._records = set(map(id, records_that_fulfil(filter, batch, options, start)))
        self._rows = _messages_that_fulfil(filter, batch, options, start)
        if batch.frames:
            self._rows |= _rows_that_fulfil(filter, FrameRowColumns.of(batch), start)

    def has(self, item: Record | MessageTable | FrameTable, index: int) -> bool:
        return id(item) in self._records if isinstance(item, Record) else bool(self._rows[id(item)][index])

    def as_batch(self) -> Batch:
        return replace(
            self.batch,
            records=[record for record in self.batch.records if id(record) in self._records],
            messages=_taken(self.batch.messages, self._rows),
            frames=_taken(self.batch.frames, self._rows),
        )


def records_that_fulfil(filter: Filter, batch: Batch, options: Options, start: int | None) -> list[Record]:
    known = {CAPTURE_START: start}
    return [record for record in batch.records if filter.holds(record_values(record, options) | known)]


def with_messages(filter: Filter, batch: Batch, options: Options, start: int | None) -> Batch:
    """Return the batch with only the matching messages, for counting.

    Other records and subscription messages remain, because they identify the receivers. `start` is the time of the
    first packet of the capture, if known.
    """
    rows = _messages_that_fulfil(filter, batch, options, start)
    for run in batch.messages:
        rows[id(run)] |= (run.flags[run.first] & MARKED) != 0
    return replace(batch, messages=_taken(batch.messages, rows))


def _messages_that_fulfil(filter: Filter, batch: Batch, options: Options, start: int | None) -> dict[int, Bool]:
    """Return a mask of the matching messages, for each table by its `id()`.

    `start` is the time of the first packet of the capture, if known.
    """
    return _rows_that_fulfil(filter, MessageColumns.of(batch, options), start) if batch.messages else {}


def _rows_that_fulfil(filter: Filter, columns: RowColumns[Any], start: int | None) -> dict[int, Bool]:
    fulfil = Rows(columns, start).that_fulfil(filter.condition)
    in_tables = np.zeros(len(columns), np.bool_)
    in_tables[columns.places] = fulfil
    edges = np.cumsum([len(table) for table in columns.tables])
    return {id(table): rows for table, rows in zip(columns.tables, np.split(in_tables, edges[:-1]), strict=True)}


def _taken(runs: Sequence[R], rows: Mapping[int, Bool]) -> list[R]:
    taken: list[R] = []
    for run in runs:
        wanted = rows[id(run)]
        if wanted.all():
            taken.append(run)
        elif wanted.any():
            taken.append(run.take(np.flatnonzero(wanted)))
    return taken
