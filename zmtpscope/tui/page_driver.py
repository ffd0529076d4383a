"""The terminal of a browser page that `serve.py` runs."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class PageDriver(WebDriver):
    """Ends when the server ends, for any reason: the page can then be neither seen nor closed."""

    def run_input_thread(self) -> None:
        """Read input from the server until it ends, then exit."""
        super().run_input_thread()
        self._app.post_message(ExitApp())
