"""A one-line prompt at the bottom of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from zmtpscope.tui.modal import Modal


class Prompt(Modal):
    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    Prompt { align: left bottom; background: $background 0%; }
    Prompt Horizontal { height: 1; background: $panel; }
    Prompt Static { width: auto; padding: 0 1; color: $text-primary; }
    Prompt Input { width: 1fr; background: $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Leave", show=False),
        Binding("tab", "complete", "Take what is suggested", show=False),
    ]

    def __init__(self, question: str, *, suggestions: Sequence[str] = ()) -> None:
        super().__init__()
        self._question = question
        self._suggestions = suggestions

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Static(Text(self._question), markup=False)
            suggester = SuggestFromList(self._suggestions, case_sensitive=False) if self._suggestions else None
            yield Input(suggester=suggester, select_on_focus=False, compact=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def action_cancel(self) -> None:
        self.dismiss("")

    def action_complete(self) -> None:
        self.query_one(Input).action_end()
        self.query_one(Input).action_cursor_right()
