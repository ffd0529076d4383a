"""Hints below a filter: an error and its position, or completions."""

from __future__ import annotations

from rich.segment import Segment
from textual.strip import Strip

from zmtpscope.tui.requests import Completion, FilterProblem
from zmtpscope.tui.widgets.columns import fitted, width_of
from zmtpscope.tui.widgets.styles import Painted

MAX_SHOWN = 10
"""Visible completions."""
MIN_NOTE = 12
"""Minimum cells for a note."""
NOTHING = Completion(0, 0, (), ())


def caret_line(problem: FilterProblem, at: int, width: int) -> str:
    """Return a line with a caret in column `at`, and the error before it if there is space, otherwise after it."""
    at = max(0, min(at, width - 1))
    if width_of(problem.message) + at + 2 <= width or at < width // 2:
        return fitted(" " * at + "^ " + problem.message, width)
    return (
        fitted(problem.message, at - 1) + " ^"
        if width_of(problem.message) > at - 1
        else (" " * (at - 1 - width_of(problem.message)) + problem.message + " ^")
    )


class FilterHints(Painted):
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    FilterHints {
        overlay: screen; display: none; height: auto; width: 100%; background: $panel; color: $foreground;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._problem: FilterProblem | None = None
        self._completion = NOTHING
        self._chosen = 0
        self._at = 0

    def show(self, problem: FilterProblem | None, completion: Completion, chosen: int, at: int) -> None:
        """Show an error or completions, with completion `chosen` selected. `at` is the column of the caret or of the
        completed text."""
        self._problem, self._completion, self._chosen, self._at = problem, completion, chosen, at
        lines = min(len(completion.texts), MAX_SHOWN) or (problem is not None)
        self.display = bool(lines)
        self.styles.height = int(lines)
        self.refresh()

    def render_line(self, y: int) -> Strip:
        style, width = self.palette.style, self.size.width
        if not self._completion.texts:
            text = caret_line(self._problem, self._at, width) if self._problem else ""
            return Strip([Segment(text, style("error"))]).adjust_cell_length(width, style("value"))
        texts = self._completion.texts
        first = max(0, min(self._chosen - MAX_SHOWN // 2, len(texts) - MAX_SHOWN))
        index = first + y
        if index >= len(texts):
            return Strip.blank(width, self.palette.base)
        ground = "cursor" if index == self._chosen else ""
        names = min(max(map(width_of, texts)), width // 2)
        at = max(0, min(self._at, width - names - 2))
        notes = self._completion.notes
        note = notes[index] if index < len(notes) else ""
        room = width - at - names - 4
        parts = [
            Segment(" " * at, style("value")),
            Segment(f" {fitted(texts[index], names)} ", style("value", ground)),
            Segment(f" {fitted(note, room)}" if note and room >= MIN_NOTE else "", style("muted", ground)),
        ]
        return Strip([part for part in parts if part.text]).adjust_cell_length(width, style("value"))
