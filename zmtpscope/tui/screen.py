"""Takes over the terminal for an open capture, and restores it."""

from __future__ import annotations

import select
import socket
import sys

import msgspec

from zmtpscope.tui.app import Inspector
from zmtpscope.tui.framing import LENGTH
from zmtpscope.tui.page_driver import PageDriver
from zmtpscope.tui.requests import Started
from zmtpscope.tui.worker.process import WorkerProcess

CLEAR_LINE = "\x1b[2K"
LOST = 1
"""Exit code if the worker ended unexpectedly."""


def show(worker: WorkerProcess, what: str, filter: str, *, is_page: bool = False) -> int:
    """Run the application and return its exit code. `what` is a safe name of the capture.

    `is_page`: a server shows the screen in a browser.
    """
    try:
        started = first_word(worker.socket)
        if started.exit_code:
            return started.exit_code
        app = Inspector(worker.socket, what, filter)
        if is_page:
            app.driver_class = PageDriver
        else:
            print(CLEAR_LINE, end="", file=sys.stderr, flush=True)  # what was printed while this was imported
        app.run()
        return app.return_code or 0
    finally:
        worker.end()


def first_word(end: socket.socket) -> Started:
    """Wait for the first notice of the worker."""
    octets = b""
    size = LENGTH.size
    while len(octets) < size:
        select.select([end], [], [])
        more = end.recv(size - len(octets))
        if not more:
            return Started(LOST)
        octets += more
        if size == len(octets) == LENGTH.size:
            size += LENGTH.unpack(octets)[0]
    return msgspec.msgpack.decode(octets[LENGTH.size :], type=tuple[int, bool, Started])[2]
