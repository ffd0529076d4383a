"""Reads and writes messages on file descriptors without blocking the event loop."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import AsyncIterator, Sequence
from functools import partial
from itertools import cycle

from zmtpscope.live.cat.message_input import AT_ONCE, BadMessage, Notation, Splitter
from zmtpscope.live.worker import Worker

LARGEST_OUTPUT = 1 << 18
"""Number of waiting octets above which callers must flush."""


class GivenMessages:
    """Messages from the command line. With `again`, they repeat forever."""

    def __init__(self, messages: Sequence[list[bytes]], *, again: bool = False) -> None:
        self._messages = messages
        self._each = cycle(messages) if again else iter(messages)
        self._again = again

    async def batches(self) -> AsyncIterator[Sequence[list[bytes]]]:
        while True:
            yield self._messages
            if not self._again:
                return

    async def next(self) -> list[bytes] | None:
        return next(self._each, None)

    def close(self) -> None:
        pass


class InputMessages:
    """Messages that are read from a file descriptor, in the given `notation`, with the octet `end` after each."""

    def __init__(self, descriptor: int | None, notation: Notation, end: bytes) -> None:
        self._descriptor = descriptor
        self._notation = notation
        self._splitter = Splitter(end)
        self._worker: Worker | None = None
        self._waiting: deque[list[bytes]] = deque()

    async def batches(self) -> AsyncIterator[Sequence[list[bytes]]]:
        if self._worker is None:
            self._worker = Worker("input")
        while self._descriptor is not None:
            block = await self._worker.call(partial(os.read, self._descriptor, AT_ONCE))
            if not block:
                self._descriptor = None
            yield self._messages(self._splitter.feed(block) if block else self._splitter.finish())

    async def next(self) -> list[bytes] | None:
        if not self._waiting:
            async for batch in self.batches():
                self._waiting.extend(batch)
                if batch:
                    break
        return self._waiting.popleft() if self._waiting else None

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def _messages(self, pieces: list[bytes]) -> list[list[bytes]]:
        if self._notation == Notation():
            return [[piece] for piece in pieces]
        messages = []
        for number, piece in enumerate(pieces, self._splitter.count - len(pieces) + 1):
            try:
                messages.append(self._notation.parts(piece))
            except BadMessage as error:
                raise BadMessage(f"line {number} of standard input: {error}") from None
        return messages


Messages = GivenMessages | InputMessages
"""Messages to send. Reading `batches` and `next` raises `BadMessage`."""


class Output:
    """Writes to standard output. Raises `OSError`, and `BrokenPipeError` if the reader has closed the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._worker: Worker | None = None
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, octets: bytes) -> None:
        self._pieces.append(octets)
        self._size += len(octets)

    @property
    def is_full(self) -> bool:
        return self._size >= LARGEST_OUTPUT

    async def flush(self) -> None:
        octets = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        if not octets:
            return
        # a pipe that is ready for writing takes at least PIPE_BUF octets without blocking
        if len(octets) <= select.PIPE_BUF and select.select([], [self._descriptor], [], 0)[1]:
            self._write(octets)
            return
        if self._worker is None:
            self._worker = Worker("output")
        await self._worker.call(partial(self._write, octets))

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()

    def _write(self, octets: bytes) -> None:
        view = memoryview(octets)
        while view:
            view = view[os.write(self._descriptor, view) :]
