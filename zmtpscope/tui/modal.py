"""The base of screens that ask the user for something."""

from __future__ import annotations

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen


class Modal(ModalScreen[str]):
    """A dialog that covers the view and returns a text, or "" if cancelled."""

    DEFAULT_CSS = "Modal > Vertical:ansi { border: round $foreground; }"

    def dismiss(self, result: str | None = None) -> AwaitComplete:
        """Close the dialog and return `result`; only once, even if Enter was pressed twice."""
        return super().dismiss(result) if self.is_active else AwaitComplete()
