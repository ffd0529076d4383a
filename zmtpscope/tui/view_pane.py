"""The table of a view, updated with the capture while it is shown."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from zmtpscope.tui.client import Client, RequestFailed, WorkerGone
from zmtpscope.tui.requests import Sort, Table, TableOf, TableRow
from zmtpscope.tui.widgets.table_view import TableView

LOOK_SECONDS = 0.5
"""Interval between two updates, in seconds."""
FIRST_LOOK_SECONDS = 0.05

SHORT, BETWEEN = 40, "   "
"""Maximum cells of texts that share a line, and their separator."""


class CutCells(Static):
    """Shows the texts of the selected row that are cut in the table."""

    DEFAULT_CSS = """
    CutCells { height: auto; max-height: 50%; padding: 0 1; border-top: solid $foreground 20%; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def show(self, cells: Sequence[tuple[str, str]]) -> None:
        """Show headings and texts."""
        lines: list[Text] = []
        was_short = False
        for heading, text in cells:
            line = Text.assemble((heading.lower(), "bold"), "  ", text)
            is_short = line.cell_len <= SHORT
            if is_short and was_short and lines[-1].cell_len + len(BETWEEN) + line.cell_len <= self.app.size.width - 2:
                lines[-1] = Text.assemble(lines[-1], BETWEEN, line)
            else:
                lines.append(line)
            was_short = is_short
        self.update(Text("\n").join(lines))
        self.display = bool(cells)


class ViewPane(Vertical):
    DEFAULT_CSS = """
    ViewPane TableView { height: 1fr; }
    """

    class Chosen(Message):
        """Request to go to the records counted in this row."""

        def __init__(self, view: str, row: TableRow) -> None:
            super().__init__()
            self.view = view
            self.row = row

    def __init__(self, client: Client, view: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._client = client
        self._view = view
        self._sort: Sort | None = None
        self._opened: tuple[str, ...] = ()
        self._pinned: TableRow | None = None
        """Show only the records of this row."""
        self._timer: Timer | None = None
        self._table = TableView()
        self._cut = CutCells()

    def compose(self) -> ComposeResult:
        yield self._table
        yield self._cut

    async def on_mount(self) -> None:
        await self._look()

    def take_focus(self) -> None:
        self._table.focus()

    def on_show(self) -> None:
        self._wait(FIRST_LOOK_SECONDS)

    def on_hide(self) -> None:
        if self._timer is not None:
            self._timer.stop()

    def _wait(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(seconds, self._look)

    async def _look(self) -> None:
        filter = self._pinned.scope if self._pinned is not None else ""
        try:
            table = await self._client.ask(TableOf(self._view, filter, self._sort, self._opened))
        except (RequestFailed, WorkerGone):
            return
        self._show(table)
        self._wait(FIRST_LOOK_SECONDS if table.looked_at < table.total else LOOK_SECONDS)

    def _show(self, table: Table) -> None:
        table = without_hasty_words(table)
        if self._pinned is not None:
            pinned = f"only {self._pinned.cells[0]}; p shows everything again"
            table = replace(table, text=(pinned, *table.text))
        self._table.show(table, self._sort)
        self._cut.show(self._table.cut_cells())

    def on_table_view_selected(self) -> None:
        self._cut.show(self._table.cut_cells())

    def on_resize(self) -> None:
        """Update the cut texts."""
        self.call_after_refresh(lambda: self._cut.show(self._table.cut_cells()))

    async def on_table_view_sort_asked(self, event: TableView.SortAsked) -> None:
        self._sort = event.sort
        await self._look()

    async def on_table_view_opened_changed(self, event: TableView.OpenedChanged) -> None:
        self._opened = event.opened
        await self._look()

    async def on_table_view_pinned(self, event: TableView.Pinned) -> None:
        """Show only the records of a row, or all again."""
        self._pinned = event.row if self._pinned is None and event.row.scope else None
        await self._look()

    def on_table_view_chosen(self, event: TableView.Chosen) -> None:
        self.post_message(self.Chosen(self._view, event.row))


def without_hasty_words(table: Table) -> Table:
    """Replace the texts of an unfinished table by its progress: "none" may not be true yet."""
    if table.looked_at >= table.total:
        return table
    said = f"counting, {100 * table.looked_at // table.total} %"
    return replace(table, text=(said, *(table.text if table.rows else ())))
