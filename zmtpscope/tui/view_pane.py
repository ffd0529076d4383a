"""A view with a table of counts, which is updated while it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from zmtpscope.tui.choices import MESSAGES, next_time
from zmtpscope.tui.client import Client, RequestFailed, WorkerGone
from zmtpscope.tui.commands import CommandError, row_place, time_format
from zmtpscope.tui.pane import Pane, save
from zmtpscope.tui.requests import (
    Completion,
    FilterProblem,
    RowJson,
    SaveTable,
    Sort,
    Table,
    TableOf,
    TableRow,
    ViewTitle,
)
from zmtpscope.tui.widgets.filter_bar import FilterBar
from zmtpscope.tui.widgets.filter_hints import NOTHING
from zmtpscope.tui.widgets.table_view import TableView

LOOK_SECONDS = 0.5
"""Seconds between two updates."""
FIRST_LOOK_SECONDS = 0.05

FORMS = {"line": "the row", "json": "JSON", "filter": "the filter of its records"}
"""Formats in which a row can be copied."""
MAX_NAMES = 3
"""Maximum cells that name a row."""

SHORT, BETWEEN = 40, "   "
"""Maximum cells of texts that share a line, and their separator."""


class CutCells(Static):
    """Lines below a table with the texts of the selected row that are cut off or hidden in the table."""

    DEFAULT_CSS = """
    CutCells { height: auto; max-height: 50%; padding: 0 1; border-top: solid $foreground 20%; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self.display = False

    def show(self, cells: Sequence[tuple[str, str]]) -> None:
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


class ViewPane(Pane):
    """A view of the worker as a table. Its filter keeps the rows that contain a text."""

    DEFAULT_CSS = """
    ViewPane TableView { height: 1fr; }
    ViewPane FilterBar { display: none; }
    """

    class Chosen(Message):
        """Request to show the records that a row counts."""

        def __init__(self, view: ViewTitle, row: TableRow) -> None:
            super().__init__()
            self.view = view
            self.row = row

    def __init__(self, client: Client, view: ViewTitle) -> None:
        super().__init__(client, view.name)
        self.title = view.title
        self._view = view
        self._request = TableOf(view.name)
        self._pinned: TableRow | None = None
        """Row whose records alone are shown."""
        self._timer: Timer | None = None
        self._bar = FilterBar(_any_text, _no_completion)
        self._table = TableView()
        self._cut = CutCells()

    def compose(self) -> ComposeResult:
        yield self._bar
        yield self._table
        yield self._cut

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

    @work(exclusive=True, group="table")
    async def _look(self) -> None:
        try:
            table = await self.client.ask(self._request)
        except (RequestFailed, WorkerGone):
            return
        self._show(table)
        self._wait(FIRST_LOOK_SECONDS if table.looked_at < table.total else LOOK_SECONDS)

    def _change(self, **changes: Any) -> None:
        self._ask(replace(self._request, wanted=replace(self._request.wanted, **changes)))

    def _ask(self, request: TableOf) -> None:
        self._request = request
        self._look()

    def _show(self, table: Table) -> None:
        table = without_hasty_words(table)
        if self._pinned is not None:
            pinned = f"only {self._pinned.cells[0]}; p shows everything again"
            table = replace(table, text=(pinned, *table.text))
        self._table.set_empty_text("no row contains the text: esc shows all" if self._request.wanted.containing else "")
        self._table.show(table, self._request.wanted.sort)
        self._bar.show_state(f"{len(table.rows):,}")
        self._cut.show(self._table.cut_cells())

    def on_table_view_selected(self) -> None:
        self._cut.show(self._table.cut_cells())

    def on_resize(self) -> None:
        self.call_after_refresh(lambda: self._cut.show(self._table.cut_cells()))

    def on_column_view_sort_requested(self, event: TableView.SortRequested) -> None:
        self._change(sort=event.sort)

    def on_table_view_opened_changed(self, event: TableView.OpenedChanged) -> None:
        self._change(opened=frozenset(event.opened))

    def on_table_view_pinned(self, event: TableView.Pinned) -> None:
        """Limit all counts to the records of a row, or remove the limit."""
        if self._pinned is not None:
            self._pin(None)
        elif event.row.scope:
            self._pin(event.row)
        else:
            self.notify("this row has no records of its own to count", severity="warning")

    def _pin(self, row: TableRow | None) -> None:
        self._pinned = row
        self._ask(replace(self._request, filter="" if row is None else row.scope))

    def on_table_view_chosen(self, event: TableView.Chosen) -> None:
        """Go to the records of a row. If it has none, expand or collapse it."""
        row = event.row
        if row.record is not None or row.time is not None or row.filter:
            self.post_message(self.Chosen(self._view, row))
        elif not self._table.action_open_or_close():
            self.notify("this row counts no records", severity="warning")

    def has_command(self, name: str) -> bool:
        return super().has_command(name) and (name != "time" or self._view.has_times)

    # -- commands ------------------------------------------------------------------------------------------------------

    async def do_filter(self, argument: str) -> None:
        """Show only rows that contain a text, or focus the filter bar."""
        self._bar.display = True
        if argument:
            self._contain(argument)
        else:
            self._bar.type_in()

    def on_filter_bar_submitted(self, event: FilterBar.Submitted) -> None:
        self._contain(event.text)

    def on_filter_bar_left(self) -> None:
        self._contain(self._request.wanted.containing)

    def _contain(self, text: str) -> None:
        self._bar.set_text(text)
        self._bar.display = bool(text)
        self._table.focus()
        self._change(containing=text)

    async def do_clear(self, argument: str) -> None:
        """Show all rows again; if all are shown, remove the limit to the records of a row."""
        if self._request.wanted.containing:
            self._contain("")
        elif self._pinned is not None:
            self._pin(None)

    async def do_go(self, argument: str) -> None:
        self._table.go_to(row_place(argument, self._table.count))

    async def do_sort(self, argument: str) -> None:
        """Sort by a column, which the user chooses from a menu if there is no argument. `-size` puts the
        largest first."""
        columns = {column.name: column for column in self._table.columns}
        chosen = argument or await self.choose(
            "Sort by (r reverses, z restores the order)", [(name, each.heading) for name, each in columns.items()]
        )
        name = chosen.lstrip("-")
        if name in columns:
            is_descending = chosen.startswith("-") if argument else columns[name].is_number
            self._change(sort=Sort(name, is_descending))
        elif chosen:
            raise CommandError(f"there is no column {name}: {', '.join(columns)}")

    async def do_unsort(self, argument: str) -> None:
        """Show the rows in the order of the view again."""
        self._change(sort=None)

    async def do_time(self, argument: str) -> None:
        """Set the format of times, or switch to the next one."""
        self._change(time=time_format(argument) or next_time(self._request.wanted.time, has_neighbours=False))

    async def do_follow(self, argument: str) -> None:
        row = self._row()
        if row.record is not None:
            await self.follow_record(row.record, argument)
        elif row.filter:
            records = MESSAGES if MESSAGES[0] in self._view.records else self._view.records
            self.post_message(self.FollowRequested(f"{self.title}: {_name_of(row)}", row.filter, records))
        else:
            raise CommandError("this row counts no records to follow")

    async def do_copy(self, argument: str) -> None:
        row = self._row()
        forms = {name: title for name, title in FORMS.items() if name != "filter" or row.filter}
        form = argument or await self.choose("Copy", list(forms.items()))
        if form and form not in forms:
            raise CommandError(f"there is no {form} to copy: {', '.join(forms)}")
        if form == "json":
            self.app.copy_to_clipboard(await self.client.ask(RowJson(self._request, row.key)))
        elif form:
            self.app.copy_to_clipboard(row.filter if form == "filter" else "\t".join(filter(None, row.cells)))
        if form:
            self.notify(f"copied: {FORMS[form]}")

    async def do_export(self, argument: str) -> None:
        await save(self.app, self.client, SaveTable(argument, self._request))

    def _row(self) -> TableRow:
        row = self._table.current_row()
        if row is None:
            raise CommandError("there is no row here")
        return row


def _name_of(row: TableRow) -> str:
    """Return the texts in the first cells of a row, as its name."""
    return " ".join([cell for cell in row.cells if cell][:MAX_NAMES])


async def _any_text(text: str) -> FilterProblem | None:
    return None


async def _no_completion(text: str, place: int) -> Completion:
    return NOTHING


def without_hasty_words(table: Table) -> Table:
    """Replace the texts of an unfinished table by its progress, since a text such as "none" may still change."""
    if table.looked_at >= table.total:
        return table
    progress = f"counting, {100 * table.looked_at // table.total} %"
    return replace(table, text=(progress, *(table.text if table.rows else ())))
