"""The help: keys of commands, views and widgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.keys import format_key
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from zmtpscope.tui.commands import COMMANDS
from zmtpscope.tui.requests import ViewTitle

KEY_WIDTH = 22


class HelpScreen(ModalScreen[None]):
    """Shows all keys; `widgets` maps titles to widgets."""

    AUTO_FOCUS = "VerticalScroll"
    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen VerticalScroll { width: 90%; max-width: 100; height: 90%; background: $surface; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,f1", "dismiss", "Back")]

    def __init__(self, widgets: dict[str, type[Widget]], views: Sequence[ViewTitle]) -> None:
        super().__init__()
        self._widgets = widgets
        self._views = views

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text(), markup=False)

    def _text(self) -> Text:
        text = Text()
        text.append("Views\n", "bold")
        for view in self._views:
            text.append(f"  {view.key:<{KEY_WIDTH}} {view.title}\n")
        for group in dict.fromkeys(command.group for command in COMMANDS):
            text.append(f"{group}\n", "bold")
            for command in [command for command in COMMANDS if command.group == group]:
                what = f"{command.title}: {command.argument}" if command.argument else command.title
                text.append(f"  {_keys(command.keys) or ':' + command.name:<{KEY_WIDTH}} {what}\n")
        for title, widget in self._widgets.items():
            text.append(f"{title}\n", "bold")
            for binding in Binding.make_bindings(widget.BINDINGS):
                text.append(f"  {_keys(binding.key):<{KEY_WIDTH}} {binding.description}\n")
        return text


def _keys(keys: str) -> str:
    return " ".join(format_key(key) for key in keys.split(",") if key)
