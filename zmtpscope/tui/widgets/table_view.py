"""The table of a view, in which the user expands, sorts and chooses rows while numbers change."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from zmtpscope.tui.requests import Sort, Table, TableColumn, TableRow
from zmtpscope.tui.widgets.columns import (
    GAP,
    SORTED,
    Cell,
    fitted,
    heading_line,
    lay_out,
    line_of,
    scaled_plot,
    width_of,
)
from zmtpscope.tui.widgets.line_view import ColumnView, is_low

OPENED, CLOSED, LEAF = "▾ ", "▸ ", "  "
INDENT = 2
MARGIN = 1
MAX_OPENED = 1000
NO_TABLE = Table((), (), 0, 0)


class TableView(ColumnView):
    """The rows of a `Table`. Requests of the user are posted as messages, and `show` gets the new table."""

    count_wait = 0.02  # a digit nearly always means another view
    help_title = "Tables"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Records"),
        Binding("right,l", "open", "Open"),
        Binding("left,h", "close", "Close, or go out", show=False),
        Binding("space", "open_or_close", "Open or close", show=False),
        Binding("greater_than_sign", "sort_by(1)", "Sort by the next column", show=False),
        Binding("less_than_sign", "sort_by(-1)", "Sort by the column before", show=False),
        Binding("r", "reverse", "Sort the other way round", show=False),
        Binding("right_square_bracket", "shift(1)", "Columns further to the right", show=False),
        Binding("left_square_bracket", "shift(-1)", "Columns further to the left", show=False),
        Binding("p", "pin", "Only this"),
    ]

    class _OfRow(Message):
        def __init__(self, row: TableRow) -> None:
            super().__init__()
            self.row = row

    class Chosen(_OfRow):
        """Request to show the records of a row."""

    class Pinned(_OfRow):
        """Request to limit counts to the records of a row, or to remove the limit."""

    class OpenedChanged(Message):
        """Request for the table with exactly these rows expanded, after the user expanded or collapsed one."""

        def __init__(self, opened: tuple[str, ...]) -> None:
            super().__init__()
            self.opened = opened

    def __init__(self) -> None:
        super().__init__()
        self._table = NO_TABLE
        self._opened: dict[str, None] = {}
        self._is_tree = False
        self._widths: list[int] = []
        self._there = 0
        """Number of non-empty columns."""
        self._texts: list[str] = []
        """Lines above the headings."""
        self._shift = 0
        """Number of non-empty columns skipped after the first."""

    # -- interface -----------------------------------------------------------------------------------------------------

    def show(self, table: Table, sort: Sort | None = None) -> None:
        """Show a table. `sort` is its order, which the heading shows.

        The selected row stays selected, at the same height of the screen. Until the user moves or expands a row, it is
        the first one.
        """
        before = self.current_row() if self.cursor or self._opened else None
        if table == self._table and sort == self._sort:
            return
        if table.columns != self.columns:
            self.columns = table.columns
            self._widths = [column.width for column in table.columns]
            self._shift = min(self._shift, max(0, len(table.columns) - 2))
        self._table, self._sort = table, sort
        self._is_tree = any(row.has_more or row.depth or row.key in self._opened for row in table.rows)
        self._grow_widths()
        self._lay_out()
        if before is None:
            return
        for place, row in enumerate(table.rows):
            if row.key == before.key:
                self._keep_on_screen(place)
                break

    @property
    def rows(self) -> tuple[TableRow, ...]:
        return self._table.rows

    @property
    def opened(self) -> tuple[str, ...]:
        return tuple(self._opened)

    def current_row(self) -> TableRow | None:
        return self._table.rows[self.cursor] if self.cursor < len(self._table.rows) else None

    def cut_cells(self) -> list[tuple[str, str]]:
        """Return (heading, text) of the cells in the selected row that are cut off or hidden. Plots are scaled, not
        cut."""
        row = self.current_row()
        if row is None:
            return []
        room = {slot.column: self._room(row, number) for number, slot in enumerate(self._slots)}
        return [
            (column.heading, text)
            for index, column in enumerate(self.columns)
            if (text := _cell(row, index)) and width_of(self._front(row, index) + text) > room.get(index, 0)
            if not (column.is_plot and index in room)
        ]

    # -- rows and their places -----------------------------------------------------------------------------------------

    def _keep_on_screen(self, place: int) -> None:
        shift = place - self.cursor
        if shift and self.top:
            self.scroll_to(y=self.top + shift, animate=False, force=True)
        self.set_cursor(place)

    def _grow_widths(self) -> None:
        """Widen columns so that their texts fit. They never shrink, so that they do not jump."""
        for index, column in enumerate(self.columns):
            if column.width or not any(_cell(row, index) for row in self._table.rows):
                continue
            # texts of deeper rows extend over empty cells to the right
            is_own = column.is_number or column.is_plot
            shown = (row for row in self._table.rows if not row.depth or is_own or _cell(row, index + 1))
            needed = max((width_of(self._front(row, index) + _cell(row, index)) for row in shown), default=0)
            needed = max(needed, self._width_of_heading(column))
            self._widths[index] = max(self._widths[index], min(needed, column.widest))

    def _width_of_heading(self, column: TableColumn) -> int:
        is_sorted = self._sort is not None and self._sort.column == column.name
        return width_of(column.heading) + (width_of(SORTED[True]) if is_sorted else 0)

    def _front(self, row: TableRow, column: int) -> str:
        """Return the text before the first column of a row: the indentation of its depth, and a marker if it has
        children."""
        if column or not self._is_tree:
            return ""
        marker = OPENED if row.key in self._opened else CLOSED if row.has_more else LEAF
        return " " * (INDENT * row.depth) + marker

    # -- keys ----------------------------------------------------------------------------------------------------------

    def action_choose(self) -> None:
        if (row := self.current_row()) is not None:
            self.post_message(self.Chosen(row))

    def action_pin(self) -> None:
        if (row := self.current_row()) is not None:
            self.post_message(self.Pinned(row))

    def action_open(self) -> bool:
        """Expand the row, or move to its first child if it is expanded. Return whether it has children."""
        row = self.current_row()
        if row is None:
            return False
        if row.key in self._opened:
            self.go_to(self.cursor + 1)
        elif row.has_more:
            if len(self._opened) == MAX_OPENED:
                del self._opened[next(iter(self._opened))]
            self._opened[row.key] = None
            self.post_message(self.OpenedChanged(self.opened))
        return row.has_more or row.key in self._opened

    def action_close(self) -> None:
        """Collapse the row, or move to its parent if it is collapsed."""
        row = self.current_row()
        if row is None:
            return
        if row.key in self._opened:
            del self._opened[row.key]
            self.post_message(self.OpenedChanged(self.opened))
        elif row.depth:
            rows = self._table.rows
            self.go_to(next(place for place in range(self.cursor - 1, -1, -1) if rows[place].depth < row.depth))

    def action_open_or_close(self) -> bool:
        """Expand a collapsed row, or collapse an expanded one. Return whether it has children."""
        row = self.current_row()
        if row is None or row.key not in self._opened:
            return self.action_open()
        self.action_close()
        return True

    def action_sort_by(self, step: int) -> None:
        names = [column.name for column in self.columns]
        if not names:
            return
        sorted_by = self._sort.column if self._sort is not None else ""
        place = names.index(sorted_by) + step if sorted_by in names else 0
        self._ask_to_sort(place % len(names))

    def action_reverse(self) -> None:
        if self._sort is not None:
            self.post_message(self.SortRequested(Sort(self._sort.column, not self._sort.descending)))

    def action_shift(self, step: int) -> None:
        shift = self._shift + step
        if shift >= 0 and (step < 0 or self._without_room):
            self._shift = shift
            self._lay_out()

    def line_clicked(self, place: int, x: int) -> None:
        super().line_clicked(place, x)
        at = MARGIN + INDENT * self._table.rows[place].depth
        if self._is_tree and at <= x < at + len(LEAF):
            self.action_open_or_close()

    # -- lines ---------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        super().on_resize()
        self._lay_out()

    def _lay_out(self) -> None:
        columns, widths = self.columns, self._widths
        if not self._table.rows:
            widths = list(map(self._width_of_heading, columns))
        there = [index for index, width in enumerate(widths) if width]
        self._there = len(there)
        del there[1 : 1 + self._shift]
        slots = lay_out([columns[i] for i in there], [widths[i] for i in there], self.width - MARGIN, MARGIN)
        self._slots = tuple(slot._replace(column=there[slot.column]) for slot in slots)
        self._texts = self._with_more_columns()
        self.heading_lines = len(self._texts) + 1
        self.set_line_count(len(self._table.rows))
        self.forget_lines()

    @property
    def _without_room(self) -> int:
        return self._there - self._shift - len(self._slots)

    def _with_more_columns(self) -> list[str]:
        """Return the lines above the table, including the number of hidden columns and the keys that show them."""
        keys = ((self._shift, "["), (self._without_room, "]"))
        more = ", ".join(f"{count} with {key}" for count, key in keys if count > 0)
        texts = list(self._table.text[: 1 if is_low(self) else None])
        if not (more and self._table.rows):
            return texts
        more, room = f"more columns: {more}", self.width - 2 * MARGIN
        for place, text in enumerate(texts):
            if width_of(text) + GAP + len(more) <= room or is_low(self):
                texts[place] = fitted(text, room - len(more)) + more
                return texts
        return [*texts, f"{more:>{max(0, room)}}"]

    def draw_heading(self, line: int, width: int) -> Strip:
        if line < len(self._texts):
            text = fitted(self._texts[line], max(0, width - 2 * MARGIN))
            return line_of([Cell(MARGIN, MARGIN + width_of(text), text, self.palette.style("muted"))], self.base, width)
        style = self.palette.style("heading", "headings")
        return heading_line(self.columns, self._slots, self._sort, style, width)

    def draw(self, place: int, ground: str, width: int) -> Strip:
        row = self._table.rows[place]
        style = self.palette.style
        cells: list[Cell] = []
        for number, slot in enumerate(self._slots):
            column = self.columns[slot.column]
            front, text = self._front(row, slot.column), _cell(row, slot.column)
            if not (front or text) or (cells and slot.start < cells[-1].stop):
                continue
            room = slot.width - len(front)
            if width_of(text) > room:
                room = self._room(row, number) - len(front)
            if column.is_plot:
                text = scaled_plot(text.ljust(self._widths[slot.column]), max(1, room))
            text = front + fitted(text, max(0, room), column.is_number)
            look = (row.looks[slot.column] if row.looks else "") or row.style or column.style
            cells.append(Cell(slot.start, slot.start + width_of(text), text, style(look, ground)))
        return line_of(cells, style(row.style, ground), width)

    def _room(self, row: TableRow, number: int) -> int:
        """Return how many cells a text may use: the width of its column, and of the empty cells to its right."""
        slot = self._slots[number]
        stop = slot.stop
        for following in self._slots[number + 1 :]:
            if _cell(row, following.column):
                return max(slot.width, following.start - GAP - slot.start)
            stop = following.stop
        return stop - slot.start


def _cell(row: TableRow, column: int) -> str:
    return row.cells[column] if column < len(row.cells) else ""
