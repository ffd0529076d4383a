"""Streams of asyncio that give all that came before a connection failed; those of asyncio forget what was not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class StreamReader(asyncio.StreamReader):
    """Ends where the connection failed, and has the `failure` then."""

    failure: Exception | None = None

    def set_exception(self, exc: Exception) -> None:
        """Called by asyncio."""
        self.failure = exc
        self.feed_eof()


Opened = Callable[[StreamReader, asyncio.StreamWriter], None]


async def connect_tcp(host: str, port: int) -> tuple[StreamReader, asyncio.StreamWriter]:
    """As `asyncio.open_connection`. Raises `OSError`."""
    return await _connected(lambda protocol: asyncio.get_running_loop().create_connection(protocol, host, port))


async def connect_ipc(path: str) -> tuple[StreamReader, asyncio.StreamWriter]:
    """As `asyncio.open_unix_connection`. Raises `OSError`."""
    return await _connected(lambda protocol: asyncio.get_running_loop().create_unix_connection(protocol, path))


async def _connected(connect: Callable[[Any], Any]) -> tuple[StreamReader, asyncio.StreamWriter]:
    reader = StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await connect(lambda: protocol)
    return reader, asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())


async def listen_tcp(opened: Opened, host: str | None, port: int) -> asyncio.Server:
    """As `asyncio.start_server`. Raises `OSError`."""
    return await asyncio.get_running_loop().create_server(lambda: _accepting(opened), host, port)


async def listen_ipc(opened: Opened, path: str) -> asyncio.Server:
    """As `asyncio.start_unix_server`. Raises `OSError`."""
    return await asyncio.get_running_loop().create_unix_server(lambda: _accepting(opened), path)


def _accepting(opened: Opened) -> asyncio.StreamReaderProtocol:
    reader = StreamReader()
    return asyncio.StreamReaderProtocol(reader, lambda _, writer: opened(reader, writer))
