"""Run calls that may block forever (reading from a terminal, writing to a pager) outside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

Result = TypeVar("Result")


class Worker:
    """A thread that makes one call after the other.

    A call that still blocks when the program ends does not delay the end, unlike in an executor's threads.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            work()

    def close(self) -> None:
        """End the thread after the calls made so far."""
        self._calls.put(None)

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call `function` in the thread, and return or raise its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()

        def settle(result: Result | None, error: BaseException | None) -> None:
            if future.done():  # the caller was cancelled
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # type: ignore[arg-type]  # where there is no error there is a result

        def work() -> None:
            result, error = None, None
            try:
                result = function()
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, result, error)

        self._calls.put(work)
        return await future
