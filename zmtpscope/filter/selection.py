"""What of a batch a filter holds of."""

from __future__ import annotations

from collections.abc import Sequence
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

R = TypeVar("R", MessageRun, FrameRun)


class Selection:
    """The records and rows of `batch` that `filter` holds of, as outputs show them: without secrets, and with as much
    of bodies as `options` keep. `start` is the time of the first packet of all, where that is known."""

    def __init__(self, filter: Filter, batch: Batch, options: Options, start: int | None) -> None:
        self.batch = batch
        known = {CAPTURE_START: start}
        self._records = {id(record) for record in batch.records if filter.holds(record_values(record, options) | known)}
        self._rows: dict[int, Bool] = {}
        if batch.runs:
            self._select(filter, MessageColumns.of(batch, options), start)
        if batch.frame_runs:
            self._select(filter, FrameRowColumns.of(batch.frame_runs, batch.files), start)

    def _select(self, filter: Filter, columns: RowColumns[Any], start: int | None) -> None:
        fulfil = Rows(columns, start).that_fulfil(filter.condition)
        of_runs = np.zeros(len(columns), np.bool_)
        of_runs[columns.places] = fulfil
        at = 0
        for run in columns.runs:
            self._rows[id(run)] = of_runs[at : at + len(run.orders)]
            at += len(run.orders)

    def has(self, item: Record | MessageRun | FrameRun, index: int) -> bool:
        """Whether a record or row of the batch is one of them."""
        return id(item) in self._records if isinstance(item, Record) else bool(self._rows[id(item)][index])

    def as_batch(self) -> Batch:
        """They alone, as a batch."""
        return replace(
            self.batch,
            records=[record for record in self.batch.records if id(record) in self._records],
            runs=self._taken(self.batch.runs),
            frame_runs=self._taken(self.batch.frame_runs),
        )

    def _taken(self, runs: Sequence[R]) -> list[R]:
        taken: list[R] = []
        for run in runs:
            rows = self._rows[id(run)]
            if rows.all():
                taken.append(run)
            elif rows.any():
                taken.append(run.take(np.flatnonzero(rows)))
        return taken
