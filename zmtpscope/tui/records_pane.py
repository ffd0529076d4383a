"""The view of records: a list with a filter bar, fields and octets."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.timer import Timer

from zmtpscope.tui.choices import COLUMN_TITLES, COPY_FORMS, EVERYTHING, MESSAGES, next_time
from zmtpscope.tui.client import Client, RequestFailed, WorkerGone
from zmtpscope.tui.commands import CommandError, row_place, time_format
from zmtpscope.tui.menu import SetMenu
from zmtpscope.tui.pane import Pane, save
from zmtpscope.tui.profiles import Profile
from zmtpscope.tui.requests import (
    Apart,
    Cancel,
    CellFilter,
    CheckFilter,
    CompleteFilter,
    Completion,
    CopyTextOf,
    DetailsOf,
    FilterProblem,
    Find,
    ListSpec,
    ListState,
    Marks,
    OpenList,
    Page,
    PlaceAt,
    PlaceOf,
    Rows,
    SaveRows,
    Sort,
)
from zmtpscope.tui.title_bar import counted
from zmtpscope.tui.widgets.details_pane import DetailsPane
from zmtpscope.tui.widgets.field_tree import FieldTree
from zmtpscope.tui.widgets.filter_bar import FilterBar, state_text
from zmtpscope.tui.widgets.row_list import RowList
from zmtpscope.tui.widgets.styles import is_style

SETTLED = 0.05
"""Seconds between the last key and the request for details."""
SHARE, SHARE_STEP, MIN_SHARE = 60, 10, 10
"""Height of the list in percent; its change by a key; the minimum of list and fields."""


class RecordsPane(Pane):
    """A view of the list `list_name` of the worker. Only records that match the filter `scope` are in it."""

    DEFAULT_CSS = """
    RecordsPane RowList { height: 60fr; }
    RecordsPane DetailsPane { height: 40fr; border-top: solid $foreground 20%; }
    """

    title = "Messages"

    class RecordRequested(Message):
        """Request to show a record that this list does not contain."""

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

    class FilterApplied(Message):
        """Message after the user applied a valid filter."""

        def __init__(self, filter: str) -> None:
            super().__init__()
            self.filter = filter

    def __init__(self, client: Client, name: str, spec: ListSpec) -> None:
        super().__init__(client, name)
        self.list_name = name
        self.scope = ""
        """Filter that always applies, besides the user's."""
        self.spec = spec
        """The shown list; `open` changes it."""
        self.state: ListState | None = None
        self.marks: set[int] = set()
        """Numbers of marked records, shown or not."""
        self.shown: int | None = None
        """Number of the record whose details are shown or requested."""
        self._settling: Timer | None = None
        self._sought = ""
        self._is_searching = False
        self._share = SHARE
        self._nothing = ""
        self.filter_bar = FilterBar(self._check, self._complete)
        self.rows = RowList(self._fetch)
        self.details = DetailsPane()

    def compose(self) -> ComposeResult:
        yield self.filter_bar
        yield self.rows
        yield self.details

    def on_mount(self) -> None:
        self.filter_bar.set_text(self.spec.filter)
        self.perform(self.open(self.spec))

    @property
    def snapshot(self) -> Any:
        return self.spec, self.shown

    async def restore(self, snapshot: Any) -> None:
        spec, selected = snapshot
        if spec != self.spec:
            await self.open(spec)
        if selected is not None:
            await self.go_to_record(selected)

    def take_focus(self) -> None:
        self.rows.focus()

    # -- the list ------------------------------------------------------------------------------------------------------

    async def open(self, spec: ListSpec) -> None:
        """Show another list, or this one with other settings, and select the same record, or the nearest one.

        Raises `RequestFailed` for an invalid filter; the list then stays.
        """
        row = self.rows.current_row()
        state = await self.client.ask(OpenList(self.list_name, self._scoped(spec)))
        self.spec = spec
        self.filter_bar.set_text(spec.filter)
        self.show_state(state)
        if row is not None:
            await self.select_nearest(row.number)

    def _scoped(self, spec: ListSpec) -> ListSpec:
        if not self.scope:
            return spec
        return replace(spec, filter=f"({self.scope}) && ({spec.filter})" if spec.filter else self.scope)

    def show_state(self, state: ListState) -> None:
        """Show a new state of the list: number of rows and progress.

        A notice that was sent after the reply to `OpenList` may arrive before it, so an older state is ignored.
        """
        if self.state is not None and _age(state) < _age(self.state):
            return
        before, self.state = self.state, state
        is_new = before is None or state.generation > before.generation
        if is_new:
            self.rows.reset()
            self.rows.set_columns(state.columns, self.spec.sort)
        self._show_why_empty()
        self.rows.set_count(state.found)
        self.filter_bar.show_state(state_text(state, self.spec.filter))
        if not is_new and before is not None and before.order < state.order:
            self._show_other_order(state.kept)

    def show_nothing(self, nothing: str) -> None:
        """If the list is empty, show the text `nothing`: why the capture has no ZMTP, or none yet."""
        if nothing != self._nothing:
            self._nothing = nothing
            self._show_why_empty()

    def _show_why_empty(self) -> None:
        self.rows.set_empty_text(_why_empty(self.spec, self.state, self._nothing) if self.state else self._nothing)

    def _show_other_order(self, kept: int) -> None:
        """Load the rows after the first `kept` again, because their order changed. The selected record stays selected,
        unless it is the first or last."""
        row = self.rows.current_row()
        self.rows.ask_again(kept)
        if row is not None and self.rows.cursor >= max(1, kept) and not self.rows.following:
            self.run_worker(self.select_nearest(row.number), group="order", exclusive=True)

    async def go_to_record(self, number: int) -> None:
        """Select a record; show all records if the list does not contain it."""
        if not await self.select_nearest(number):
            await self.open(replace(self.spec, records=EVERYTHING, filter="", only=None))
            await self.select_nearest(number)

    async def go_to_time(self, time: int) -> None:
        """Select the record nearest to a time (ns)."""
        found = await self.client.ask(PlaceAt(self.list_name, time))
        if found is not None:
            self.rows.go_to(found.place)

    async def select_nearest(self, number: int) -> bool:
        """Select a record, or the nearest one if the list does not contain it. Return whether it does."""
        found = await self.client.ask(PlaceOf(self.list_name, number))
        if found is not None:
            self.rows.go_to(found.place)
        return found is not None and found.is_exact

    def forget_numbers(self) -> None:
        """Drop marks and selection, since records get other numbers."""
        self.set_marks(set())
        self.spec = replace(self.spec, reference=None)
        self.shown = None

    async def take_look(self, profile: Profile) -> None:
        await self.open(replace(self.spec, columns=profile.columns, time=profile.time, rules=profile.rules))

    async def _fetch(self, low: int, high: int) -> Page:
        try:
            return await self.client.ask(Rows(self.list_name, low, high))
        except (RequestFailed, WorkerGone):
            return Page(low, ())

    async def _check(self, text: str) -> FilterProblem | None:
        return await self.client.ask(CheckFilter(text))

    async def _complete(self, text: str, place: int) -> Completion:
        return await self.client.ask(CompleteFilter(text, place))

    # -- details -------------------------------------------------------------------------------------------------------

    def on_row_list_selected(self, event: RowList.Selected) -> None:
        """Load the details of the selected record, once the user has stopped moving."""
        self.shown = event.number
        if self._settling is not None:
            self._settling.stop()
        self._settling = self.set_timer(SETTLED, self._show_details)

    @work(exclusive=True, group="details")
    async def _show_details(self) -> None:
        number = self.shown
        if number is None:
            return
        try:
            details = await self.client.ask(DetailsOf(number))
        except (RequestFailed, WorkerGone):
            return
        if number == self.shown:
            self.details.show(details)

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        self.details.fields.focus()

    def on_field_tree_followed(self, event: FieldTree.Followed) -> None:
        self.leave()
        self.perform(self._follow_link(event.record))

    async def _follow_link(self, number: int) -> None:
        found = await self.client.ask(PlaceOf(self.list_name, number))
        if found is not None and found.is_exact:
            self.rows.go_to(found.place)
        else:
            self.post_message(self.RecordRequested(number))

    # -- commands: filter ----------------------------------------------------------------------------------------------

    async def do_filter(self, argument: str) -> None:
        """Apply a filter, or focus the filter bar."""
        if argument:
            await self._ask(argument)
        else:
            self.filter_bar.type_in()

    def on_filter_bar_submitted(self, event: FilterBar.Submitted) -> None:
        self.rows.focus()
        self.perform(self._ask(event.text))  # the bar has checked it

    def on_filter_bar_left(self) -> None:
        self.rows.focus()

    async def _ask(self, filter: str) -> None:
        self.leave()
        await self.open(replace(self.spec, filter=filter.strip(), only=None))
        if filter.strip():
            self.post_message(self.FilterApplied(filter.strip()))

    async def do_clear(self, argument: str) -> None:
        """Cancel a search; otherwise focus the list; if it has the focus, clear the filter."""
        if self._is_searching:
            await self.client.ask(Cancel())
        elif not self.rows.has_focus:
            self.rows.focus()
        elif self.spec.filter or self.spec.only is not None:
            self.leave()
            await self.open(replace(self.spec, filter="", only=None))

    async def do_only(self, argument: str) -> None:
        """Show only records with the value under the cursor."""
        await self._ask(_joined(self.spec.filter, await self._filter_here()))

    async def do_without(self, argument: str) -> None:
        """Hide records with the value under the cursor."""
        await self._ask(_joined(self.spec.filter, f"!({await self._filter_here()})"))

    async def _filter_here(self) -> str:
        if self.details.fields.has_focus:
            node = self.details.selected_node
            if node is None or not node.filter:
                raise CommandError("there is no filter for this field")
            return node.filter
        cell = self.rows.current_cell()
        if cell is None:
            raise CommandError("there is no value here")
        return await self.client.ask(CellFilter(cell.number, cell.column))

    async def do_marked(self, argument: str) -> None:
        """Show only marked records, or all records again."""
        if self.spec.only is None and not self.marks:
            raise CommandError("no record is marked: m marks one")
        await self.open(replace(self.spec, only=tuple(sorted(self.marks)) if self.spec.only is None else None))

    async def do_show(self, argument: str) -> None:
        """Show these record types. Without an argument, switch between messages and all records."""
        kinds = tuple(argument.replace(",", " ").split())
        await self.open(
            replace(self.spec, records=kinds or (EVERYTHING if self.spec.records == MESSAGES else MESSAGES))
        )

    # -- commands: places ----------------------------------------------------------------------------------------------

    async def do_go(self, argument: str) -> None:
        self.rows.go_to(row_place(argument, self.rows.count))

    async def do_find(self, argument: str) -> None:
        """Select the next row after the cursor that contains a text, regular expression or octets."""
        self._sought = argument
        await self._find(forward=True)

    async def do_next(self, argument: str) -> None:
        await self._find(forward=True)

    async def do_previous(self, argument: str) -> None:
        await self._find(forward=False)

    async def _find(self, *, forward: bool) -> None:
        if not self._sought:
            raise CommandError("nothing was sought yet: F finds")
        self._is_searching = True
        try:
            place = await self.client.ask(Find(self.list_name, self._sought, self.rows.cursor, forward))
        finally:
            self._is_searching = False
        if place is None:
            nearer, other = ("later", "N looks back") if forward else ("earlier", "n looks on")
            raise CommandError(f'no {nearer} row has "{self._sought}": {other}')
        self.leave()
        self.rows.go_to(place)

    async def do_follow(self, argument: str) -> None:
        row = self.rows.current_row()
        if row is None:
            raise CommandError("there is nothing to follow")
        await self.follow_record(row.number, argument)

    async def do_end(self, argument: str) -> None:
        """Turn on or off that the cursor stays at the end of a growing list."""
        self.rows.follow(not self.rows.following)

    # -- commands: columns and marks -----------------------------------------------------------------------------------

    async def do_time(self, argument: str) -> None:
        """Set the time format, or switch to the next one."""
        time = time_format(argument) or next_time(self.spec.time, has_neighbours=True)
        await self.open(replace(self.spec, time=time))

    async def do_sort(self, argument: str) -> None:
        """Sort by a column, or by the column under the cursor. `-size` puts the largest first."""
        if argument:
            await self._sort(Sort(argument.lstrip("-"), argument.startswith("-")))
        else:
            self.rows.sort_by_cursor()

    def on_column_view_sort_requested(self, event: RowList.SortRequested) -> None:
        self.perform(self._sort(event.sort))

    async def _sort(self, sort: Sort) -> None:
        await self.open(replace(self.spec, sort=sort))
        self.rows.go_to(0)

    async def do_unsort(self, argument: str) -> None:
        await self.open(replace(self.spec, sort=None))

    async def do_columns(self, argument: str) -> None:
        """Set the columns and their order; without an argument, the user chooses them in a menu."""
        shown = [column.name for column in self.state.columns] if self.state is not None else []
        titles = {name: COLUMN_TITLES.get(name, name) for name in [*shown, *COLUMN_TITLES]}
        names = tuple(argument.replace(",", " ").split())
        if not names:
            names = tuple((await self.app.push_screen_wait(SetMenu("Columns", titles, shown))).split()) or tuple(shown)
        await self.open(replace(self.spec, columns=() if names == ("default",) else names))

    async def do_mark(self, argument: str) -> None:
        """Mark or unmark the current record, and go to the next. If two records are marked, show the time
        between them."""
        row = self.rows.current_row()
        if row is None:
            return
        self.set_marks(self.marks ^ {row.number})
        self.rows.go_to(self.rows.cursor + 1)
        if len(self.marks) == 2:
            first, second = self.marks
            apart = await self.client.ask(Apart(first, second))
            self.notify(f"{apart} between the two marked rows")
        await self.client.ask(Marks(tuple(self.marks)))

    async def load_marks(self) -> None:
        """Mark the records that were marked when this capture was open the last time."""
        marked = await self.client.ask(Marks())
        self.set_marks(self.marks.union(marked))

    def set_marks(self, marks: set[int]) -> None:
        self.marks = marks
        self.rows.set_marked(frozenset(marks))

    async def do_reference(self, argument: str) -> None:
        """Show times since the current row; if this row is the reference already, since the first packet again."""
        row = self.rows.current_row()
        if row is not None:
            reference = None if row.number == self.spec.reference else row.number
            await self.open(replace(self.spec, time="r", reference=reference))

    # -- commands: room ------------------------------------------------------------------------------------------------

    async def do_larger(self, argument: str) -> None:
        self._set_share(self._share + SHARE_STEP)

    async def do_smaller(self, argument: str) -> None:
        self._set_share(self._share - SHARE_STEP)

    def on_details_pane_dragged(self, event: DetailsPane.Dragged) -> None:
        top, bottom = self.rows.region.y, self.details.region.bottom
        self._set_share(round(100 * (event.y - top) / max(1, bottom - top)))

    def _set_share(self, share: int) -> None:
        self._share = min(max(share, MIN_SHARE), 100 - MIN_SHARE)
        self.rows.styles.height, self.details.styles.height = f"{self._share}fr", f"{100 - self._share}fr"

    # -- commands: copy and export -------------------------------------------------------------------------------------

    async def do_copy(self, argument: str) -> None:
        """Copy the current record, the value under the cursor, or the filter."""
        row = self.rows.current_row()
        choices = {"value": "what is under the cursor", **COPY_FORMS, "filter": "the filter of the list"}
        form = argument or await self.choose("Copy", list(choices.items()))
        if form and form not in choices:
            raise CommandError(f"there is no {form} to copy: {', '.join(choices)}")
        if form == "filter":
            text = self.spec.filter
        elif form == "value":
            text = self._value_here()
        elif form and row is not None:
            text = await self.client.ask(CopyTextOf(row.number, form))
        else:
            return
        self.app.copy_to_clipboard(text)
        self.notify(f"copied: {choices[form]}")

    def _value_here(self) -> str:
        if self.details.fields.has_focus and (node := self.details.selected_node) is not None:
            return node.value
        cell = self.rows.current_cell()
        return "" if cell is None else cell.text

    async def do_export(self, argument: str) -> None:
        await save(self.app, self.client, SaveRows(argument, self.list_name))

    async def do_colour(self, argument: str) -> None:
        """Add a colour rule: a style, then a filter. `none` removes all rules."""
        style, _, filter = argument.partition(" ")
        if style != "none" and not is_style(style):
            raise CommandError(f"{style} is no style: name a colour such as red or #a0c0ff, or none")
        rules = () if style == "none" and not filter else (*self.spec.rules, (filter, style))
        await self.open(replace(self.spec, rules=rules))


def _age(state: ListState) -> tuple[int, int, int, int]:
    """Return a key to compare states of a list: an older state has a smaller one."""
    return state.generation, state.order, state.looked_at, state.total


def _why_empty(spec: ListSpec, state: ListState, nothing: str) -> str:
    """Return the text for an empty list: why it is empty, and which keys show more."""
    if not state.total:
        return nothing
    if state.found or state.looked_at < state.total:
        return ""
    if spec.records == MESSAGES and not spec.filter:
        return f"{nothing or 'no messages'}; x shows {counted(state.total, 'other record')}"
    more = f"x looks through all {state.total:,} records, " if spec.records == MESSAGES else ""
    named = "message" if spec.records == MESSAGES else "record"
    return f"no {named} passes the filter: {more}esc takes it away" if spec.filter else ""


def _joined(filter: str, more: str) -> str:
    return f"({filter}) && {more}" if filter else more
