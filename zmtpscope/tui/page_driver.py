"""The terminal of a browser page that `serve.py` runs."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class PageDriver(WebDriver):
    """A driver of Textual for a process that serves a page. It exits when the server ends or closes the page."""

    def run_input_thread(self) -> None:
        """Read input until the server ends, then exit."""
        super().run_input_thread()
        self._app.post_message(ExitApp())
