"""A list of records of any length, which loads only rows near the visible ones."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from zmtpscope.tui.requests import Page, Row, Sort, TableColumn
from zmtpscope.tui.widgets.columns import (
    GAP,
    MIN_TEXT,
    SORTED,
    Cell,
    column_at,
    fitted,
    heading_line,
    lay_out,
    line_of,
    width_of,
)
from zmtpscope.tui.widgets.line_view import ColumnView
from zmtpscope.tui.widgets.row_pages import RowPages

Fetch = Callable[[int, int], Awaitable[Page]]
"""Returns the rows `low..high` of the list; an empty page on failure."""

MARK_WIDTH = 2
MARK, MISSING = "●", "·"
INDENT_SHARE = 3
"""The right side of a conversation starts after this fraction of the room for both."""
PREFETCHED_SCREENS = 2
STEP = 16
"""Characters that the last column scrolls by."""
OWN_STYLE = ("", "message", "datagram")
"""Styles of rows whose cells use column styles."""


class CellText(NamedTuple):
    """The cell under the cursor: column, text, and the number of its record."""

    column: str
    text: str
    number: int


class RowList(ColumnView):
    """A list of records, with the cursor on one cell. `fetch` loads rows.

    Left and right move to the next cell, and scroll a long last column.
    """

    help_title = "Messages"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "cell(1)", "Next cell, or further in the last one", show=False),
        Binding("left,h", "cell(-1)", "Cell before", show=False),
        Binding("enter", "choose", "Fields"),
    ]

    class Selected(Message):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class Chosen(Message):
        """Message after enter or a double click on a row."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    def __init__(self, fetch: Fetch) -> None:
        super().__init__()
        self._fetch = fetch
        self._seen: list[int] = []
        """Width of each column so far, in cells."""
        self._marked: AbstractSet[int] = frozenset()
        self._column = 0
        self._skip = 0
        self._pages = RowPages()
        self._generation = 0
        self._outdated = sys.maxsize
        """Number of leading rows that did not move since the last request."""
        self._look = asyncio.Event()
        self._posted: int | None = None
        self._following = False
        self._grown = 0
        """Number of rows of the list; more than `count` until new visible rows are loaded."""
        self._aim = 0
        """Number of rows to show next."""
        self._goal: int | None = None
        """Row to go to, once it is loaded."""

    # -- interface -----------------------------------------------------------------------------------------------------

    def set_columns(self, columns: Sequence[TableColumn], sort: Sort | None = None) -> None:
        """Show these columns. `sort` is the present order, which the heading shows."""
        if tuple(columns) != self.columns:  # otherwise widths stay, so that columns do not jump
            self.columns, self._seen = tuple(columns), [0] * len(columns)
        self._sort = sort
        self._lay_out()

    def set_count(self, count: int) -> None:
        """Set the number of rows. New rows appear when loaded. The cursor stays, unless it follows the end."""
        self._grown = count
        if count <= self._count or (self._count >= self.top + self.page_height and not self._following):
            self._grow(count)
        self._look.set()

    def _grow(self, count: int) -> None:
        """Show this number of rows, and move the cursor to the row for which it waits."""
        self._aim = count
        target, self._goal = self._target, None
        self.set_line_count(count)
        if target is not None:
            super().go_to(target)
        self._post_selected()

    @property
    def _target(self) -> int | None:
        """The row to which the cursor goes once it is loaded; the last row if the cursor follows the end; otherwise
        None."""
        if not self._following:
            return self._goal
        return self._aim - 1 if self._cursor < self._aim - 1 else None

    def reset(self) -> None:
        """Drop all rows, before another list is shown."""
        self._generation += 1
        self._pages.clear()
        self._posted = None
        self._skip = 0
        self._cursor = 0
        self._grown = self._aim = 0
        self._goal = None
        self.set_line_count(0)
        self.scroll_to(y=0, animate=False, force=True)
        self.forget_lines()

    def ask_again(self, kept: int = 0) -> None:
        """Load the rows after the first `kept` again. The old cells stay visible meanwhile."""
        self._outdated = min(kept, self._outdated)
        self._pages.ask_again(kept)
        self._lines.clear()
        self._look.set()

    def set_marked(self, numbers: AbstractSet[int]) -> None:
        self._marked = numbers
        self.forget_lines()

    @property
    def following(self) -> bool:
        """Whether the cursor stays at the end as rows arrive, until the user moves it."""
        return self._following

    def follow(self, following: bool) -> None:
        self._following = following
        self._look.set()

    def current_row(self) -> Row | None:
        """The row under the cursor; None if there is none, or it is not loaded."""
        return self._pages.row(self._cursor) if self._count else None

    def current_cell(self) -> CellText | None:
        """The cell under the cursor; None if there is none, or it is not loaded."""
        row = self.current_row()
        if row is None or not self.columns or self._column >= len(row.cells):
            return None
        return CellText(self.columns[self._column].name, row.cells[self._column], row.number)

    # -- loading rows --------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        super().on_mount()  # type: ignore[no-untyped-call]
        self.run_worker(self._fetch_rows(), group="rows")

    async def _fetch_rows(self) -> None:
        while True:
            await self._look.wait()
            self._look.clear()
            while (missing := self._missing()) is not None:
                generation, count = self._generation, max(self._count, self._aim)
                self._outdated = sys.maxsize
                page = await self._fetch(*missing)
                if generation == self._generation:
                    if self._pages.put(page, count):
                        self._lines.clear()
                    self._pages.ask_again(self._outdated)
                    self._learn_widths(page.rows)
                    self._refresh_rows(*missing)
                    self._post_selected()

    def _missing(self) -> tuple[int, int] | None:
        """Return the range of rows to load next, or None: first visible rows that are new, then outdated ones, then
        rows below and above."""
        top, height = self.top, self.page_height
        while self._count < self._grown or self._target is not None:
            self._aim = self._aim if self._count < self._aim <= self._grown else self._grown
            target = self._target
            first, last = (top, top + height) if target is None else (target - height, target + height)
            missing = self._pages.missing(first, last, self._aim)
            if missing is not None and not self._pages.have(first, last, self._aim):
                return missing
            self._grow(self._aim)
        top, around = self.top, PREFETCHED_SCREENS * height
        return (
            self._pages.missing(top, top + height, self._count)
            or self._pages.missing(self._cursor, self._cursor + 1, self._count)
            or self._pages.missing(top + height, top + height + around, self._count)
            or self._pages.missing(top - around, top, self._count)
        )

    def _refresh_rows(self, low: int, high: int) -> None:
        if low < self.top + self.page_height and high > self.top:
            self.refresh()

    def is_there(self, place: int) -> bool:
        return self._pages.row(place) is not None

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look.set()

    # -- the cursor ----------------------------------------------------------------------------------------------------

    def go_to(self, place: int) -> None:
        if self._following and place < self._count - 1:
            self._following = False
        if self._count <= place and self._count < self._grown:
            self._goal = min(place, self._grown - 1)
            self._look.set()
        else:
            self._goal = None
            super().go_to(place)

    def cursor_moved(self) -> None:
        self._look.set()
        self._post_selected()

    def _post_selected(self) -> None:
        row = self.current_row()
        if row is not None and row.number != self._posted:
            self._posted = row.number
            self.post_message(self.Selected(row.number))

    def action_choose(self) -> None:
        if (row := self.current_row()) is not None:
            self.post_message(self.Chosen(row.number))

    def action_cell(self, step: int) -> None:
        shown = [slot.column for slot in self._slots]
        if not shown:
            return
        at = shown.index(self._column) if self._column in shown else 0
        for _ in range(self.take_number() or 1):
            if at == len(shown) - 1 and (step > 0 or self._skip):
                self._skip = max(0, self._skip + step * STEP) if step < 0 or self._goes_on() else self._skip
            else:
                at = max(0, min(at + step, len(shown) - 1))
        self._column = shown[at]
        self.forget_lines()

    def _goes_on(self) -> bool:
        """Whether a visible row has more text in the last column than the screen shows."""
        slot = self._slots[-1]
        rows = filter(None, map(self._pages.row, range(self.top, self.top + self.page_height)))
        return any(width_of(_text(row, slot.column)) - self._skip > slot.width for row in rows)

    def sort_by_cursor(self) -> None:
        """Request to sort by the column under the cursor."""
        if self.columns:
            self._ask_to_sort(self._column)

    def line_clicked(self, place: int, x: int) -> None:
        column = column_at(self._slots, x)
        if column is not None and column != self._column:
            self._column = column
            self.forget_lines()
        super().line_clicked(place, x)

    # -- lines ---------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        super().on_resize()
        self._lay_out()
        self._look.set()

    def _lay_out(self) -> None:
        widths = self._widths(self.width - MARK_WIDTH)
        there = [index for index, width in enumerate(widths) if width or not self.columns[index].width]
        columns, widths = [self.columns[index] for index in there], [widths[index] for index in there]
        slots = lay_out(columns, widths, self.width, MARK_WIDTH) if columns else ()
        self._slots = tuple(slot._replace(column=there[slot.column]) for slot in slots)
        if self._slots and self._column not in [slot.column for slot in self._slots]:
            self._column = self._slots[0].column
        self.forget_lines()

    def _widths(self, width: int) -> list[int]:
        """Return the widths of columns, by their contents up to a maximum, or by their heading.

        A column without a maximum, other than the last, gets a share of the remaining cells.
        """
        is_empty = not any(self._seen)
        widths = [
            min(max(seen, width_of(column.heading) + len(SORTED[True])), column.width) if seen or is_empty else 0
            for column, seen in zip(self.columns, self._seen, strict=True)
        ]
        share = max(MIN_TEXT, (width - sum(widths) - GAP * len(widths)) // INDENT_SHARE)
        last = len(widths) - 1
        return [
            each if column.width or place == last else share
            for place, (column, each) in enumerate(zip(self.columns, widths, strict=True))
        ]

    def _learn_widths(self, rows: Sequence[Row]) -> None:
        """Widen columns so that these rows fit. Columns never shrink, and empty ones are hidden."""
        before = list(self._seen)
        for row in rows:
            self._seen = [max(seen, width_of(cell)) for seen, cell in zip(self._seen, row.cells, strict=False)]
        if self._seen != before:
            self._lay_out()

    def draw_heading(self, line: int, width: int) -> Strip:
        return heading_line(self.columns, self._slots, self._sort, self.palette.style("heading", "headings"), width)

    def draw_missing(self, width: int) -> Strip:
        return line_of([Cell(MARK_WIDTH, MARK_WIDTH + 1, MISSING, self.palette.style("faint"))], self.base, width)

    def draw(self, place: int, ground: str, width: int) -> Strip:
        row = self._pages.row(place)
        assert row is not None
        style = self.palette.style
        has_own = row.style in OWN_STYLE
        cells = [Cell(0, 1, MARK, style("mark", ground))] if row.number in self._marked else []
        last = self._slots[-1] if self._slots else None
        for slot in self._slots:
            column = self.columns[slot.column]
            text = _text(row, slot.column)
            stop, skip = slot.stop, self._skip if slot is last else 0
            if last is not None and not column.width and slot is not last and not _text(row, last.column):
                stop, skip = last.stop, self._skip  # a side of a conversation gets the whole line
            elif cells and slot.start < cells[-1].stop:
                continue
            below = "cell" if ground == "cursor" and slot.column == self._column else ground
            look = style(column.style if column.style and has_own else row.style, below)
            cells.append(Cell(slot.start, stop, fitted(text, stop - slot.start, column.is_number, skip), look))
        return line_of(cells, style(row.style, ground), width)


def _text(row: Row, column: int) -> str:
    """Return the text of a cell, or "" if the row was loaded with other columns."""
    return row.cells[column] if column < len(row.cells) else ""
