"""Lists of the records that match a filter, which grow with the store."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from zmtpscope.export.clock import Clock
from zmtpscope.filter import Filter
from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.conditions import Operand
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import ListSpec, ListState, Page, PlaceFound, Row
from zmtpscope.tui.worker.columns import COLUMNS, DEFAULT, RowMaker, table_columns
from zmtpscope.tui.worker.sides import Sides

STEP = 1 << 16

STEP_SECONDS = 0.012

MANY_MORE = 1.25
"""A growing list is sorted again when it has this many times the rows."""

MAX_ROWS = 1000
"""Maximum rows in a page."""


class InTimeOrder:
    """A growing array of record numbers, ordered by time, then number."""

    def __init__(self) -> None:
        self._room: Int64 = np.empty((2, 1024), np.int64)
        """Row 0: times, row 1: numbers."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def times(self) -> Int64:
        return self._room[0, : self._count]

    @property
    def numbers(self) -> Int64:
        return self._room[1, : self._count]

    def add(self, times: Int64, numbers: Int64) -> int:
        """Add records with larger numbers than all before. Return how many rows at the start kept their position."""
        if not len(numbers):
            return self._count
        if np.any(times[1:] < times[:-1]):
            order = np.argsort(times, kind="stable")
            times, numbers = times[order], numbers[order]
        kept = int(self.times.searchsorted(times[0], "right"))
        places = self.times[kept:].searchsorted(times, "right")
        tail = [
            np.insert(column[kept : self._count], places, new)
            for column, new in zip(self._room, (times, numbers), strict=True)
        ]
        end = self._count + len(numbers)
        if end > self._room.shape[1]:
            room: Int64 = np.empty((2, max(end, 2 * self._room.shape[1])), np.int64)
            room[:, :kept] = self._room[:, :kept]
            self._room = room
        self._room[:, kept:end] = tail
        self._count = end
        return kept

    def place_of(self, time: int, number: int) -> int:
        """Return the position of a record with this time and number, or of the nearest record in time."""
        times = self.times
        low, high = int(times.searchsorted(time)), int(times.searchsorted(time, "right"))
        if low < high:
            return min(low + int(self.numbers[low:high].searchsorted(number)), high - 1)
        return low - (low == len(times) or (low > 0 and time - int(times[low - 1]) <= int(times[low]) - time))


