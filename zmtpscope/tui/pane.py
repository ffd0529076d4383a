"""The base class of all views. The open view receives the keys."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from msgspec.structs import replace
from textual.app import App
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from zmtpscope.tui.choices import MESSAGES
from zmtpscope.tui.client import Client, RequestFailed, WorkerGone
from zmtpscope.tui.commands import CommandError
from zmtpscope.tui.menu import Menu
from zmtpscope.tui.profiles import ProfileError
from zmtpscope.tui.requests import FollowsOf, SaveCapture, SaveRows, SaveTable


async def reported(notifying: App[Any] | Widget, task: Coroutine[Any, Any, None]) -> None:
    """Await a task; if it fails, show the error to the user. If the worker is gone, the application ends by itself."""
    try:
        with suppress(WorkerGone):
            await task
    except (RequestFailed, CommandError, ProfileError) as error:
        notifying.notify(str(error), severity="error")


async def save(app: App[Any], client: Client, asked: SaveCapture | SaveRows | SaveTable) -> None:
    """Request the worker to write a file. If the file exists, ask the user first."""
    choices = [("no", "No"), ("yes", "Overwrite it")]
    if await client.ask(asked) or await app.push_screen_wait(Menu(f"{asked.path} exists", choices)) != "yes":
        return
    await client.ask(replace(asked, force=True))


class Pane(Vertical):
    """A view that fills the screen. Its commands (`commands.py`) are its methods `do_NAME`.

    Message handlers must not await the worker, since keys would wait, too.
    """

    title = ""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(id=name)
        self.client = client

    class Left(Message):
        """Message before the user moves far within this view, with the present position, for the history."""

        def __init__(self, pane: Pane) -> None:
            super().__init__()
            self.name = pane.id or ""
            self.snapshot = pane.snapshot

    class FollowRequested(Message):
        """Request to follow the records that match `filter`, from record `number` on if given."""

        def __init__(self, title: str, filter: str, records: tuple[str, ...], number: int | None = None) -> None:
            super().__init__()
            self.title = title
            self.filter = filter
            self.records = records
            self.number = number

    def has_command(self, name: str) -> bool:
        return hasattr(self, f"do_{name}")

    @property
    def snapshot(self) -> Any:
        """Return the state of the view, with which `restore` shows it in the same way again."""
        return None

    async def restore(self, snapshot: Any) -> None:
        """Show the view in a state that `snapshot` returned."""

    def take_focus(self) -> None:
        """Move the keyboard focus to the main list of the view."""

    def left_for_another(self) -> None:
        """Called when another view is shown instead."""

    def leave(self) -> None:
        self.post_message(self.Left(self))

    def perform(self, task: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background, and show an error if it fails."""
        self.run_worker(reported(self, task))

    async def follow_record(self, number: int, argument: str) -> None:
        """Follow the conversation of a record: its connection, peer or topic, as `argument` names it or the user
        chooses."""
        offered = {each.name: each for each in await self.client.ask(FollowsOf(number))}
        if not offered:
            raise CommandError("this record belongs to no connection")
        choices = [(each.name, each.title) for each in offered.values()]
        only = choices[0][0] if len(choices) == 1 else ""
        chosen = argument or only or await self.choose("Messages of the same", choices)
        if chosen in offered:
            self.post_message(self.FollowRequested(offered[chosen].title, offered[chosen].filter, MESSAGES, number))
        elif chosen:
            raise CommandError(f"there is no {chosen} to follow here: {', '.join(offered)}")

    async def choose(self, question: str, choices: list[tuple[str, str]]) -> str:
        """Return the chosen name, or "" if the user chose none."""
        return await self.app.push_screen_wait(Menu(question, choices))
