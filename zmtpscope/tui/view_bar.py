"""The second line: all views with their keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.requests import ViewTitle

MESSAGES = ViewTitle("messages", "1", "Messages", "Msgs", "messages and other records, in order", ("message",))
"""The list of records. The worker provides the other views."""


class ViewBar(Static):
    DEFAULT_CSS = """
    ViewBar { height: 1; padding: 0 1; background: $surface; color: $foreground 75%; }
    """

    class Chosen(Message):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._views: Sequence[ViewTitle] = (MESSAGES,)
        self._open = MESSAGES.name
        self._edges: list[tuple[int, str]] = []
        """End of each view on the line, in characters, and its name."""

    def show(self, views: Sequence[ViewTitle], open_view: str) -> None:
        self._views, self._open = views, open_view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        line = Text(no_wrap=True, overflow="ellipsis")
        self._edges = []
        for name, title in titles(self._views, self._open, self.size.width):
            line.append(title, Style(bold=True, reverse=True) if name == self._open else Style())
            self._edges.append((len(line), name))
        self.update(line, layout=False)

    def on_click(self, event: events.Click) -> None:
        name = next((name for edge, name in self._edges if event.x - 1 < edge), None)
        if name is not None:
            self.post_message(self.Chosen(name))


def titles(views: Sequence[ViewTitle], open_view: str, width: int) -> list[tuple[str, str]]:
    """Return (name, title with key) of views: all titles in full, all short, or that of the open view alone, as `width`
    allows."""
    full = [f" {view.key} {view.title} " for view in views]
    short = [f" {view.key} {view.short}" + " " * (view.name == open_view) for view in views]
    keys = [f" {view.key} {view.short} " if view.name == open_view else f" {view.key}" for view in views]
    shown = next((each for each in (full, short) if sum(map(len, each)) <= width), keys)
    return [(view.name, title) for view, title in zip(views, shown, strict=True)]
