"""The messages of one connection, peer or topic, as a conversation of two sides."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.client import Client
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.requests import CloseList, ListSpec

FOLLOWED = "followed"
CONVERSATION = ("time", "after", "from", "left", "right")
OCTETS = {"left": "left_hex", "right": "right_hex"}
"""Columns of contents, and the columns of the same contents in hex."""


class Followed(NamedTuple):
    """A followed conversation: its heading, filter and list."""

    title: str
    scope: str
    spec: ListSpec
    selected: int | None


class FollowPane(RecordsPane):
    """The records of a conversation under a heading, with a column for each side. While hidden, its list is closed."""

    DEFAULT_CSS = """
    FollowPane #title { height: 1; background: $panel; padding: 0 1; }
    """
    title = "Follow"

    class Closed(Message):
        """Request to go back to the previous view."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, FOLLOWED, ListSpec())
        self._heading = Static(id="title", markup=False)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield from super().compose()

    def on_mount(self) -> None:
        """Open no list when the pane is created; `restore` opens one when the pane is shown."""

    @property
    def snapshot(self) -> Followed:
        return Followed(self.title, self.scope, self.spec, self.shown)

    async def restore(self, snapshot: Followed) -> None:
        self.title, self.scope = snapshot.title, snapshot.scope
        self._heading.update(Text(f"{snapshot.title}; b goes back", no_wrap=True, overflow="ellipsis"), layout=False)
        self.shown = None
        await self.open(snapshot.spec)
        if snapshot.selected is not None:
            await self.go_to_record(snapshot.selected)

    async def open(self, spec: ListSpec) -> None:
        """Show a list. The pane of octets is shown only for messages in hex, to leave space for members of payloads."""
        self.details.panes.display = not OCTETS.keys() & set(spec.columns)
        await super().open(spec)

    async def do_clear(self, argument: str) -> None:
        """Clear the filter as in every list; without a filter, go back to the previous view."""
        if self.rows.has_focus and not self.spec.filter and self.spec.only is None:
            self.post_message(self.Closed())
        else:
            await super().do_clear(argument)

    async def follow(self, title: str, filter: str, spec: ListSpec, number: int | None) -> None:
        """Show the records that match `filter`, from record `number` on if given."""
        await self.restore(Followed(title, filter, replace(spec, columns=CONVERSATION, sort=None), None))
        if number is not None:
            await self.select_nearest(number)

    async def do_hex(self, argument: str) -> None:
        """Show messages in hex, or as text again."""
        other = OCTETS if OCTETS.keys() & set(self.spec.columns) else {octets: text for text, octets in OCTETS.items()}
        await self.open(replace(self.spec, columns=tuple(other.get(name, name) for name in self.spec.columns)))

    def left_for_another(self) -> None:
        self.perform(self.client.ask(CloseList(FOLLOWED)))
