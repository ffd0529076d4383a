"""Main function of the worker process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING

from zmtpscope.tui.requests import Started
from zmtpscope.tui.worker.channel import Channel, ScreenGone
from zmtpscope.tui.worker.process import leave_terminal

if TYPE_CHECKING:
    from zmtpscope.dissect import Options
    from zmtpscope.tui.worker.loading import Opened


def run(end: socket.socket, open_capture: Callable[[], tuple[Opened, Options]], *, is_alone: bool = True) -> None:
    """Open a capture, notify the screen, and answer requests until the screen closes.

    If the capture cannot be opened, `open_capture` prints the reason and raises `SystemExit`. `is_alone`: this is a
    separate process.
    """
    channel, printed = Channel(end), StringIO()
    try:
        with redirect_stderr(printed):  # the screen is on the terminal already
            opened, options = open_capture()
    except SystemExit as error:
        channel.notify(Started(int(str(error.code)), printed.getvalue()))
        return
    from zmtpscope.payloads.interrupting import Interrupting
    from zmtpscope.tui.worker.loop import Worker

    try:
        channel.notify(Started(messages=printed.getvalue()))
        if is_alone:
            leave_terminal()
        registry = options.payloads
        # a timer needs the main thread
        watching = Interrupting(registry) if is_alone and registry is not None else nullcontext()
        Worker(channel, opened, options, watching).run()
    except ScreenGone:
        pass
    finally:
        if opened.followed is not None:
            opened.followed.close()
