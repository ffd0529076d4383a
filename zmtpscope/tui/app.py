"""The application: what is on the screen, and what keys do."""

from __future__ import annotations

import socket

from textual.app import App

from zmtpscope.tui.client import Client, Notice
from zmtpscope.tui.requests import ListSpec, OpenList


class Inspector(App[None]):
    """Looks at what the worker at the other end of a socket has."""

    def __init__(self, end: socket.socket, filter: str = "") -> None:
        super().__init__()
        self._client = Client(end, self._on_notice, self._on_worker_gone)
        self._filter = filter

    async def on_mount(self) -> None:
        self._client.start()
        await self._client.ask(OpenList("messages", ListSpec(filter=self._filter)))

    def _on_notice(self, notice: Notice) -> None:
        self.title = f"{notice}"

    def _on_worker_gone(self) -> None:
        self.exit(
            return_code=1,
            message="zmtpscope: the process that reads the capture has ended; this is a fault of zmtpscope",
        )
