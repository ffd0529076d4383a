"""Evaluate a filter on many records of one type at once: conditions over columns, as `conditions.py` defines them.

The cost of a condition depends on the fields that it reads. Numbers and complete texts are compared as arrays. A
condition on columns with few values is evaluated once for each combination of values, and a condition on one text once
for each distinct text. All other conditions are evaluated row by row, last, and only for rows that are still undecided.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.records.columns import Bool, Booleans, Column, Int64, Integers, Lists, Octets, Texts, Words
from zmtpscope.dissect.records.message_columns import NOTHING_INSIDE, TEXT_INSIDE, Payloads
from zmtpscope.dissect.records.row_columns import FieldColumns
from zmtpscope.filter.arrays import different, fits_of
from zmtpscope.filter.conditions import Compared, Condition, Either, Every, FieldOperand, Inverted
from zmtpscope.filter.fields import CAPTURE_START, FilterField


class Rows:
    """Evaluates conditions on the rows of `columns`.

    `start` is the time of the first packet of the capture, if known.
    """

    def __init__(self, columns: FieldColumns, start: int | None) -> None:
        self.columns = columns
        self.known = {"record": columns["record"][0], CAPTURE_START: start}
        """Fields with the same value in all rows."""

    def that_fulfil(self, condition: Condition) -> Bool:
        return self._holds(condition, np.arange(len(self.columns)))

    def _holds(self, condition: Condition, rows: Int64) -> Bool:
        if isinstance(condition, Inverted):
            return ~self._holds(condition.of, rows)
        if isinstance(condition, Every | Either):
            return self._joined(condition, rows)
        if isinstance(condition, Compared):
            fits = self._as_arrays(condition, rows)
            if fits is not None:
                return fits
        columns = {name: self.columns[name] for name in sorted(condition.reads) if name in self.columns.derive}
        if all(isinstance(column, Words | Booleans) for column in columns.values()):
            return self._by_words(condition, columns, rows)
        if len(columns) == 1 and isinstance(next(iter(columns.values())), Texts | Octets):
            return self._by_texts(condition, columns, rows)
        if len(columns) == 1 and isinstance(next(iter(columns.values())), Payloads):
            return self._by_payloads(condition, columns, rows)
        return self._one_by_one(condition, columns, rows)

    def _joined(self, condition: Every | Either, rows: Int64) -> Bool:
        """Evaluate the parts of `and` or `or`, cheapest first, each only for rows that earlier parts left undecided."""
        decides = isinstance(condition, Either)
        held = np.full(len(rows), not decides)
        undecided = np.arange(len(rows))
        for part in sorted(condition.parts, key=self._cost):
            holds = self._holds(part, rows[undecided])
            held[undecided[holds == decides]] = decides
            undecided = undecided[holds != decides]
            if not len(undecided):
                break
        return held

    def _cost(self, condition: Condition) -> int:
        """Return the rank of a condition by cost: numbers and words, then texts, then computed values."""
        return max((COSTS.get(name, 0) for name in condition.reads), default=0)

    # -- comparisons as arrays ---------------------------------------------------------------------------------------

    def _as_arrays(self, condition: Compared, rows: Int64) -> Bool | None:
        """Evaluate a comparison as arrays; return a mask, or None if arrays cannot evaluate it."""
        operand = condition.operand
        if not isinstance(operand, FieldOperand) or operand.steps or operand.field.accept is not None:
            return None
        field = operand.field
        if self.known["record"] not in field.records:
            return np.zeros(len(rows), np.bool_)
        parts = [self.column(field, name) for name in field.reads if name in self.columns.derive]
        if not parts:
            return None
        any_, all_ = np.zeros(len(rows), np.bool_), np.ones(len(rows), np.bool_)
        some = np.zeros(len(rows), np.bool_)
        for column in parts:
            found = None if column is None else fits_of(column, condition.predicate, rows)
            if found is None:
                return None
            any_ |= found[0]
            all_ &= found[1]
            some |= found[2]
        return all_ & some if condition.is_all else any_

    def column(self, field: FilterField, name: str) -> Column | None:
        """Return the column with the values of a field; None if the field is computed.

        `name` is the record field that it reads.
        """
        if field.name == "size" and name == "sizes":
            sizes = self.columns["sizes"]
            assert isinstance(sizes, Lists)
            return sizes.sums()
        start = self.known[CAPTURE_START]
        if name == "ts_ns" and CAPTURE_START in field.reads:
            return None if start is None else Integers(self.columns.times - start)
        return None if field.member is not None or field.derive is not None else self.columns[name]

    # -- evaluation once for many rows ------------------------------------------------------------------------------

    def _by_words(self, condition: Condition, columns: dict[str, Column], rows: Int64) -> Bool:
        codes = np.zeros(len(rows), np.int64)
        for column in columns.values():
            size, of_rows = _codes(column, rows)
            codes = codes * size + of_rows
        first, which = _first_of_each(codes)
        answers = [self._holds_of(condition, columns, int(rows[place])) for place in first]
        return np.array(answers, np.bool_)[which] if len(rows) else np.zeros(0, np.bool_)

    def _by_texts(self, condition: Condition, columns: dict[str, Column], rows: Int64) -> Bool:
        ((name, column),) = columns.items()
        octets = column.octets if isinstance(column, Texts) else column
        assert isinstance(octets, Octets)
        held = np.full(len(rows), condition.holds({**self.known, name: None}))
        known = np.arange(len(rows)) if octets.known is None else np.flatnonzero(octets.known[rows])
        found = different(octets, rows[known])
        if found is None:
            held[known] = self._one_by_one(condition, columns, rows[known])
        else:
            first, which = found
            held[known] = self._one_by_one(condition, columns, rows[known[first]])[which]
        return held

    def _by_payloads(self, condition: Condition, columns: dict[str, Column], rows: Int64) -> Bool:
        """Evaluate a condition on payloads once for all rows without a payload.

        `columns` has the one column that it reads. Rows with plain text have equal results too, unless the condition
        reads the summary.
        """
        (column,) = columns.values()
        assert isinstance(column, Payloads)
        inside = column.inside[rows]
        alike = [NOTHING_INSIDE, *([] if _reads_summary(condition) else [TEXT_INSIDE])]
        held = np.zeros(len(rows), np.bool_)
        for kind in alike:
            some = np.flatnonzero(inside == kind)
            held[some] = len(some) and self._holds_of(condition, columns, int(rows[some[0]]))
        others = np.flatnonzero(~np.isin(inside, alike))
        held[others] = self._one_by_one(condition, columns, rows[others])
        return held

    def _one_by_one(self, condition: Condition, columns: dict[str, Column], rows: Int64) -> Bool:
        return np.array([self._holds_of(condition, columns, row) for row in rows.tolist()], np.bool_)

    def _holds_of(self, condition: Condition, columns: dict[str, Column], row: int) -> bool:
        return condition.holds(self.known | {name: column[row] for name, column in columns.items()})


COSTS = {"topic": 1, "envelope": 2, "bodies": 2, "payload": 3}


def _codes(column: Column, rows: Int64) -> tuple[int, NDArray[Any]]:
    """Return the number of distinct words in a column, and for each of `rows` the index of its word."""
    if isinstance(column, Words):
        return len(column.words), column.codes[rows]
    assert isinstance(column, Booleans)
    return 2, column.values[rows]


def _first_of_each(codes: Int64) -> tuple[Int64, NDArray[Any]]:
    """Return the first row of each distinct code, and for each row the index of its code among the distinct ones."""
    if not len(codes) or int(codes.max()) > 4 * len(codes):
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        return first, which
    place = np.full(int(codes.max()) + 1, -1)  # much faster than sorting them
    place[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    is_there = place >= 0
    return place[is_there], (np.cumsum(is_there) - 1)[codes]


def _reads_summary(condition: Condition) -> bool:
    operand = condition.operand if isinstance(condition, Compared) else None
    return not isinstance(operand, FieldOperand) or operand.field.member == "summary"
