"""How long tests wait for others, and what they let run meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

PATIENCE = 20
"""Seconds after which a test has failed; none is meant to wait for it."""


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """What `work` returns or raises, which runs meanwhile."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
