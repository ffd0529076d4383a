"""Format values for lines.

Text from the network passes through `safe_text`: a tab or newline in a topic would end a field or line. A backslash in
data is doubled, so that the octets can be restored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import orjson

from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Lists, Octets, Texts, Words
from zmtpscope.dissect.records.row_columns import RowColumns
from zmtpscope.export.clock import Clock, timestamp
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import as_base64
from zmtpscope.filter.checking import described
from zmtpscope.filter.conditions import Applied, FieldOperand, Operand
from zmtpscope.filter.fields import FilterField, Type
from zmtpscope.filter.rows import Rows
from zmtpscope.records import SECOND, to_text
from zmtpscope.templates.template import Separators

Shown = Callable[[Any], str]
"""Formats a value that is not null."""


def shown_by(operand: Operand, clock: Clock) -> Shown:
    """Return a function that formats the values of a field as text. `clock` formats times.

    Fields with names of Wireshark have the format of tshark.
    """
    field = described(operand)
    if isinstance(operand, Applied):
        return FORMS[operand.type]
    if field.name == "time":
        return lambda time: clock(time).strip()
    if field.name in WIRESHARK:
        return WIRESHARK[field.name]
    if (field.scale, field.shift) != (1, 0):
        return seconds if field.scale == SECOND else _converted(field)
    return FORMS[operand.type]


def truth(value: bool) -> str:
    return "true" if value else "false"


def octets(value: bytes) -> str:
    """Write octets as text, escaped if necessary."""
    return safe_text(to_text(value))


def seconds(time: int) -> str:
    """Format a time (ns) as seconds with nine decimals."""
    sign, time = ("-", -time) if time < 0 else ("", time)
    return f"{sign}{time // SECOND}.{time % SECOND:09}"


def date(time: int) -> str:
    return timestamp(time)


def member(value: Any) -> str:
    """Format a value inside of a decoded payload: text unchanged, other types as JSON."""
    if isinstance(value, str):
        return safe_text(value.replace("\\", "\\\\"))
    if isinstance(value, bytes):
        return octets(value)
    return safe_text(orjson.dumps(value, default=as_base64, option=orjson.OPT_NON_STR_KEYS).decode())


def _converted(field: FilterField) -> Shown:
    def shown(value: int) -> str:
        number = Fraction(value - field.shift, field.scale)
        return str(number) if number.denominator == 1 else f"{float(number):g}"

    return shown


FORMS: dict[Type, Shown] = {
    Type.NUMBER: str,
    Type.TIME: str,
    Type.DURATION: str,
    Type.TRUTH: truth,
    Type.TEXT: safe_text,
    Type.ADDRESS: safe_text,
    Type.OCTETS: octets,
    Type.MEMBERS: member,
}

WIRESHARK: dict[str, Shown] = {
    "frame.time": date,
    "zmtp.data": bytes.hex,
    "zmtp.ping.context": bytes.hex,
    "zmtp.flags": "0x{:02x}".format,
}
"""Formats of fields with Wireshark names that differ from ours."""


MAX_REMEMBERED, LONGEST_REMEMBERED = 4096, 256
"""Texts to cache, and their octets."""


class Remembered(dict[Any, str]):
    """A cache of formatted values, because most values repeat."""

    def __init__(self, show: Callable[[Any], str]) -> None:
        self._show = show

    def __missing__(self, value: Any) -> str:
        shown = self._show(value)
        if not isinstance(value, bytes) or len(value) <= LONGEST_REMEMBERED:
            if len(self) == MAX_REMEMBERED:
                self.clear()
            self[value] = shown
        return shown


class Cells:
    """Formats the values of a field (`operand`) as text, one cell per row.

    `moves`: the text depends on the previous row, for example the time since then, so it cannot be cached.
    """

    def __init__(self, operand: Operand, shown: Shown, separators: Separators, *, moves: bool) -> None:
        self.operand = operand
        self._shown = shown
        self._separators = separators
        self._moves = moves
        self._number = str if shown is str and separators.leave_numbers else self._of_one
        self._one = Remembered(self._of_one)
        self._text = Remembered(lambda octets: separators.quoted(shown(to_text(octets))))

    def _of_one(self, value: Any) -> str:
        return self._separators.quoted(self._shown(value))

    def of_record(self, record: dict[str, Any]) -> str:
        return self._separators.written(map(self._shown, self.operand.values(record))) or ""

    def of_rows(self, columns: RowColumns[Any], start: int | None) -> list[str]:
        """Return the cells of all rows; `start` is the time (ns) of the first packet of the run, or None."""
        rows = Rows(columns, start)
        column = self._column(rows)
        if column is not None:
            return self._of_column(column)
        names = [name for name in self.operand.reads if name in columns.derive]
        values = zip(*[columns[name].tolist() for name in names], strict=True) if names else [()] * len(columns)
        return [self.of_record(rows.known | dict(zip(names, each, strict=True))) for each in values]

    def _column(self, rows: Rows) -> Column | None:
        """Return the column that contains the values, or None if they are in several columns."""
        operand = self.operand
        if not isinstance(operand, FieldOperand) or operand.steps or operand.field.accept is not None:
            return None
        field = operand.field
        names = [name for name in field.reads if name in rows.columns.derive]
        if len(names) != 1 or rows.known["record"] not in field.records:
            return None
        column = rows.column(field, names[0])
        return column if isinstance(column, Integers | Booleans | Words | Texts | Octets | Lists) else None

    def _of_column(self, column: Column) -> list[str]:
        if isinstance(column, Words):
            words = ["" if word is None else self._one[word] for word in column.words]
            return list(map(words.__getitem__, column.codes.tolist()))
        if isinstance(column, Booleans):
            return list(map((self._one[False], self._one[True]).__getitem__, column.values.tolist()))
        if isinstance(column, Lists):
            return self._of_lists(column)
        if isinstance(column, Integers):
            return self._of_numbers(column)
        assert isinstance(column, Texts | Octets)
        octets, show = (column.octets, self._text) if isinstance(column, Texts) else (column, self._one)
        return ["" if each is None else show[each] for each in octets.tolist()]

    def _of_numbers(self, column: Integers) -> list[str]:
        values, show = column.values, self._number
        if column.known is not None and not column.known.all():
            return ["" if value is None else show(value) for value in column.tolist()]
        if show is str or self._moves:
            return list(map(show, values.tolist()))
        # equal numbers are adjacent: messages from one packet have the same time
        begins = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
        shown = list(map(show, values[begins].tolist()))
        repeated: list[str] = np.array(shown, object).repeat(np.diff(begins, append=len(values))).tolist()
        return repeated

    def _of_lists(self, column: Lists) -> list[str]:
        items: Sequence[str] = list(map(self._shown, column.items.tolist()))
        written = self._separators.written
        return [written(items[begin:end]) or "" for begin, end in pairwise(column.edges.tolist())]
