"""The second line: all views, with their keys."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.requests import ViewTitle

MESSAGES = ViewTitle("messages", "1", "Messages", "what was said, record by record", ("message",))
"""The list of records; the worker knows of the others."""


class ViewBar(Static):
    """Shows which views there are, and which one is open."""

    DEFAULT_CSS = """
    ViewBar { height: 1; padding: 0 1; background: $surface; color: $foreground 75%; }
    """

    class Chosen(Message):
        """A click on a view."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._views: Sequence[ViewTitle] = (MESSAGES,)
        self._open = MESSAGES.name
        self._edges: list[tuple[int, str]] = []
        """Behind the last character of each view, and its name."""

    def show(self, views: Sequence[ViewTitle], open_view: str) -> None:
        """Show these, and that one as open."""
        self._views, self._open = views, open_view
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        is_narrow = sum(len(view.title) + 5 for view in self._views) > self.size.width
        line = Text(no_wrap=True, overflow="ellipsis")
        self._edges = []
        for view in self._views:
            is_open = view.name == self._open
            title = view.title if not is_narrow or is_open else view.title[:4]
            style = Style(bold=True, reverse=True) if is_open else Style()
            line.append(f" {view.key} {title} ", style)
            self._edges.append((len(line), view.name))
            line.append(" ")
        self.update(line)

    def on_click(self, event: events.Click) -> None:
        name = next((name for edge, name in self._edges if event.x - 1 < edge), None)
        if name is not None:
            self.post_message(self.Chosen(name))
