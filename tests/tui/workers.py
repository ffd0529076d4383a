"""A worker without a screen, in a thread of the test, with requests through its socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec

from tests.readings import CAPTURES
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.tui.client import Notice, RequestFailed
from zmtpscope.tui.framing import NOTICE, Frames, framed
from zmtpscope.tui.requests import Failure, Progress, Request, Started
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.run import run

T = TypeVar("T")
N = TypeVar("N")

PATIENCE = 60.0
"""Seconds that a worker has for a reply."""


class Asker:
    """Sends requests to a worker, and keeps its notices."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._frames = Frames()
        self._messages: list[bytes] = []
        self._number = 0
        self.notices: list[Notice | Started] = []
        self._looked_at = 0
        """Number of notices that `wait_for` has examined."""

    def ask(self, request: Request[T]) -> T:
        self._number += 1
        self._socket.sendall(framed(self._number, False, request))
        while True:
            number, is_failure, value = self._next()
            if number == NOTICE:
                self._keep(value)
            elif is_failure:
                raise RequestFailed(msgspec.msgpack.decode(value, type=Failure).message)
            else:
                assert number == self._number
                reply: T = msgspec.msgpack.decode(value, type=type(request).reply)
                return reply

    def wait_until_loaded(self) -> Progress:
        while True:
            for notice in reversed(self.notices):
                if isinstance(notice, Progress) and notice.is_done:
                    return notice
            number, _, value = self._next()
            assert number == NOTICE
            self._keep(value)

    def wait_for(self, kind: type[N], holds: Callable[[N], bool]) -> N:
        """Wait for the next notice of this type that fulfils a condition, after the ones examined before."""
        while True:
            while self._looked_at < len(self.notices):
                notice = self.notices[self._looked_at]
                self._looked_at += 1
                if isinstance(notice, kind) and holds(notice):
                    return notice
            number, _, value = self._next()
            assert number == NOTICE
            self._keep(value)

    def _keep(self, value: msgspec.Raw) -> None:
        self.notices.append(msgspec.msgpack.decode(value, type=Notice | Started))

    def _next(self) -> tuple[int, bool, msgspec.Raw]:
        while not self._messages:
            octets = self._socket.recv(1 << 20)
            assert octets, "the worker has ended"
            self._messages += self._frames.feed(octets)
        message: tuple[int, bool, msgspec.Raw] = msgspec.msgpack.decode(
            self._messages.pop(0), type=tuple[int, bool, msgspec.Raw]
        )
        return message


@contextmanager
def worker_socket(*paths: str, **settings: Any) -> Iterator[socket.socket]:
    """Yield our end of the socket of a worker that reads captures (names below captures/, or whole paths)."""
    options = Options(index=True, **{"payloads": Registry(None, {}), **settings})
    names = [str(CAPTURES / path) for path in paths]
    with socket_of(Opened(tuple(names), lambda: open_captures(names)), options) as ours:
        yield ours


@contextmanager
def socket_of(opened: Opened, options: Options) -> Iterator[socket.socket]:
    """Yield our end of the socket of a worker that reads an open source."""
    ours, theirs = socket.socketpair()

    def work() -> None:
        with theirs:  # closed if the worker fails, too, like the end of a process
            run(theirs, lambda: (opened, options), is_alone=False)

    thread = threading.Thread(target=work)
    thread.start()
    ours.settimeout(PATIENCE)
    try:
        yield ours
    finally:
        ours.close()
        thread.join(PATIENCE)
        assert not thread.is_alive()


@contextmanager
def worker_with(opened: Opened, options: Options) -> Iterator[Asker]:
    with socket_of(opened, options) as ours:
        yield Asker(ours)


@contextmanager
def worker_of(*paths: str, **settings: Any) -> Iterator[Asker]:
    with worker_socket(*paths, **settings) as ours:
        asker = Asker(ours)
        asker.wait_until_loaded()
        yield asker
