"""Make the tables of views: columns format values, and rows can be sorted and expanded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.words import scaled
from zmtpscope.store import Store
from zmtpscope.tui.requests import Sort, Table, TableColumn, TableRow, Wanted
from zmtpscope.words import counted

Value = Any
"""A value to show and sort: text, number, or None for an empty cell."""


class Column:
    """A column of a view. `shown` formats a value as text without control characters, `order` returns its sort key.

    `look` returns its style, or "" for that of the row. `settings` are those of `TableColumn`.
    """

    def __init__(
        self,
        name: str,
        heading: str,
        shown: Callable[[Any], str] = safe_text,
        *,
        order: Callable[[Any], Any] = lambda value: value,
        look: Callable[[Any], str] | None = None,
        **settings: Any,
    ) -> None:
        self.table_column = TableColumn(name, heading, **settings)
        self.shown, self.order, self.look = shown, order, look
        self.name, self.is_number = name, self.table_column.is_number


@dataclass(slots=True)
class Line:
    """A row before formatting. `values` are by column name; other cells are empty.

    `children` returns the rows below it, sorted with the table if `is_sorted`. `record` may be a function, which is
    called when the row is shown.
    """

    key: str
    values: Mapping[str, Value]
    filter: str = ""
    style: str = ""
    record: int | Callable[[], int | None] | None = None
    children: Callable[[], Sequence[Line]] | None = None
    is_open: bool = False
    """Whether the children are always shown."""
    is_sorted: bool = False
    scope: str | None = None
    """As in `TableRow`; None for `filter`."""
    time: int | None = None
    """As in `TableRow`."""


def table_of(
    columns: Sequence[Column],
    lines: Iterable[Line],
    wanted: Wanted,
    text: Sequence[str] = (),
    prepare: Callable[[Sequence[Line]], object] = len,
) -> Table:
    """Return a table with the rows that `wanted` selects.

    `lines` are in the order of the view; unless the table is sorted, only as many as shown are read. `prepare` is
    called with the shown rows before they are formatted.
    """
    shown: list[ShownLine] = []
    for each in _shown(columns, lines, replace(wanted, containing=wanted.containing.casefold()), 0):
        if len(shown) == wanted.most:
            text = [*text, f"the first {counted(wanted.most, 'row')} of more: a filter leaves fewer"]
            break
        shown.append(each)
    prepare([each.line for each in shown])
    rows = tuple(_row(columns, each, is_raw=wanted.is_raw) for each in shown)
    return Table(tuple(column.table_column for column in columns), rows, text=tuple(text))


class ShownLine(NamedTuple):
    """A row of a table with its depth in the tree. `is_open`: its children are shown below it."""

    line: Line
    depth: int
    is_open: bool


def _shown(columns: Sequence[Column], lines: Iterable[Line], wanted: Wanted, depth: int) -> Iterator[ShownLine]:
    """Yield the rows that `wanted` selects, and the children of expanded ones.

    If children are of the same kind as their parents, a collapsed row is expanded if a child contains the text that the
    user searches.
    """
    for line in _sorted(columns, lines, wanted.sort):
        is_wanted = _contains(columns, line, wanted.containing)
        is_open = line.children is not None and (line.is_open or line.key in wanted.opened)
        below: Iterable[ShownLine] = ()
        if line.children is not None and (is_open or (line.is_sorted and not is_wanted)):
            of_children = wanted if line.is_sorted else replace(wanted, sort=None)
            of_children = replace(of_children, containing="" if is_wanted else wanted.containing)
            below = _shown(columns, line.children(), of_children, depth + 1)
        if not is_wanted:
            below = list(below)
            is_open = bool(below)
        if is_wanted or is_open:
            yield ShownLine(line, depth, is_open)
            yield from below


def _contains(columns: Sequence[Column], line: Line, text: str) -> bool:
    """Whether a row contains `text`. Numbers and times, which need formatting, are not searched."""
    if not text:
        return True
    values = ((column, line.values.get(column.name)) for column in columns)
    return any(text in column.shown(value).casefold() for column, value in values if isinstance(value, str))


def _sorted(columns: Sequence[Column], lines: Iterable[Line], sort: Sort | None) -> Iterable[Line]:
    column = next((column for column in columns if sort and column.name == sort.column), None)
    if sort is None or column is None:
        return lines
    name, order = column.name, column.order
    lines = list(lines)
    there = [line for line in lines if line.values.get(name) is not None]
    there.sort(key=lambda line: order(line.values[name]), reverse=sort.descending)
    return [*there, *(line for line in lines if line.values.get(name) is None)]


def _row(columns: Sequence[Column], shown: ShownLine, *, is_raw: bool) -> TableRow:
    line, depth, is_open = shown
    values = [line.values.get(column.name) for column in columns]
    cells = [
        "" if value is None else str(value) if is_raw and column.is_number else column.shown(value)
        for column, value in zip(columns, values, strict=True)
    ]
    has_more = line.children is not None and not is_open
    record = line.record() if callable(line.record) else line.record
    scope = line.filter if line.scope is None else line.scope
    looks = tuple(map(_look, columns, values)) if any(column.look for column in columns) else ()
    return TableRow(line.key, tuple(cells), line.filter, depth, line.style, has_more, record, scope, looks, line.time)


def _look(column: Column, value: Value) -> str:
    return "" if column.look is None or value is None else column.look(value)


def seconds(nanoseconds: int) -> str:
    """Format a duration: `1.234 s`, `12.3 ms`, `45 us`."""
    for scale, unit in ((10**9, "s"), (10**6, "ms")):
        if nanoseconds >= scale:
            return scaled(nanoseconds / scale, unit)
    return f"{nanoseconds // 1000} us"


def shown_times(store: Store, form: str) -> Callable[[int], str]:
    """Return a function that formats times (ns since 1970), in a format of `-t`.

    Seconds count from the first packet, or from the first record if the time of that packet is unknown.
    """
    start = store.first_time
    if start is None:
        start = store.row(0)["ts_ns"] if len(store) else 0
    clock = Clock(form, lambda: start)
    return lambda time: clock(time).strip()
