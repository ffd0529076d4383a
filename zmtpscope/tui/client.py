"""The screen's end of the socket to the worker: sends requests, awaits replies, and passes on notices."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from zmtpscope.tui.framing import NOTICE, Frames, framed
from zmtpscope.tui.requests import Failure, ListChanged, Progress, Request, SavingState, Started

T = TypeVar("T")

Notice = Started | Progress | ListChanged | SavingState

RECEIVED = 1 << 18

_envelope = msgspec.msgpack.Decoder(tuple[int, bool, msgspec.Raw])
_notice = msgspec.msgpack.Decoder(Notice)
_failure = msgspec.msgpack.Decoder(Failure)


class RequestFailed(Exception):
    """The worker could not answer a request; the text is the reason."""


class WorkerGone(Exception):
    """The worker process has ended unexpectedly."""


class Client:
    """Sends requests to the worker. Calls `on_notice` for its notices, and `on_gone` when it ends."""

    def __init__(self, end: socket.socket, on_notice: Callable[[Notice], None], on_gone: Callable[[], None]) -> None:
        self._socket = end
        self._on_notice = on_notice
        self._on_gone = on_gone
        self._frames = Frames()
        self._asked = 0
        self._sending = asyncio.Lock()
        self._waiting: dict[int, tuple[asyncio.Future[Any], Any]] = {}

    def start(self) -> None:
        """Start reading from the socket, in the running event loop."""
        self._socket.setblocking(False)
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    async def ask(self, request: Request[T]) -> T:
        """Send a request and return its reply. Raises `RequestFailed`, `WorkerGone`."""
        number = self._asked = self._asked + 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future, type(request).reply
        try:
            async with self._sending:
                await asyncio.get_running_loop().sock_sendall(self._socket, framed(number, False, request))
        except OSError:
            raise WorkerGone from None
        return await future

    def _readable(self) -> None:
        try:
            octets = self._socket.recv(RECEIVED)
        except BlockingIOError:
            return
        except OSError:
            octets = b""
        if not octets:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._give_up()
            self._on_gone()
            return
        for message in self._frames.feed(octets):
            number, is_failure, value = _envelope.decode(message)
            if number == NOTICE:
                self._on_notice(_notice.decode(value))
                continue
            future, reply = self._waiting.pop(number)
            if future.done():
                continue
            if is_failure:
                future.set_exception(RequestFailed(_failure.decode(value).message))
            else:
                future.set_result(msgspec.msgpack.decode(value, type=reply))

    def _give_up(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for future, _ in waiting.values():
            if not future.done():
                future.set_exception(WorkerGone())
