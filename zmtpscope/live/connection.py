"""One connection: a `Peer` with its octets on a stream of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol

from zmtpscope.live.endpoint import Endpoint
from zmtpscope.zmtp.peer import Peer, PeerError, PeerEvent, Settings

PIECE = 1 << 18
"""Octets that are read at once."""
FULL = 1 << 16
"""Octets that are waiting to be sent, and make a sender wait until the system has taken them."""
LINGER = 2.0
"""Seconds for the other side to take what was sent, before a connection that is closed is cut."""


class Unreachable(PeerError):
    """Nobody could be reached, or the connection was refused."""


async def reach(endpoint: Endpoint, limit: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the endpoint, within `limit` seconds. Raises `Unreachable`."""
    try:
        async with asyncio.timeout(limit):
            if endpoint.path is not None:
                return await asyncio.open_unix_connection(endpoint.path)
            failure = OSError("the name has no address")
            for address in await _addresses(str(endpoint.host)):
                try:
                    return await asyncio.open_connection(address, endpoint.port)
                except OSError as error:
                    failure = error
            raise failure
    except TimeoutError:
        raise Unreachable(f"nobody answered within {limit:g} s") from None
    except OSError as error:
        raise Unreachable(reason(error)) from None


async def _addresses(host: str) -> list[str]:
    """The addresses of a name. Raises `OSError`.

    A thread of our own asks for them: a program does not end before those of asyncio do, and nothing stops one that
    waits for a name server.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        found: list[str] | OSError
        try:
            found = [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            found = error
        except UnicodeError:
            found = OSError("no host can have this name")
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(tell, found)

    def tell(found: list[str] | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    threading.Thread(target=ask, daemon=True).start()
    return await answer


def reason(error: OSError) -> str:
    """What went wrong, in words."""
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused: nobody listens there"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()  # asyncio has words of its own
    return (error.strerror or str(error)).lower()


class Tap(Protocol):
    """Who takes notes of one connection (`zmtpscope.live.recording`); times are nanoseconds since the epoch."""

    def sent(self, octets: bytes, time: int) -> None: ...
    def received(self, octets: bytes, time: int) -> None: ...
    def closed(self, by_us: bool, reset: bool, time: int) -> None: ...
    def key_line(self, line: tuple[str, ...]) -> None: ...


class Connection:
    """Runs until either side closes; what the peer hears goes to `hear`, event by event."""

    def __init__(
        self,
        settings: Settings,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hear: Callable[[Connection, PeerEvent], None],
        tap: Tap | None = None,
    ) -> None:
        self.peer = Peer(settings, asyncio.get_running_loop().time())
        self.remote = remote_name(writer)
        self._reader, self._writer = reader, writer
        self._hear = hear
        self._tap = tap
        self._flushing: asyncio.Handle | None = None
        self._waiting = 0
        self._keys_told = False
        self._closing = False
        self.room = asyncio.Event()
        """Cleared while nobody takes what comes: then nothing more is read, and the other side has to wait."""
        self.room.set()

    async def run(self) -> None:
        """Until the other side closes, or `close` was called. Raises `PeerError`."""
        reset = False
        try:
            self.flush()
            while octets := await self._read():
                if self._tap is not None:
                    self._tap.received(octets, time.time_ns())
                self._take(octets)
            if not self._closing:
                self.peer.end()
        except ConnectionError:
            reset = True
            if not self._closing:
                self.peer.end()
        finally:
            self._let_go(reset)

    async def _read(self) -> bytes:
        """What comes next; empty where the other side closes. Timers run meanwhile."""
        await self.room.wait()
        while True:
            try:
                async with asyncio.timeout_at(self.peer.deadline):
                    return await self._reader.read(PIECE)
            except TimeoutError:
                self.peer.tick(asyncio.get_running_loop().time())
                self.flush()

    def _take(self, octets: bytes) -> None:
        peer = self.peer
        try:
            peer.receive(octets, asyncio.get_running_loop().time())
        finally:
            for event in peer.events():
                self._hear(self, event)
            self.flush()

    def flush(self) -> None:
        """Hand what the peer has to say to the system."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._waiting = 0
        octets = self.peer.outgoing()
        if not octets or self._writer.is_closing():
            return
        if self._tap is not None:
            if not self._keys_told and self.peer.key_line:
                self._keys_told = True
                self._tap.key_line(self.peer.key_line)
            self._tap.sent(octets, time.time_ns())
        self._writer.write(octets)

    def flush_soon(self, size: int) -> bool:
        """Something of `size` octets was said: it is sent with what follows at once. True: too much is waiting, so
        call `drain`."""
        self._waiting += size
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self.flush)
        return self._waiting > FULL

    async def drain(self) -> None:
        """Wait until the system takes more, and let everybody else have a turn."""
        self.flush()
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Say what is left to say, and close; the other side has `LINGER` seconds to take it."""
        self.flush()
        self._closing = True
        self.room.set()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                await self._writer.drain()

    def _let_go(self, reset: bool) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        if self._tap is not None:
            self._tap.closed(self._closing, reset, time.time_ns())
        self._writer.close()


def remote_name(writer: asyncio.StreamWriter) -> str:
    """The other side as people write it."""
    address = writer.get_extra_info("peername")
    if not isinstance(address, tuple):
        return "ipc"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
