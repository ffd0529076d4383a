"""What of a batch a filter holds of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from zmtpscope.dissect import Batch, FrameRun, MessageRun, Options, Record
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns
from zmtpscope.export.values import record_values
from zmtpscope.filter.fields import CAPTURE_START
from zmtpscope.filter.filter import Filter
from zmtpscope.filter.rows import Rows
from zmtpscope.zmtp.events import MARKED

R = TypeVar("R", MessageRun, FrameRun)


class Selection:
    """The records and rows of `batch` that `filter` holds of, as outputs show them: without secrets, and with as much
    of bodies as `options` keep. `start` is the time of the first packet of all, where that is known."""

    def __init__(self, filter: Filter, batch: Batch, options: Options, start: int | None) -> None:
        self.batch = batch
        self._records = set(map(id, records_that_fulfil(filter, batch, options, start)))
        self._rows = _messages_that_fulfil(filter, batch, options, start)
        if batch.frame_runs:
            self._rows |= _rows_that_fulfil(filter, FrameRowColumns.of(batch.frame_runs, batch.files), start)

    def has(self, item: Record | MessageRun | FrameRun, index: int) -> bool:
        """Whether a record or row of the batch is one of them."""
        return id(item) in self._records if isinstance(item, Record) else bool(self._rows[id(item)][index])

    def as_batch(self) -> Batch:
        """They alone, as a batch."""
        return replace(
            self.batch,
            records=[record for record in self.batch.records if id(record) in self._records],
            runs=_taken(self.batch.runs, self._rows),
            frame_runs=_taken(self.batch.frame_runs, self._rows),
        )


def records_that_fulfil(filter: Filter, batch: Batch, options: Options, start: int | None) -> list[Record]:
    """The records of a batch that `filter` holds of."""
    known = {CAPTURE_START: start}
    return [record for record in batch.records if filter.holds(record_values(record, options) | known)]


def with_messages(filter: Filter, batch: Batch, options: Options, start: int | None) -> Batch:
    """The batch with no messages but those that `filter` holds of, to be counted: what else it says stays, and so do
    messages that subscribe, since they tell who gets the others."""
    rows = _messages_that_fulfil(filter, batch, options, start)
    for run in batch.runs:
        rows[id(run)] |= (run.flags[run.first] & MARKED) != 0
    return replace(batch, runs=_taken(batch.runs, rows))


def _messages_that_fulfil(filter: Filter, batch: Batch, options: Options, start: int | None) -> dict[int, Bool]:
    """Which messages of each run do, by its id."""
    return _rows_that_fulfil(filter, MessageColumns.of(batch, options), start) if batch.runs else {}


def _rows_that_fulfil(filter: Filter, columns: RowColumns[Any], start: int | None) -> dict[int, Bool]:
    fulfil = Rows(columns, start).that_fulfil(filter.condition)
    of_runs = np.zeros(len(columns), np.bool_)
    of_runs[columns.places] = fulfil
    edges = np.cumsum([len(run.orders) for run in columns.runs])
    return {id(run): rows for run, rows in zip(columns.runs, np.split(of_runs, edges[:-1]), strict=True)}


def _taken(runs: Sequence[R], rows: Mapping[int, Bool]) -> list[R]:
    """The runs with these rows alone; those without any are left out."""
    taken: list[R] = []
    for run in runs:
        wanted = rows[id(run)]
        if wanted.all():
            taken.append(run)
        elif wanted.any():
            taken.append(run.take(np.flatnonzero(wanted)))
    return taken
