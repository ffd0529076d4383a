"""The last line: the keys of the focused view."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Static

GAP = "  "


class Entry(NamedTuple):
    """A key on the last line, and the object that handles its action."""

    binding: Binding
    owner: DOMNode
    key: str

    @property
    def text(self) -> str:
        return f"{self.key} {self.binding.description}"


class KeyBar(Static):
    """The last line: as many keys of the focused view as fit. A click presses the key.

    `rank_of` returns the position of an action, or 0 if it does nothing now.
    """

    DEFAULT_CSS = """
    KeyBar { height: 1; dock: bottom; padding: 0 1; background: $panel; color: $foreground 85%; }
    """

    def __init__(self, rank_of: Callable[[str], int]) -> None:
        super().__init__(markup=False)
        self._rank_of = rank_of
        self._entries: list[Entry] = []
        self._edges: list[tuple[int, Entry]] = []
        """End of each key on the line, in characters."""

    @property
    def shown(self) -> list[Entry]:
        """The keys that fit on the line."""
        return [entry for _, entry in self._edges]

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._learn)

    def _learn(self, screen: Screen[object]) -> None:
        if screen is not self.screen or screen.app.screen is not screen or not screen.app.app_focus:
            return
        entries: dict[str, Entry] = {}
        for active in screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and self._rank_of(binding.action):
                entries.setdefault(binding.action, Entry(binding, active.node, self.app.get_key_display(binding)))
        chosen = sorted(entries.values(), key=lambda entry: self._rank_of(entry.binding.action))
        if chosen != self._entries:
            self._entries = chosen
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        line = Text(no_wrap=True, overflow="ellipsis")
        self._edges = []
        for entry in self._entries:
            if len(line) + len(entry.text) > self.content_size.width:
                break
            line.append(entry.key, "bold")
            line.append(f" {entry.binding.description}{GAP}")
            self._edges.append((len(line), entry))
        self.update(line, layout=False)

    async def on_click(self, event: events.Click) -> None:
        entry = next((entry for edge, entry in self._edges if event.x - 1 < edge), None)
        if entry is not None:
            await self.app.run_action(entry.binding.action, entry.owner)
