"""Signals that stop a run, or request its counts."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SAME_INTERRUPT = 0.2
"""Two signals within this time count as one: timeout(1) signals the program and then its process group."""


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on Ctrl-C, SIGTERM, or SIGHUP of a closed terminal; a later Ctrl-C or SIGTERM raises
    `KeyboardInterrupt`. An ignored SIGHUP stays ignored (nohup(1))."""
    stopped: float | None = None
    hangup = getattr(signal, "SIGHUP", None)

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        if number == hangup:
            _leave_terminal()
        if stopped is None:
            stopped = time.monotonic()
            stop()
        elif number != hangup and time.monotonic() - stopped > SAME_INTERRUPT:
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        numbers.append(hangup)
    with _handled(numbers, on_signal):
        yield


def _leave_terminal() -> None:
    """Redirect output from a closed terminal to the null device, so that writing does not fail and the run
    can finish."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        if any(events & select.POLLHUP for _, events in poll.poll(0)):
            os.dup2(nowhere, descriptor)
    os.close(nowhere)


@contextmanager
def counts_on_request() -> Iterator[Callable[[], bool]]:
    """Return in a context a function: whether SIGUSR1 has requested counts since its last call."""
    requests: list[int] = []

    def is_requested() -> bool:
        asked = bool(requests)
        requests.clear()
        return asked

    numbers = [signal.SIGUSR1] if hasattr(signal, "SIGUSR1") else []
    with _handled(numbers, lambda number, frame: requests.append(number)):
        yield is_requested


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
