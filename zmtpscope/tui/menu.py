"""Menus: one of a few choices, several of them, or a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.strip import Strip
from textual.widgets import DirectoryTree, OptionList, SelectionList, Static
from textual.widgets.option_list import Option

from zmtpscope.tui.modal import Modal

TICK = "✓"


class _Choice(Modal):
    """A dialog with a question above a widget. Returns the choice, or "" if cancelled."""

    DEFAULT_CSS = """
    _Choice { align: center middle; background: $background 50%; }
    _Choice Vertical { width: auto; min-width: 40; max-width: 90%; height: auto; max-height: 80%; }
    _Choice Vertical { background: $surface; }
    _Choice Static { padding: 0 1; background: $panel; width: 100%; }
    _Choice OptionList { width: auto; min-width: 40; height: auto; max-height: 20; background: $surface; }
    _Choice OptionList, _Choice OptionList:focus { border: none; }
    _Choice DirectoryTree { width: 72; height: 20; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "cancel", "Leave", show=False),
        Binding("j", "move(1)", "Next", show=False),
        Binding("k", "move(-1)", "Before", show=False),
    ]

    def __init__(self, question: str, choices: OptionList | DirectoryTree) -> None:
        super().__init__()
        self._question = question
        self.choices = choices

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question), markup=False)
            yield self.choices

    def on_mount(self) -> None:
        self.choices.focus()

    def action_move(self, step: int) -> None:
        if step > 0:
            self.choices.action_cursor_down()
        else:
            self.choices.action_cursor_up()

    def action_cancel(self) -> None:
        self.dismiss("")


class Menu(_Choice):
    """A dialog with choices, as (name, title) without control characters. Returns the chosen name."""

    def __init__(self, question: str, choices: Sequence[tuple[str, str]]) -> None:
        options = [Option(Text(title), id=name) for name, title in choices]
        super().__init__(question, OptionList(*options, markup=False))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id or "")


class _Set(SelectionList[str]):
    """A list of names to tick; enter accepts the ticked names. Ticks are used because colours alone may be
    invisible."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "screen.take", "Take them", show=False)]

    def render_line(self, y: int) -> Strip:
        line, place = super().render_line(y), self.scroll_offset.y + y
        if place >= self.option_count:
            return line
        left, tick, *rest = line
        is_chosen = self.get_option_at_index(place).value in self.selected
        return Strip([left, Segment(TICK if is_chosen else " ", tick.style), *rest])


class SetMenu(_Choice):
    """A dialog to choose several names. Space ticks a name, enter accepts. Returns the names, separated by spaces."""

    def __init__(self, question: str, choices: Mapping[str, str], chosen: Collection[str]) -> None:
        self._set = _Set(*((Text(title), name, name in chosen) for name, title in choices.items()))
        self._order = list(choices)
        super().__init__(f"{question} (space toggles, enter takes them)", self._set)

    def action_take(self) -> None:
        self.dismiss(" ".join(name for name in self._order if name in self._set.selected))


class FileMenu(_Choice):
    """A dialog with the files below the current directory. Returns the path of the chosen file."""

    def __init__(self, question: str) -> None:
        super().__init__(question, DirectoryTree("."))

    def on_directory_tree_file_selected(self, event: DirectoryTree.FileSelected) -> None:
        self.dismiss(str(event.path))
