"""asyncio streams that return all octets that were received before a connection failed; the streams of asyncio drop
unread ones.

They also read less in advance: all connections of a socket share one receive buffer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

LARGEST_TAKEN, MIN_TAKEN = 1 << 18, 1 << 14
"""Largest and smallest number of octets of one read from the system."""
TAKEN_BY_ALL = 1 << 24
"""Octets of a read, summed over all connections of a socket."""
READ_AHEAD = 1 << 14
"""Half the unread octets above which reading pauses."""


class StreamReader(asyncio.StreamReader):
    """A stream reader that ends when its connection fails; `failure` is then the error."""

    failure: Exception | None = None

    def set_exception(self, exc: Exception) -> None:
        self.failure = exc
        self.feed_eof()


Opened = Callable[[StreamReader, asyncio.StreamWriter], None]


async def connect_tcp(host: str, port: int) -> tuple[StreamReader, asyncio.StreamWriter]:
    """Connect like `asyncio.open_connection`. Raises `OSError`."""
    return await _connected(lambda protocol: asyncio.get_running_loop().create_connection(protocol, host, port))


async def connect_ipc(path: str) -> tuple[StreamReader, asyncio.StreamWriter]:
    """Connect like `asyncio.open_unix_connection`. Raises `OSError`."""
    return await _connected(lambda protocol: asyncio.get_running_loop().create_unix_connection(protocol, path))


async def _connected(connect: Callable[[Any], Any]) -> tuple[StreamReader, asyncio.StreamWriter]:
    reader = StreamReader(READ_AHEAD)
    protocol = _Protocol(reader, None, _Taking())
    transport, _ = await connect(lambda: protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


async def listen_tcp(opened: Opened, host: str | None, port: int) -> asyncio.Server:
    """Listen like `asyncio.start_server`, with streams of this module; `opened` is called for each connection. Raises
    `OSError`."""
    return await asyncio.get_running_loop().create_server(_accepting(opened), host, port)


async def listen_ipc(opened: Opened, path: str) -> asyncio.Server:
    """Listen like `asyncio.start_unix_server`, with streams of this module; `opened` is called for each connection.
    Raises `OSError`."""
    return await asyncio.get_running_loop().create_unix_server(_accepting(opened), path)


def _accepting(opened: Opened) -> Callable[[], _Protocol]:
    taking = _Taking()

    def accept() -> _Protocol:
        reader = StreamReader(READ_AHEAD)
        return _Protocol(reader, lambda _, writer: opened(reader, writer), taking)

    return accept


class _Taking:
    """The receive buffer that the connections of one socket use in turn."""

    def __init__(self) -> None:
        self.octets = memoryview(bytearray(LARGEST_TAKEN))
        self.connections = 0

    def share(self) -> memoryview:
        """Return the part of the buffer for the next read."""
        return self.octets[: max(MIN_TAKEN, min(LARGEST_TAKEN, TAKEN_BY_ALL // max(1, self.connections)))]


class _Protocol(asyncio.StreamReaderProtocol, asyncio.BufferedProtocol):
    """An asyncio protocol that reads into the shared buffer `taking`."""

    def __init__(
        self, reader: StreamReader, opened: Callable[[Any, asyncio.StreamWriter], None] | None, taking: _Taking
    ) -> None:
        super().__init__(reader, opened)
        self._reader, self._taking = reader, taking

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._taking.connections += 1
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._taking.connections -= 1
        super().connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._taking.share()

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.feed_data(self._taking.octets[:nbytes])
