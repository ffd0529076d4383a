"""A thread for blocking calls that does not delay the end of the program."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """A thread that makes one call after the other.

    Unlike a call in an executor's thread, a call that still blocks does not delay the end of the program.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            work()

    def close(self) -> None:
        """End the thread after the calls submitted so far."""
        self._calls.put(None)

    async def call(self, function: Callable[[], Result]) -> Result:
        future: Future[Result] = Future()

        def work() -> None:
            with suppress(InvalidStateError):  # the caller was cancelled
                try:
                    future.set_result(function())
                except BaseException as raised:
                    future.set_exception(raised)

        self._calls.put(work)
        return await asyncio.wrap_future(future)
