"""Time limits of tests, and work in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

PATIENCE = 60
"""Seconds after which a wait fails. No test waits that long unless it fails: a machine under load needs the room."""


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Run `work` in a thread; return its future."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
