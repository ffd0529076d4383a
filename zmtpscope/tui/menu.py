"""A menu with a few choices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option


class Menu(ModalScreen[str]):
    """Returns the selected name, or "" if cancelled. `choices` are (name, title), safe to print."""

    AUTO_FOCUS = "OptionList"
    DEFAULT_CSS = """
    Menu { align: center middle; background: $background 50%; }
    Menu Vertical { width: auto; min-width: 40; max-width: 90%; height: auto; max-height: 80%; background: $surface; }
    Menu Static { padding: 0 1; background: $panel; width: 100%; }
    Menu OptionList { width: auto; min-width: 40; height: auto; max-height: 20; border: none; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "Leave", show=False),
        Binding("j", "move(1)", "Next", show=False),
        Binding("k", "move(-1)", "Before", show=False),
    ]

    def __init__(self, question: str, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._question = question
        self._options = OptionList(*[Option(Text(title), id=name) for name, title in choices], markup=False)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question), markup=False)
            yield self._options

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id or "")

    def action_move(self, step: int) -> None:
        """Move the cursor, for the keys of vim."""
        if step > 0:
            self._options.action_cursor_down()
        else:
            self._options.action_cursor_up()

    def action_cancel(self) -> None:
        self.dismiss("")


async def may_overwrite(app: App[Any], path: str) -> bool:
    """Ask whether an existing file may be overwritten."""
    choices = [("no", "No"), ("yes", "Overwrite it")]
    return await app.push_screen_wait(Menu(f"{path} is there already", choices)) == "yes"
