"""A list of records, the filter above it, and the fields and octets of the selected one below."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer

from zmtpscope.tui.client import Client, RequestFailed, WorkerGone
from zmtpscope.tui.requests import ListSpec, ListState, OpenList, Page, PlaceOf, Rows
from zmtpscope.tui.widgets.row_list import RowList

SETTLED = 0.05
"""Seconds after the last key until details are asked for."""


class RecordsPane(Vertical):
    """Shows one list of the worker, which is called `list_name`, and of which only what `scope` holds of is part."""

    DEFAULT_CSS = """
    RecordsPane RowList { height: 1fr; }
    """

    class Changed(Message):
        """The list has other rows, or more of them."""

        def __init__(self, state: ListState) -> None:
            super().__init__()
            self.state = state

    def __init__(
        self, client: Client, list_name: str, spec: ListSpec, *, scope: str = "", id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self._client = client
        self._list_name = list_name
        self._scope = scope
        self.spec = spec
        """What is shown; `open` changes it."""
        self.state: ListState | None = None
        self._shown: int | None = None
        """The record whose details are asked for, or shown."""
        self._settling: Timer | None = None
        self.rows = RowList(self._fetch)

    def compose(self) -> ComposeResult:
        yield self.rows

    async def on_mount(self) -> None:
        await self.open(self.spec)

    async def open(self, spec: ListSpec) -> None:
        """Show other rows, or the same in another way; the selected record stays selected, or the one next to it.
        Raises `RequestFailed` where the filter is not understood, and what was shown stays."""
        row = self.rows.current_row()
        scoped = spec if not self._scope else _narrowed(spec, self._scope)
        state = await self._client.ask(OpenList(self._list_name, scoped))
        self.spec = spec
        self.rows.reset()
        self.rows.set_columns(state.columns, spec.sort)
        self.show_state(state)
        if row is not None:
            await self.go_to_record(row.number)

    def show_state(self, state: ListState) -> None:
        """The worker has come further."""
        if self.state is not None and state.generation < self.state.generation:
            return
        self.state = state
        self.rows.set_count(state.found)
        self.post_message(self.Changed(state))

    async def go_to_record(self, number: int) -> None:
        """Select a record, or the one next to it where it is left out."""
        place = await self._client.ask(PlaceOf(self._list_name, number))
        if place is not None:
            self.rows.go_to(place)

    async def _fetch(self, low: int, high: int) -> Page:
        try:
            return await self._client.ask(Rows(self._list_name, low, high))
        except (RequestFailed, WorkerGone):
            return Page(low, ())


def _narrowed(spec: ListSpec, scope: str) -> ListSpec:
    whole = f"({scope}) && ({spec.filter})" if spec.filter else scope
    return ListSpec(spec.records, whole, spec.sort, spec.columns, spec.time, spec.only, spec.rules)
