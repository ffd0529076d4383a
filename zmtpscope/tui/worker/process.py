"""Start the worker process by a fork, while the program is small and has a single thread."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

SIGNALS_OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGHUP, signal.SIGWINCH)
"""Signals that a terminal sends to all its processes. The worker ignores them and ends with its socket."""


PATIENCE, POLL_INTERVAL = 1.0, 0.005
"""Seconds for the last step, and between checks for its end."""


class WorkerProcess(NamedTuple):
    """The worker process, and this end of its socket."""

    pid: int
    socket: socket.socket

    def end(self) -> None:
        """Close the socket and wait for the process, which finishes its step and removes unfinished files.

        It is killed after `PATIENCE` seconds, for example if a dissector hangs.
        """
        self.socket.close()
        until = time.monotonic() + PATIENCE
        while not os.waitpid(self.pid, os.WNOHANG)[0]:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(POLL_INTERVAL)


def start(run: Callable[[socket.socket], None]) -> WorkerProcess:
    """Fork a process that calls `run` with the other end of a socket. Call this before threads are started."""
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
    """Discard all output of this process, which must not reach the terminal."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
