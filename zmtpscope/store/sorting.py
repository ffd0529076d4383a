"""Sort records by a field: collect sort keys from packed columns, chunk by chunk, then sort all at once.

Texts are numbered in order of appearance, and replaced by their ranks when all are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Lists, Words
from zmtpscope.dissect.records.message_columns import columns_of_rows
from zmtpscope.export.values import LARGEST_INT, record_values
from zmtpscope.filter.conditions import FieldOperand, Operand
from zmtpscope.filter.fields import CAPTURE_START, Type
from zmtpscope.filter.rows import Rows
from zmtpscope.store.chunk import Chunk
from zmtpscope.store.columns import StoredRecords, StoredRows, stored_columns
from zmtpscope.store.packed import Bool, Int64

MAX_CONCURRENT = 1024
"""Records whose octets are read at once."""

WAIT = 0.005
"""Seconds between two checks whether sorting has finished."""

NUMERIC = (Type.NUMBER, Type.TIME, Type.DURATION, Type.TRUTH)

MakeBatch = Callable[[Int64], Batch]
"""Return records of a chunk, given in ascending order, with their octets."""


class SortKeys:
    """The sort keys of `count` records by the field or function `operand`. Of several values the first one counts."""

    def __init__(self, operand: Operand, count: int, options: Options, start: int | None) -> None:
        self.operand = operand
        self.options = options
        self.start = start
        self.keys: Int64 = np.zeros(count, np.int64)
        self.known: Bool = np.zeros(count, np.bool_)
        self._numbers: dict[Any, int] = {}
        """Provisional number of each text."""

    def fill(
        self,
        part: slice,
        chunk: Chunk,
        rows: Int64,
        files: list[str | None],
        read: Callable[[int, int], bytes],
        batch_of: MakeBatch,
    ) -> Iterator[None]:
        """Compute the keys `part` from the records `rows` (ascending) of a chunk.

        Yields after each step if octets must be read. `read` returns the octets at a spool offset and size; `batch_of`
        restores rows as a batch.
        """
        keys, known = np.zeros(len(chunk), np.int64), np.zeros(len(chunk), np.bool_)
        for kind, places in chunk.places(rows):
            numbers = places if chunk.kinds.more is None else chunk.rows_of(kind)[places]
            found = self._of_columns(stored_columns(chunk, kind, files, self.options, read), places)
            if found is not None:
                keys[numbers], known[numbers] = found
                continue
            for low in range(0, len(numbers), MAX_CONCURRENT):
                some = numbers[low : low + MAX_CONCURRENT]
                keys[some], known[some] = self._of_values(self._values(batch_of(some)))
                yield
        self.keys[part], self.known[part] = keys[rows], known[rows]

    def order(self, *, descending: bool) -> Int64:
        """Return the indexes that sort the records, stable, with records without a value last."""
        keys = self.keys
        if self.operand.type not in NUMERIC:
            keys = self._ranks()[keys]
        if self.known.all():
            return _order(keys, descending=descending)
        known = self.known.nonzero()[0]
        return np.concatenate((known[_order(keys[known], descending=descending)], (~self.known).nonzero()[0]))

    # -- sources of keys -----------------------------------------------------------------------------------------------

    def _of_columns(self, columns: StoredRows | StoredRecords, places: Int64) -> tuple[Int64, Bool | bool] | None:
        """Return the sort keys of the records at the indexes `places`, and which of them have a value.

        None if the columns lack the field.
        """
        operand = self.operand
        if not isinstance(operand, FieldOperand) or operand.steps or operand.field.accept is not None:
            return None
        if columns.type not in operand.field.records:
            return np.zeros(len(places), np.int64), False
        name = next((name for name in operand.field.reads if name in columns.derive), None)
        column = None if name is None else Rows(columns, self.start).column(operand.field, name)
        return None if column is None else self._of_column(column, places)

    def _of_column(self, column: Column, places: Int64) -> tuple[Int64, Bool | bool] | None:
        if isinstance(column, Integers):
            return column.values[places].astype(np.int64), True if column.known is None else column.known[places]
        if isinstance(column, Booleans):
            return column.values[places].astype(np.int64), True
        if isinstance(column, Words):
            words = list[Any](column.words)
            keys, known = self._of_values(
                [next(iter(word), None) if isinstance(word, list) else word for word in words]
            )
            codes = column.codes[places]
            return keys[codes], known[codes]
        if isinstance(column, Lists) and isinstance(column.items, Integers) and len(column.items.values):
            begins, ends = column.edges[places], column.edges[places + 1]
            first = column.items.values[np.minimum(begins, len(column.items.values) - 1)]
            return first.astype(np.int64), column.known[places] & (begins < ends)
        return None

    def _values(self, batch: Batch) -> list[Any]:
        """Return the first value of the operand in each record of a batch of one type."""
        columns = columns_of_rows(batch, self.options)
        if columns is None:
            return [self._value(record_values(record, self.options)) for record in batch.records]
        names = ["record", *(name for name in self.operand.reads if name in columns.derive)]
        lists = [columns[name].tolist() for name in names]
        return [self._value(dict(zip(names, values, strict=True))) for values in zip(*lists, strict=True)]

    def _value(self, record: dict[str, Any]) -> Any:
        return next(iter(self.operand.values(record | {CAPTURE_START: self.start})), None)

    def _of_values(self, values: list[Any]) -> tuple[Int64, Bool]:
        known = np.array([value is not None for value in values], np.bool_)
        if self.operand.type in NUMERIC:
            return np.array([min(value or 0, LARGEST_INT) for value in values], np.int64), known
        numbers = self._numbers
        hashed = (str(value) if isinstance(value, list | dict) else value for value in values)
        return np.array(
            [0 if each is None else numbers.setdefault(each, len(numbers)) for each in hashed], np.int64
        ), known

    def _ranks(self) -> Int64:
        """Return the rank of each text, by its number in order of appearance."""
        is_address = self.operand.type is Type.ADDRESS
        in_order = sorted(self._numbers, key=_address_key if is_address else _any_key)
        ranks = np.zeros(max(1, len(in_order)), np.int64)
        ranks[[self._numbers[each] for each in in_order]] = np.arange(len(in_order))
        return ranks


def _any_key(value: Any) -> tuple[str, Any]:
    """Return a sort key for a value of any type: numbers first, then each other type by itself.

    Members of payloads can have any type.
    """
    is_number = isinstance(value, int | float)
    return ("", value) if is_number else (type(value).__name__, value)


def _address_key(text: str) -> tuple[int, int]:
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0
    return address.version, int(address)


def _order(keys: Int64, *, descending: bool) -> Int64:
    """Return the indexes that sort `keys`, stable; faster than `argsort` if a key and its index fit into 64 bits."""
    if not len(keys):
        return np.empty(0, np.int64)
    low, high = int(keys.min()), int(keys.max())
    bits = len(keys).bit_length()
    if (high - low).bit_length() + bits > 64:
        return (~keys if descending else keys).argsort(kind="stable")
    joined: NDArray[np.uint64] = (high - keys if descending else keys - low).view(np.uint64)
    joined <<= np.uint64(bits)
    joined |= np.arange(len(keys), dtype=np.uint64)
    joined.sort()
    joined &= np.uint64((1 << bits) - 1)
    return joined.view(np.int64)


def ordered(keys: SortKeys, *, descending: bool) -> Iterator[Int64 | None]:
    """Sort in a thread: yield None until all records are sorted, then the indexes that sort them."""
    found: list[Int64] = []
    thread = Thread(target=lambda: found.append(keys.order(descending=descending)), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(WAIT)
        yield None
    yield found[0]
