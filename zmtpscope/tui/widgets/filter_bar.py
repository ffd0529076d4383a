"""The input line for filters, with errors, completions and number of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Static

from zmtpscope.tui.requests import Completion, FilterProblem, ListState
from zmtpscope.tui.widgets.columns import width_of
from zmtpscope.tui.widgets.filter_hints import NOTHING, FilterHints

Check = Callable[[str], Awaitable[FilterProblem | None]]
Complete = Callable[[str, int], Awaitable[Completion]]

TYPING = 0.04
"""Seconds between the last key and the check of a filter."""


def state_text(state: ListState | None, filter: str) -> str:
    """Return the text beside the filter: the progress of a search, or the number of rows among all records."""
    if state is None:
        return ""
    if state.looked_at < state.total:
        return f"searching, {100 * state.looked_at // state.total} %, {state.found:,} so far"
    if not filter:
        return f"{state.found:,}"
    return f"{state.found:,} of {state.total:,} records" if state.found else "none"


class FilterInput(Input):
    """The input field of the filter bar. Keys for the hints go to the bar."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Apply"),
        Binding("tab", "bar('take')", "Complete"),
        Binding("down", "bar('down')", "Next"),
        Binding("up", "bar('up')", "Previous"),
        Binding("escape", "bar('leave')", "Leave"),
    ]

    class KeyPressed(Message):
        """Message for a key that the bar handles."""

        def __init__(self, what: str) -> None:
            super().__init__()
            self.what = what

    def action_bar(self, what: str) -> None:
        self.post_message(self.KeyPressed(what))


class FilterBar(Vertical):
    """The filter bar. While the user types, `check` returns errors and `complete` completions. Enter starts
    the search."""

    DEFAULT_CSS = """
    FilterBar { height: 1; background: $surface; }
    FilterBar > Horizontal { height: 1; }
    FilterBar #prompt { width: auto; padding: 0 1; color: $foreground 60%; }
    FilterBar.-good #prompt { color: $text-success; }
    FilterBar.-bad #prompt { color: $text-error; text-style: bold; }
    FilterBar FilterInput { width: 1fr; background: $surface; }
    FilterBar #state { width: auto; padding: 0 1; color: $foreground 70%; }
    """

    class Submitted(Message):
        """Request to show the records that match this filter; "" for all."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """Message that the user cancelled typing."""

    def __init__(self, check: Check, complete: Complete) -> None:
        super().__init__()
        self._check = check
        self._complete = complete
        self._prompt = Static(Content("filter"), id="prompt")
        self._input = FilterInput(compact=True, select_on_focus=False, placeholder="")
        self._state = Static(id="state")
        self._shown_state = ""
        self._hints = FilterHints()
        self._problem: FilterProblem | None = None
        self._completion = NOTHING
        self._chosen: int | None = None
        self._submitted = ""
        self._history: tuple[str, ...] = ()
        self._back = 0
        """Position in the history; 0 is the typed text."""
        self._draft = ""

    def compose(self) -> ComposeResult:
        yield Horizontal(self._prompt, self._input, self._state)
        yield self._hints

    # -- interface -----------------------------------------------------------------------------------------------------

    def set_text(self, text: str) -> None:
        """Show the filter of the visible rows, unless the user is typing another one."""
        is_typing = self._input.has_focus and self.text != self._submitted
        self._submitted = text
        if not is_typing:
            self._put(text)

    def _put(self, text: str) -> None:
        with self.prevent(Input.Changed):
            self._input.value = text
            self._input.cursor_position = len(text)
        self._back = 0
        self._set_problem(None)
        self._set_completion(NOTHING)

    def set_history(self, texts: Sequence[str]) -> None:
        self._history = tuple(texts)
        self._back = 0

    def show_state(self, text: str) -> None:
        """Show the number of rows, or the progress, beside the filter."""
        before, self._shown_state = self._shown_state, text
        if text != before:
            self._state.update(Content(text), layout=len(text) != len(before))

    def type_in(self) -> None:
        self.screen.set_focus(self._input)  # at once: `focus` would take effect after queued keys

    @property
    def text(self) -> str:
        return self._input.value

    # -- typing --------------------------------------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._back and event.value != self._history[-self._back]:
            self._back = 0
        self._set_completion(NOTHING)
        self.run_worker(self._ask(event.value), exclusive=True, group="filter")

    async def _ask(self, text: str) -> None:
        await asyncio.sleep(TYPING)
        self._set_problem(await self._check(text) if text.strip() else None)
        if text.strip() and not self._back:
            self._set_completion(await self._complete(text, self._input.cursor_position))

    async def _ask_for_completion(self) -> None:
        self._set_completion(await self._complete(self.text, self._input.cursor_position))

    def _set_problem(self, problem: FilterProblem | None) -> None:
        self._problem = problem
        self.set_class(problem is not None, "-bad")
        self.set_class(problem is None and bool(self.text.strip()), "-good")
        self._show_hints()

    def _set_completion(self, completion: Completion) -> None:
        typed = self.text[completion.start : completion.stop]
        self._completion = NOTHING if completion.texts == (typed,) else completion
        self._chosen = None
        self._show_hints()

    def _show_hints(self) -> None:
        has_keys = self._input.has_focus
        problem = self._problem
        completion = self._completion if has_keys else NOTHING
        place = completion.start if completion.texts else problem.place if problem else 0
        at = self._input.region.x - self.region.x + width_of(self.text[:place]) - self._input.scroll_offset.x
        at -= bool(completion.texts)
        self._hints.show(problem if has_keys else None, completion, -1 if self._chosen is None else self._chosen, at)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def on_filter_input_key_pressed(self, event: FilterInput.KeyPressed) -> None:
        event.stop()
        match event.what:
            case "take":
                self._take()
            case "down" | "up" if self._completion.texts:
                self._choose(1 if event.what == "down" else -1)
            case "down" | "up":
                self._go_back(-1 if event.what == "down" else 1)
            case "leave" if self._completion.texts:
                self._set_completion(NOTHING)
            case "leave":
                self._put(self._submitted)
                self.post_message(self.Left())

    def _choose(self, step: int) -> None:
        texts = self._completion.texts
        first = 0 if step > 0 else len(texts) - 1
        self._chosen = first if self._chosen is None else (self._chosen + step) % len(texts)
        self._show_hints()

    def _take(self) -> None:
        if not self._completion.texts:
            self.run_worker(self._ask_for_completion(), exclusive=True, group="filter")
            return
        start, stop = self._completion.start, self._completion.stop
        taken = self._completion.texts[self._chosen or 0]
        text = self.text
        self._input.value = text[:start] + taken + text[stop:]
        self._input.cursor_position = start + len(taken)

    def _go_back(self, step: int) -> None:
        back = max(0, min(self._back + step, len(self._history)))
        if back == self._back:
            return
        if not self._back:
            self._draft = self.text
        self._back = back
        self._input.value = self._history[-back] if back else self._draft
        self._input.cursor_position = len(self._input.value)

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if self._chosen is not None:
            self._take()
            return
        text = self.text.strip()
        self.workers.cancel_group(self, "filter")
        self._set_completion(NOTHING)
        problem = await self._check(text) if text else None
        self._set_problem(problem)
        if problem is None:
            self._submitted = text
            self.post_message(self.Submitted(text))

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        self._show_hints()