class RecordList:
    """A list of records that match a filter. Raises `FilterError` for an invalid filter, rule or column."""

    def __init__(self, name: str, generation: int, spec: ListSpec, store: Store, sides: Sides) -> None:
        self.name, self.generation, self.spec = name, generation, spec
        columns = spec.columns or DEFAULT
        self.columns = table_columns(columns, spec.time)
        self._maker = RowMaker(columns, store.options, sides)
        self._store = store
        self._operand = None if spec.sort is None else operand_of(sort_field(spec.sort.column))
        self._filter = Filter(_whole_filter(spec))
        self._only: Int64 | None = None if spec.only is None else np.unique(np.array(spec.only, np.int64))
        self._rules = [(Filter(filter), style) for filter, style in spec.rules]
        self._found = InTimeOrder()
        self._looked_at = 0
        self._sorted: Int64 | None = None
        """The sorted records; later ones follow unsorted."""
        self._sorting: Iterator[Int64 | None] | None = None
        self._order = 0
        self._kept = 0
        """Leading rows that did not move since the last sent state."""
        self._total = 0
        """Number of records at the last step."""
        self.notified: ListState | None = None
        """The state sent last."""

    @property
    def state(self) -> ListState:
        found, total = len(self._found), len(self._store)
        return ListState(
            self.name, self.generation, found, self._looked_at, total, self.columns, self._order, self._kept
        )

    @property
    def is_behind(self) -> bool:
        is_unsorted = self._operand is not None and self._sorted_count < len(self._found)
        return self._looked_at < len(self._store) or self._sorting is not None or is_unsorted

    def step(self) -> None:
        total = len(self._store)
        if self._looked_at < total:
            end = min(total, self._looked_at + STEP)
            some = np.arange(self._looked_at, end) if self._only is None else self._only
            for _, found in self._store.selecting(self._filter, some):
                self._add(found)
            self._looked_at = end if self._only is None else total
        elif self._operand is not None:
            self._sort_on(self._operand, has_settled=total == self._total)
        self._total = total

    def _sort_on(self, operand: Operand, *, has_settled: bool) -> None:
        """Continue sorting for one step. Sorting starts again after many new rows, or when no more rows follow
        (`has_settled`)."""
        count, descending = len(self._found), self.spec.sort is not None and self.spec.sort.descending
        if self._sorting is None and (has_settled or count > MANY_MORE * self._sorted_count):
            self._sorting = self._store.sorting(self._found.numbers, operand, descending=descending)
        until = time.monotonic() + STEP_SECONDS
        while self._sorting is not None and time.monotonic() < until:
            found = next(self._sorting)
            if found is not None:
                self._sorted, self._sorting = found, None
                self._reordered(0)

    def _add(self, numbers: Int64) -> None:
        """Add records that match. A sorted list holds them in the order of their numbers until it is sorted again."""
        before = len(self._found)
        kept = self._found.add(numbers if self._operand is not None else self._store.times(numbers), numbers)
        if kept < before:
            self._reordered(kept)

    def _reordered(self, kept: int) -> None:
        is_first = self.notified is None or self.notified.order == self._order
        self._kept = kept if is_first else min(kept, self._kept)
        self._order += 1

    @property
    def _sorted_count(self) -> int:
        return 0 if self._sorted is None else len(self._sorted)

    def numbers(self, low: int = 0, high: int | None = None) -> Int64:
        """Return the record numbers of the rows `low` until `high`; rows found after sorting are last."""
        found = self._found.numbers
        if self._sorted is None:
            return found[low:high]
        behind = found[max(low, len(self._sorted)) : high]
        return np.concatenate((self._sorted[low:high], behind)) if len(behind) else self._sorted[low:high]

    def page(self, low: int, high: int) -> Page:
        """Return the rows from `low` until before `high`, as far as they exist."""
        above = max(0, low - 1)
        numbers = self.numbers(above, min(high, low + MAX_ROWS))
        if len(numbers) <= low - above:
            return Page(low, ())
        ascending, order = np.unique(numbers, return_index=True)
        times = np.empty(len(numbers), np.int64)
        times[order] = self._store.times(ascending)
        pauses = np.diff(times, prepend=times[:1])[low - above :]
        return Page(low, tuple(self._rows(numbers[low - above :], pauses)))

    def _rows(self, numbers: Int64, pauses: Int64) -> Sequence[Row]:
        ascending, order = np.unique(numbers, return_index=True)
        clock = Clock(self.spec.time, self._start)
        made = self._maker.rows(self._store.batch(ascending), ascending.tolist(), pauses[order].tolist(), clock)
        for rule, style in reversed(self._rules):  # the first rule that matches wins
            for place in ascending.searchsorted(self._store.select(rule, ascending)).tolist():
                made[place] = replace(made[place], style=style)
        places = ascending.searchsorted(numbers)
        return [made[place] for place in places.tolist()]

    def _start(self) -> int | None:
        """Return the time (ns) that rows show as 0: the reference record, or the first packet; None if unknown."""
        if self.spec.reference is None:
            return self._store.first_time
        return int(self._store.times(np.array([self.spec.reference]))[0])

    def place_of(self, record: int) -> PlaceFound | None:
        """Return the row of a record, or of the nearest in time; None if the list is empty."""
        numbers = self.numbers()
        if not len(numbers):
            return None
        if self._operand is None:
            place = self._found.place_of(int(self._store.times(np.array([record]))[0]), record)
        else:
            place = int(np.abs(numbers - record).argmin())
        return PlaceFound(place, int(numbers[place]) == record)

    def place_at(self, time: int) -> PlaceFound | None:
        """Return the row nearest to a time (ns); None if the list is empty or not in the order of time."""
        if self._operand is not None or not len(self._found):
            return None
        place = self._found.place_of(time, 0)
        return PlaceFound(place, int(self._found.times[place]) == time)

    def look_at(self, count: int) -> None:
        while self._looked_at < min(count, len(self._store)):
            self.step()


def sort_field(column: str) -> str:
    return COLUMNS[column].sort if column in COLUMNS else column


def _whole_filter(spec: ListSpec) -> str:
    kinds = f"record in {{{', '.join(spec.records)}}}"
    return f"({kinds}) && ({spec.filter})" if spec.filter.strip() else kinds
