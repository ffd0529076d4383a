"""Draw the table of `zmtpscope top` with Rich. All texts are escaped beforehand, without markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from zmtpscope.export.top.rows import Row, with_senders
from zmtpscope.export.top.view import Column, View

NUMBER = 7
"""Width of a column of numbers with its heading."""

MIN_NAME, SPARED_NAME = 16, 44
MAX_SENDER = 28
MIN_VALUE = 16
WIDEST_NAME, VALUE = 100, 60
"""Widths of the name and of the last value if the terminal width is unknown."""

TEXTS = ("name", "from", "last")
SCALES = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))

HELP = (
    ("t c p", "topics, connections, peers"),
    ("m b o", "sort by messages a second, by the busiest interval, by octets a second"),
    ("M O s", "sort by all messages, by all octets, by subscribers (peers: connections)"),
    ("n l", "sort by name, by the time of the last message"),
    ("< >", "sort by the column to the left, to the right"),
    ("r", "reverse the order"),
    ("/ f", "show only names that contain a text (Enter; Escape shows all again)"),
    ("up down", "choose a row (also k and j, page up and down, home, end)"),
    ("enter", "pin the row to the top, or unpin it"),
    ("space", "pause, or continue"),
    ("q", "leave"),
)


def scaled(number: float) -> str:
    """Format a number in at most six characters: `0.25`, `12`, `53.9k`, `1.20M`."""
    for scale, unit in SCALES:
        if number >= scale and number >= 10_000:
            shown = number / scale
            return (
                f"{shown:.0f}{unit}" if shown >= 100 else f"{shown:.1f}{unit}" if shown >= 10 else f"{shown:.2f}{unit}"
            )
    return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"


def columns_that_fit(columns: Sequence[Column], longest_name: int, width: int | None) -> list[Column]:
    """Return the columns that fit in `width`; less important columns are dropped first.

    Names have up to `longest_name` characters; up to `SPARED_NAME` of them have priority over optional columns.
    """
    shown = list(columns)
    least = {"name": min(longest_name, SPARED_NAME), "from": MIN_NAME, "last": MIN_VALUE}
    while width is not None:
        needed = sum(least.get(column.name, _number_width(column)) + 1 for column in shown)
        spared = max(shown, key=lambda column: column.priority)
        if needed <= width or not spared.priority:
            break
        shown.remove(spared)
    return shown


def table_of(view: View, rows: Sequence[Row], width: int | None = None, selected: int | None = None) -> Table:
    """Return rows as a Rich table.

    `width` None: as wide as the contents. `selected` is the index of the row with the cursor.
    """
    columns = columns_that_fit(view.columns, _longest(view.columns[0], rows), width)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold", show_edge=False)
    if view.kind == "topic" and all(column.name != "from" for column in columns):
        names = with_senders([row.name for row in rows], [row.key for row in rows])
        rows = [row._replace(name=name) for row, name in zip(rows, names, strict=True)]
        columns = columns_that_fit(view.columns, _longest(view.columns[0], rows), width)
    widths = _widths(columns, rows, width)
    for column in columns:
        is_sorted_by = column.name == view.column.name
        table.add_column(
            Text(column.heading, style="underline" if is_sorted_by else ""),
            justify="left" if column.name in TEXTS else "right",
            width=widths[column.name],
            no_wrap=True,
            overflow="ellipsis",
        )
    for place, row in enumerate(rows):
        is_pinned = row.key is not None and row.key in view.pinned
        style = "reverse" if place == selected else "bold" if is_pinned else "dim" if row.key is None else ""
        table.add_row(*(Text(_cell(column, row, widths[column.name]), no_wrap=True) for column in columns), style=style)
    return table


def _number_width(column: Column) -> int:
    return max(NUMBER, len(column.heading))


def _longest(column: Column, rows: Sequence[Row]) -> int:
    return max(map(cell_len, [column.heading, *(_cell(column, row, 0) for row in rows)]))


def _widths(columns: Sequence[Column], rows: Sequence[Row], width: int | None) -> dict[str, int]:
    """Return the widths of columns: fixed for numbers, shared by columns of text."""
    widths = {column.name: _number_width(column) for column in columns if column.name not in TEXTS}
    longest = {column.name: _longest(column, rows) for column in columns if column.name in ("name", "from")}
    if width is None:
        return {**widths, **longest, "name": min(longest["name"], WIDEST_NAME), "last": VALUE}
    room = width - len(columns) - sum(widths.values())
    if "from" in longest:
        widths["from"] = min(longest["from"], MAX_SENDER)
        room -= widths["from"]
    name = min(longest["name"], max(room - MIN_VALUE, room // 2, 1))
    return {**widths, "name": name, "last": max(1, room - name)}


def _cell(column: Column, row: Row, width: int) -> str:
    if column.name == "last":
        return row.last_value(width)
    if column.name == "name":
        return row.name
    if column.name == "subscribers":
        return "-" if row.subscribers is None else str(row.subscribers)
    value = column.value(row)
    return value if isinstance(value, str) else scaled(value)


def help_table() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for keys, meaning in HELP:
        table.add_row(Text(keys, style="bold"), Text(meaning))
    return table
