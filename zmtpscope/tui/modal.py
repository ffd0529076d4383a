"""The base of screens that ask the user for something."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen


class Modal(ModalScreen[str]):
    """Covers the view and returns a text, "" if cancelled."""

    DEFAULT_CSS = "Modal > Vertical:ansi { border: round $foreground; }"

    def dismiss(self, result: str | None = None) -> AwaitComplete:
        """Return the result once, even if Enter was pressed twice."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
