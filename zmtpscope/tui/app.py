"""The application: what is on the screen, and what keys do."""

from __future__ import annotations

import socket
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer

from zmtpscope.tui.client import Client, Notice
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.requests import ListChanged, ListSpec, Progress
from zmtpscope.tui.title_bar import TitleBar

MAIN_LIST = "messages"

WORKER_GONE = "zmtpscope: the process that reads the capture has ended, which it never should; please report it"


class Inspector(App[None]):
    """Looks at what the worker at the other end of a socket has; `what` is what people call that."""

    TITLE = "zmtpscope"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, end: socket.socket, what: str, filter: str = "") -> None:
        super().__init__()
        self.client = Client(end, self._on_notice, self._on_worker_gone)
        self._title_bar = TitleBar(what)
        self._records = RecordsPane(self.client, MAIN_LIST, ListSpec(filter=filter))

    def compose(self) -> ComposeResult:
        self.client.start()
        yield self._title_bar
        yield self._records
        yield Footer()

    def _on_notice(self, notice: Notice) -> None:
        if isinstance(notice, Progress):
            self._title_bar.show_progress(notice)
        elif isinstance(notice, ListChanged):
            for pane in self.screen.query(RecordsPane):
                pane.show_state(notice.state)

    def _on_worker_gone(self) -> None:
        self.exit(return_code=1, message=WORKER_GONE)
