"""The messages of one connection, peer or topic."""

from __future__ import annotations

from typing import NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.client import Client
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.requests import CloseList, ListSpec

FOLLOWED = "followed"


class Followed(NamedTuple):
    """What is followed, and what is shown of it."""

    title: str
    scope: str
    spec: ListSpec
    selected: int | None


class FollowPane(RecordsPane):
    """The records that match a filter, under a heading. The list is closed while it is hidden."""

    DEFAULT_CSS = """
    FollowPane #title { height: 1; background: $panel; padding: 0 1; }
    """
    title = "Follow"

    class Closed(Message):
        """Request to go back to the previous place."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, FOLLOWED, ListSpec())
        self._heading = Static(id="title", markup=False)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield from super().compose()

    def on_mount(self) -> None:
        """Open nothing: `restore` does."""

    @property
    def snapshot(self) -> Followed:
        return Followed(self.title, self.scope, self.spec, self.shown)

    async def restore(self, snapshot: Followed) -> None:
        self.title, self.scope = snapshot.title, snapshot.scope
        self._heading.update(Text(f"{snapshot.title}; b goes back", no_wrap=True, overflow="ellipsis"))
        self.shown = None
        await self.open(snapshot.spec)
        if snapshot.selected is not None:
            await self.go_to_record(snapshot.selected)

    async def do_clear(self, argument: str) -> None:
        """As in every list; without a filter, go back."""
        if self.rows.has_focus and not self.spec.filter and self.spec.only is None:
            self.post_message(self.Closed())
        else:
            await super().do_clear(argument)

    async def follow(self, title: str, filter: str, spec: ListSpec) -> None:
        """Show the records that match `filter`."""
        await self.restore(Followed(title, filter, spec, None))

    def left_for_another(self) -> None:
        self.perform(self.client.ask(CloseList(FOLLOWED)))
