"""Takes over the terminal for an open capture, and restores it."""

from __future__ import annotations

import select
import socket
import sys

import msgspec

from zmtpscope.tui.app import Inspector
from zmtpscope.tui.client import RECEIVED
from zmtpscope.tui.framing import Frames
from zmtpscope.tui.page_driver import PageDriver
from zmtpscope.tui.requests import Started
from zmtpscope.tui.worker.process import WorkerProcess

CLEAR_LINE = "\x1b[2K"
MAX_WAIT = 0.2
"""Seconds in which the worker can report a failure before the screen takes the terminal."""


def show(worker: WorkerProcess, what: str, filter: str, *, is_page: bool = False) -> int:
    """Run the application until the user leaves; return its exit code. `what` is the name of the capture, without
    control characters.

    `is_page`: a server shows the screen in a browser.
    """
    try:
        app = Inspector(worker.socket, what, filter)
        failed = early_failure(worker.socket)
        if failed is not None:
            print(CLEAR_LINE + failed.messages, end="", file=sys.stderr)
            return failed.exit_code
        if is_page:
            app.driver_class = PageDriver
        else:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)  # output of imports
        app.run()
        return app.return_code or 0
    finally:
        worker.end()


def early_failure(end: socket.socket) -> Started | None:
    """Return the notice that the capture cannot be opened, if the worker sends it within `MAX_WAIT`; otherwise None."""
    if not select.select([end], [], [], MAX_WAIT)[0]:
        return None
    for message in Frames().feed(end.recv(RECEIVED, socket.MSG_PEEK)):
        started = msgspec.msgpack.decode(message, type=tuple[int, bool, Started])[2]
        return started if started.exit_code else None
    return None
