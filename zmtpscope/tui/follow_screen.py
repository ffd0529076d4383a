"""A screen that follows one connection, peer or topic."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer, Static

from zmtpscope.tui.client import Client
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.requests import CloseList, ListSpec

FOLLOWED_LIST = "followed"


class FollowScreen(Screen[None]):
    """The records that match `filter`, under the heading `title`. Escape returns."""

    DEFAULT_CSS = """
    FollowScreen #title { height: 1; background: $panel; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,b,backspace,alt+left", "leave", "Back")]

    def __init__(self, client: Client, title: str, filter: str, spec: ListSpec) -> None:
        super().__init__()
        self._client = client
        self._title = title
        self.pane = RecordsPane(client, FOLLOWED_LIST, replace(spec, filter="", only=None), scope=filter)

    def compose(self) -> ComposeResult:
        yield Static(Text(self._title, no_wrap=True, overflow="ellipsis"), id="title", markup=False)
        yield self.pane
        yield Footer()

    def on_mount(self) -> None:
        self.pane.take_focus()

    async def action_leave(self) -> None:
        """Close the list and return to the previous screen."""
        await self._client.ask(CloseList(FOLLOWED_LIST))
        self.dismiss()
