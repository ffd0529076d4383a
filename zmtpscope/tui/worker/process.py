"""The worker as a process of its own: forked while the program is small and has one thread, gone when its screen is."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

SIGNALS_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGWINCH)
"""They reach all processes of a terminal, and are for the screen; the worker ends when its socket does."""


PATIENCE, POLL_INTERVAL = 1.0, 0.005
"""Seconds that the worker has for its last step, and between two looks at it."""


class WorkerProcess(NamedTuple):
    """The other process, and our end of the socket between us."""

    pid: int
    socket: socket.socket

    def end(self) -> None:
        """Let it end, and wait until it has. It does by itself when its step is over, and removes what it has begun to
        write; a dissector that stands still is not waited for."""
        self.socket.close()
        until = time.monotonic() + PATIENCE
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(POLL_INTERVAL)


def start(run: Callable[[socket.socket], None]) -> WorkerProcess:
    """Run `run` with the other end of a socket in a process of its own. Call it before there are threads."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return WorkerProcess(pid, ours)
    status = 1
    try:
        ours.close()
        for number in SIGNALS_OF_THE_TERMINAL:
            signal.signal(number, signal.SIG_IGN)
        run(theirs)
        status = 0
    finally:
        os._exit(status)


def leave_terminal() -> None:
    """From now on nothing that is written by mistake reaches the screen."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
