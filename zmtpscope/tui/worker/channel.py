"""The worker's end of the socket to the screen."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from zmtpscope.tui import requests
from zmtpscope.tui.framing import NOTICE, Frames, framed
from zmtpscope.tui.requests import Failure, Request

REQUESTS = tuple(
    each
    for each in vars(requests).values()
    if isinstance(each, type) and issubclass(each, Request) and each is not Request
)

RECEIVED = 1 << 16


class ScreenGone(Exception):
    """The screen has closed its end of the socket."""


class CannotAnswer(Exception):
    """A request cannot be answered; the text is the reason."""


class Channel:
    """Receives requests of the screen, and sends replies and notices."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._frames = Frames()
        of_requests: Any = REQUESTS[0]
        for each in REQUESTS[1:]:
            of_requests = of_requests | each
        self._decoder = msgspec.msgpack.Decoder(tuple[int, bool, of_requests])

    def receive(self, timeout: float) -> Iterator[tuple[int, Request[Any]]]:
        """Yield the requests received so far, each with its number, after waiting at most `timeout` seconds. Raises
        `ScreenGone`."""
        while select.select([self._socket], [], [], timeout)[0]:
            try:
                octets = self._socket.recv(RECEIVED)
            except OSError:  # the screen closed with notices unread
                raise ScreenGone from None
            if not octets:
                raise ScreenGone
            for message in self._frames.feed(octets):
                number, _, request = self._decoder.decode(message)
                yield number, request
            timeout = 0

    def reply(self, number: int, reply: object) -> None:
        """Send the reply to the request with this number. Raises `ScreenGone`."""
        self._send(framed(number, isinstance(reply, Failure), reply))

    def notify(self, notice: object) -> None:
        """Send a notice. Raises `ScreenGone`."""
        self._send(framed(NOTICE, False, notice))

    def _send(self, octets: bytes) -> None:
        try:
            self._socket.sendall(octets)
        except OSError:
            raise ScreenGone from None
