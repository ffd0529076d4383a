"""Lists of records: those that a filter holds of, in an order, growing while the store does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from zmtpscope.export.clock import Clock
from zmtpscope.filter import Filter
from zmtpscope.filter.checking import operand_of
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import ListSpec, ListState, Page, PlaceFound, Row
from zmtpscope.tui.worker.columns import COLUMNS, DEFAULT, RowMaker, table_columns
from zmtpscope.tui.worker.sides import Sides

STEP = 1 << 16
"""Records that are looked at in a step, about."""

MOST_ROWS = 1000
"""Rows that are made at a time."""


class Numbers:
    """Numbers of records, as many as come."""

    def __init__(self) -> None:
        self._room: Int64 = np.empty(1024, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, numbers: Int64) -> None:
        """Take in what follows."""
        end = self._count + len(numbers)
        if end > len(self._room):
            room: Int64 = np.empty(max(end, 2 * len(self._room)), np.int64)
            room[: self._count] = self._room[: self._count]
            self._room = room
        self._room[self._count : end] = numbers
        self._count = end

    @property
    def array(self) -> Int64:
        """All of them, not to be written to."""
        return self._room[: self._count]


class RecordList:
    """One list. Raises `FilterError` where the filter of `spec`, a rule or a column is not understood."""

    def __init__(self, name: str, generation: int, spec: ListSpec, store: Store, sides: Sides) -> None:
        self.name, self.generation, self.spec = name, generation, spec
        columns = spec.columns or DEFAULT
        self.columns = table_columns(columns)
        self._maker = RowMaker(columns, store.options, sides)
        self._store = store
        if spec.sort is not None:
            operand_of(sort_field(spec.sort.column))
        self._filter = Filter(_whole_filter(spec))
        self._only: Int64 | None = None if spec.only is None else np.unique(np.array(spec.only, np.int64))
        self._rules = [(Filter(filter), style) for filter, style in spec.rules]
        self._found = Numbers()
        self._looked_at = 0
        self._sorted: Int64 | None = None
        """The rows in another order than that of time, as far as they were sorted."""
        self.said: ListState | None = None
        """What was said of it last."""

    @property
    def state(self) -> ListState:
        """How far it has come."""
        return ListState(self.name, self.generation, len(self._found), self._looked_at, len(self._store), self.columns)

    @property
    def is_behind(self) -> bool:
        """Whether there is something to do."""
        return self._looked_at < len(self._store)

    def step(self) -> None:
        """Go on for a moment."""
        total = len(self._store)
        if self._looked_at < total:
            end = min(total, self._looked_at + STEP)
            some = np.arange(self._looked_at, end) if self._only is None else self._only
            for _, found in self._store.selecting(self._filter, some):
                self._found.append(found)
            self._looked_at = end if self._only is None else total

    @property
    def _numbers(self) -> Int64:
        """The numbers of the records, row by row."""
        return self._found.array if self._sorted is None else self._sorted

    def page(self, low: int, high: int) -> Page:
        """The rows `low..high` (high excluded), as far as there are any."""
        numbers = self._numbers[max(0, low) : min(high, low + MOST_ROWS)]
        clock = Clock(self.spec.time, lambda: self._store.first_time)
        if clock.moves and 0 < low <= len(self._numbers):
            clock(self._store.row(int(self._numbers[low - 1]))["ts_ns"])
        if not len(numbers):
            return Page(low, ())
        return Page(low, tuple(self._rows(numbers, clock)))

    def _rows(self, numbers: Int64, clock: Clock) -> Sequence[Row]:
        ascending = np.unique(numbers)
        made = self._maker.rows(self._store.batch(ascending), ascending.tolist(), clock)
        for rule, style in reversed(self._rules):  # the first that holds has the last word
            for place in ascending.searchsorted(self._store.select(rule, ascending)).tolist():
                made[place] = replace(made[place], style=style)
        places = ascending.searchsorted(numbers)
        return [made[place] for place in places.tolist()]

    def place_of(self, record: int) -> PlaceFound | None:
        """The row of a record, or the one nearest to it; None of an empty list."""
        numbers = self._numbers
        if not len(numbers):
            return None
        if self._sorted is not None:
            place = int(np.abs(numbers - record).argmin())
        else:
            place = min(int(numbers.searchsorted(record)), len(numbers) - 1)
            place -= place > 0 and record - int(numbers[place - 1]) < abs(int(numbers[place]) - record)
        return PlaceFound(place, int(numbers[place]) == record)

    def numbers(self) -> Iterator[Int64]:
        """All records, some at a time, in the order of the list."""
        numbers = self._numbers
        for begin in range(0, len(numbers), STEP):
            yield numbers[begin : begin + STEP]


def sort_field(column: str) -> str:
    """The field that a column is sorted by."""
    return COLUMNS[column].sort if column in COLUMNS else column


def _whole_filter(spec: ListSpec) -> str:
    kinds = f"record in {{{', '.join(spec.records)}}}"
    return f"({kinds}) && ({spec.filter})" if spec.filter.strip() else kinds
