"""The terminal of a page in a browser, as `serve.py` runs it."""

from __future__ import annotations

from textual.drivers.web_driver import WebDriver
from textual.messages import ExitApp


class PageDriver(WebDriver):
    """Ends with the server, however that ended: nobody sees the page any more, or could end it."""

    def run_input_thread(self) -> None:
        """Take what the server hands on, until it does so no more."""
        super().run_input_thread()
        self._app.post_message(ExitApp())
