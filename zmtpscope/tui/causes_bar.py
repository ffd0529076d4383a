"""The lines above the messages that show the worst diagnoses."""

from __future__ import annotations

from rich.text import Text
from textual import events
from textual.message import Message
from textual.widgets import Static

from zmtpscope.tui.requests import TableRow


class CausesBar(Static):
    """One line per diagnosis, or two for a single one, in the colour of the worst severity.

    Hidden without diagnoses and in other views.
    """

    DEFAULT_CSS = """
    CausesBar { height: auto; padding: 0 1; color: $text-warning; background: $warning 20%; display: none; }
    CausesBar { text-wrap: nowrap; text-overflow: ellipsis; max-height: 3; }
    CausesBar.single { text-wrap: wrap; }
    CausesBar.error { color: $text-error; background: $error 25%; }
    CausesBar:ansi { color: ansi_black; background: ansi_yellow; }
    CausesBar.error:ansi { color: ansi_bright_white; background: ansi_red; }
    """

    class Chosen(Message):
        def __init__(self, row: TableRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, key: str) -> None:
        super().__init__(markup=False)
        self._key = key
        self._causes: tuple[TableRow, ...] = ()
        self._is_wanted = True
        self._last = ""
        """Key of the cause whose records were shown last."""

    def show(self, causes: tuple[TableRow, ...]) -> None:
        """Show these diagnoses, which are rows of the view of problems, worst first."""
        if causes == self._causes:
            return
        self._causes = causes
        lines = [Text.assemble((f"{self._key} {row.cells[0]}", "bold"), f"  {row.cells[1]}") for row in causes]
        self.update(Text("\n").join(lines))
        self.set_class(len(causes) == 1, "single")
        self.set_class(any(row.style == "error" for row in causes), "error")
        self._update_display()

    def want(self, is_wanted: bool) -> None:
        self._is_wanted = is_wanted
        self._update_display()

    def _update_display(self) -> None:
        self.display = self._is_wanted and bool(self._causes)

    def next_cause(self) -> TableRow | None:
        """Return the diagnosis after the one returned last, starting over at the end; None if there are none."""
        if not self._causes:
            return None
        keys = [row.key for row in self._causes]
        row = self._causes[(keys.index(self._last) + 1) % len(keys) if self._last in keys else 0]
        self._last = row.key
        return row

    def on_click(self, event: events.Click) -> None:
        if self._causes:
            row = self._causes[min(event.y, len(self._causes) - 1)]
            self._last = row.key
            self.post_message(self.Chosen(row))
