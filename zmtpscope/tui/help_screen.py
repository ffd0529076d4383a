"""The help: the keys of the focused pane, commands, views and widgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option

from zmtpscope.tui.commands import Command, keys_text
from zmtpscope.tui.modal import Modal
from zmtpscope.tui.requests import ViewTitle
from zmtpscope.tui.widgets.line_view import LineView

KEY_WIDTH = 14


class HelpEntry(NamedTuple):
    """A key and its meaning. `line` is the command line of the key, or "" for a key of a widget."""

    group: str
    keys: str
    meaning: str
    line: str = ""


class HelpScreen(Modal):
    """A screen with all keys, or only the keys whose description contains a text.

    Returns the command line of the key that the user chose, or "".
    """

    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 50%; }
    HelpScreen Vertical { width: 90%; max-width: 100; height: 90%; background: $surface; padding: 0 1; }
    HelpScreen Input { margin-bottom: 1; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: 1fr; border: none; background: $surface; }
    HelpScreen OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("q,question_mark,f1", "dismiss('')", "Back"),
        Binding("slash", "search", "Search", priority=True),
    ]

    def __init__(self, entries: Sequence[HelpEntry]) -> None:
        super().__init__()
        self._entries = entries
        self._options = OptionList(markup=False)
        self._search = Input(placeholder="/ searches, enter runs a command, esc leaves", compact=True)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield self._search
            yield self._options

    def on_mount(self) -> None:
        self._show("")
        self._options.focus()

    def _show(self, sought: str) -> None:
        found = [each for each in self._entries if sought.casefold() in " ".join(each).casefold()]
        self._options.clear_options()
        group = ""
        for place, entry in enumerate(found):
            if entry.group != group:
                group = entry.group
                self._options.add_option(Option(Text(group, "bold"), disabled=True))
            line = Text(f"  {entry.keys:<{KEY_WIDTH}} {entry.meaning}", no_wrap=True, overflow="ellipsis")
            self._options.add_option(Option(line, id=f"{place} {entry.line}"))
        self._options.action_first()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show(event.value)

    def on_input_submitted(self) -> None:
        self._options.action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss((event.option_id or "").partition(" ")[2])

    def action_search(self) -> None:
        self.set_focus(self._search)  # at once: `focus` would take effect after queued keys

    def action_leave(self) -> None:
        """Leave the search; if there is none, leave the help."""
        if self._search.has_focus:
            self._options.focus()
        else:
            self.dismiss("")


def help_entries(
    commands: Sequence[tuple[Command, bool]],
    views: Sequence[ViewTitle],
    widgets: Sequence[type[LineView]],
    focused: Widget | None,
) -> Iterator[HelpEntry]:
    """Yield the keys of the focused widget, then its commands, the views, and all other keys."""
    own = [widget for widget in reversed(widgets) if isinstance(focused, widget)]  # the most specific one first
    yield from _of_widgets(own)
    yield from (_entry(command, command.group) for command, has_meaning in commands if has_meaning)
    for view in views:
        yield HelpEntry("Views", view.key, f"{view.title}: {view.meaning}", f"view {view.name}")
    yield from (_entry(command, "Elsewhere") for command, has_meaning in commands if not has_meaning)
    yield from _of_widgets([widget for widget in widgets if widget not in own])


def _of_widgets(widgets: Sequence[type[LineView]]) -> Iterator[HelpEntry]:
    for widget in widgets:
        for binding in widget.BINDINGS:
            if isinstance(binding, Binding):
                yield HelpEntry(widget.help_title, keys_text(binding.key), binding.description)


def _entry(command: Command, group: str) -> HelpEntry:
    meaning = f"{command.title}: {command.argument}" if command.argument else command.title
    keys = keys_text(command.keys)
    return HelpEntry(group, keys or f":{command.name}", meaning, command.name)
