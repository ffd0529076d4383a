"""One connection: a `Peer` with its octets on a stream of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zmtpscope.live.peer.endpoint import Endpoint
from zmtpscope.live.peer.inbox import TURN, Inbox
from zmtpscope.live.peer.streams import StreamReader, connect_ipc, connect_tcp
from zmtpscope.zmtp.peer import Peer, PeerError, PeerEvent, Settings, Violation

if TYPE_CHECKING:
    from zmtpscope.live.recording.recording import RecordedConnection, Recording

PIECE, LEAST_PIECE = 1 << 15, 1 << 8
"""Octets that are read at once: at most, as nobody knows how much work they make, and in the handshake or where they
have made much."""
BODY_PIECE = 1 << 18
"""The same inside of a body, at most: as long as it is not all there, it makes no work."""
MANY, MANY_IN_A_CROWD = 1000, 64
"""Events of one piece, and where others wait for room: what they make the application do is work, too."""
FULL = 1 << 16
"""Octets that are waiting to be sent, and make a sender wait until the system has taken them."""
LINGER = 2.0
"""Seconds for the other side to take what was sent, before a connection that is closed is cut."""
LARGEST_UNREAD = 1 << 20
"""Octets of answers to PINGs that wait because the other side does not read them."""


class Unreachable(PeerError):
    """Nobody could be reached, or the connection was refused."""


async def reach(endpoint: Endpoint, limit: float) -> tuple[StreamReader, asyncio.StreamWriter]:
    """A connection to the endpoint, within `limit` seconds. Raises `Unreachable`."""
    try:
        async with asyncio.timeout(limit):
            if endpoint.path is not None:
                return await connect_ipc(endpoint.path)
            failure = OSError("the name has no address")
            for address in await _addresses(str(endpoint.host)):
                try:
                    reader, writer = await connect_tcp(address, endpoint.port)
                except OSError as error:
                    failure = error
                    continue
                if writer.get_extra_info("peername") is not None:
                    return reader, writer
                writer.close()
                failure = ConnectionResetError(errno.ECONNRESET, "reset before anything was said")
            raise failure
    except TimeoutError:
        raise Unreachable(f"nobody answered within {limit:g} s") from None
    except (OSError, UnicodeError) as error:
        raise Unreachable(reason(error)) from None


async def _addresses(host: str) -> list[str]:
    """The addresses of a name. Raises `OSError`, and `UnicodeError` for what is no name.

    A thread of our own asks for them: a program does not end before those of asyncio do, and nothing stops one that
    waits for a name server.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def ask() -> None:
        found: list[str] | OSError | UnicodeError
        try:
            found = [str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
        except (OSError, UnicodeError) as error:
            found = error
        with contextlib.suppress(RuntimeError):  # nobody waits any more, and the loop is closed
            loop.call_soon_threadsafe(settle, found)

    def settle(found: list[str] | OSError | UnicodeError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError | UnicodeError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    threading.Thread(target=ask, daemon=True).start()
    return await answer


def reason(error: OSError | UnicodeError) -> str:
    """What went wrong, in words."""
    if isinstance(error, UnicodeError):
        return "no host can have this name"
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused: nobody listens there"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()  # asyncio has words of its own
    return (error.strerror or str(error)).lower()


class Connection:
    """Runs until either side closes, or `fail` is called; what the peer hears goes to `hear`, with the octets that it
    came in.

    `inbox` says when what comes is looked at; the other side has to wait until then.
    """

    def __init__(
        self,
        settings: Settings,
        reader: StreamReader,
        writer: asyncio.StreamWriter,
        hear: Callable[[Connection, list[PeerEvent], int], None],
        inbox: Inbox[Connection],
    ) -> None:
        self.since = self.active_at = asyncio.get_running_loop().time()
        """When it was made, and when the other side last sent or took something."""
        self.peer = Peer(settings, self.since)
        self.remote = remote_name(writer)
        self._reader, self._writer = reader, writer
        self._hear = hear
        self._recording: Recording | None = None
        self._recorded: RecordedConnection | None = None
        self._flushing: asyncio.Handle | None = None
        self._waiting = self._written = 0
        self._piece = LEAST_PIECE
        self._task: asyncio.Task[None] | None = None
        self._failure: PeerError | None = None
        self._answered = self._answers_taken = 0
        """Octets of answers to PINGs: those that were handed to the system or wait for it, and those it took."""
        self._keys_told = False
        self._closing = False
        self._closed_by_us = True
        self.lost = False
        """Something of what was said has probably not arrived."""
        self.is_stuck = False
        """It was waited for in vain."""
        self.stuck_at = 0
        self.name = b""
        """What a socket calls the other side that names those it is connected to."""
        self._inbox = inbox
        writer.transport.set_write_buffer_limits(0)  # so that waiting is over when the system has taken everything

    def record(self, recording: Recording, connected_by_us: bool, path: str | None) -> None:
        """Have everything recorded that is said from now on; `path` is that of ipc."""
        self._recording = recording
        if path is not None:
            self._recorded = recording.opened_ipc(path, connected_by_us, time.time_ns())
        else:
            local, remote = map(self._writer.get_extra_info, ("sockname", "peername"))
            self._recorded = recording.opened(local, remote, connected_by_us, time.time_ns())

    async def run(self) -> None:
        """Until the other side closes, or `close` was called. Raises `PeerError`."""
        reset = False
        self._task = asyncio.current_task()
        try:
            if self._failure is None:
                self.flush()
                await self._read_all()
        except OSError:  # reset, or a network that is no longer there
            reset = self.lost = True
            self._end()
        except PeerError:
            if self.peer.ready and self.unsent:  # nothing of that is a last word to it
                self._writer.transport.abort()
            raise
        except asyncio.CancelledError:
            if self._failure is None or self._task is None:
                raise
            self._task.uncancel()
        finally:
            self._let_go(reset)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            try:
                raise failure
            finally:
                del (
                    failure
                )  # its traceback has this frame: together they would be kept until the garbage collector runs

    async def _read_all(self) -> None:
        """Everything that comes, in turn with other connections."""
        while octets := await self._read():
            if self._recorded is not None:
                self._recorded.received(octets, time.time_ns())
            await self._inbox.bring(self, partial(self._look, octets), is_ready=self.peer.ready)
        if self._reader.failure is not None:
            raise self._reader.failure
        self._end()

    def _look(self, octets: bytes) -> None:
        """Take a piece; the next one is smaller where this one made much work. Raises `PeerError`."""
        if self._closing:
            return
        inbox, time_of = self._inbox, time.thread_time  # what other programs take of the processor does not count
        many = MANY_IN_A_CROWD if inbox.awaits_room else MANY
        begin = time_of()
        try:
            count = self._feed(octets)
        finally:
            spent = time_of() - begin
            inbox.turns.spend(spent)
        if spent > TURN or count > many:
            self._piece = max(self._piece // 2, LEAST_PIECE)
        elif self.peer.ready and spent < TURN / 2 and count < many / 4:
            self._piece = min(self._piece * 2, PIECE)

    def fail(self, error: PeerError) -> None:
        """End it at once: `run` raises the error."""
        self._failure = error
        self._writer.transport.abort()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _end(self) -> None:
        """The other side has closed. Raises `PeerError` where it should not have."""
        if not self._closing:
            self._closed_by_us = False
            self.flush()
            self.lost |= bool(_unsent(self._writer))
            self.peer.end()

    async def _read(self) -> bytes:
        """What comes next; empty where the other side closes. Timers run meanwhile."""
        while True:
            try:
                async with asyncio.timeout_at(self.peer.deadline) as timer:
                    return await self._reader.read(max(self._piece, min(self.peer.lacks, BODY_PIECE)))
            except TimeoutError:
                if not timer.expired():  # it is the system that has given up
                    raise
                self.peer.tick(asyncio.get_running_loop().time())
                self.flush()

    def _feed(self, octets: bytes) -> int:
        """How many events they have brought."""
        peer, events = self.peer, []
        before = peer.held
        self.active_at = asyncio.get_running_loop().time()
        try:
            peer.receive(octets, self.active_at)
        finally:
            events = peer.events()
            self._hear(self, events, len(octets) + max(0, before - peer.held))
            self.flush()
        if self._failure is not None:
            raise self._failure
        unread = min(self._answered - self._answers_taken, self.unsent)
        if unread > LARGEST_UNREAD:
            waiting = f"more than {LARGEST_UNREAD >> 20} MiB of them wait"
            raise Violation(f"the other side reads none of the answers to its PINGs: {waiting}")
        return len(events)

    def flush(self) -> None:
        """Hand what the peer has to say to the system."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None
        self._waiting = 0
        if not self.unsent:
            self._answers_taken = self._answered
        self._answered = self.peer.answered
        octets = self.peer.outgoing()
        if not octets:
            return
        if self._writer.is_closing():
            self.lost = True
            return
        if self._recorded is not None:
            self._record_key()
            self._recorded.sent(octets, time.time_ns())
        self._written += len(octets)
        self._writer.write(octets)
        if not self.unsent:
            self.active_at = asyncio.get_running_loop().time()

    def _record_key(self) -> None:
        """Say what opens the connection, once, and in front of what it opens."""
        line = self.peer.key_line
        if line and not self._keys_told and self._recording is not None:
            from zmtpscope.curve_keys import KeyLine  # loads libsodium, which only CURVE needs

            self._keys_told = True
            label, *keys = line
            public, secret, server = map(bytes.fromhex, (*keys, "")[:3])
            self._recording.key(KeyLine(f"CURVE_{label}", public, secret, server or None))

    def flush_soon(self, size: int) -> bool:
        """Something of `size` octets was said: it is sent with what follows at once. True: it was much, and so sent
        now; let everybody else have a turn."""
        self._waiting += size
        if self._waiting > FULL:
            self.flush()
            return True
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self.flush)
        return False

    @property
    def unsent(self) -> int:
        """Octets that the system has not taken: the other side reads nothing, or not as fast."""
        return self._writer.transport.get_write_buffer_size()

    @property
    def taken(self) -> int:
        """Octets that the system of the other side has acknowledged."""
        return self._written - _unsent(self._writer)

    @property
    def held(self) -> int:
        """Octets that the other side makes us keep."""
        return self.peer.held + (self.unsent if self.is_stuck else 0)

    @property
    def is_over(self) -> bool:
        """It is closed, or is about to be."""
        return self._writer.is_closing()

    async def drain(self) -> None:
        """Wait until the system has taken everything, and let everybody else have a turn."""
        self.flush()
        with contextlib.suppress(OSError):
            await self._writer.drain()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Say what is left to say, and close; the other side has `LINGER` seconds to take it."""
        self.flush()
        self._closing = True
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LINGER):
                if self._writer.can_write_eof():
                    self._writer.write_eof()
                await self._writer.drain()

    def _let_go(self, reset: bool) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        if self._recorded is not None:
            self._recorded.closed(self._closed_by_us, reset, time.time_ns())
        self.peer.let_go()
        self._writer.close()
        # what is not taken by then never will be; nobody but us would end that
        asyncio.get_running_loop().call_later(LINGER, self._writer.transport.abort)


def _unsent(writer: asyncio.StreamWriter) -> int:
    """Octets that were said, and that the system of the other side has not acknowledged."""
    octets = writer.transport.get_write_buffer_size()
    descriptor = writer.get_extra_info("socket").fileno()
    if descriptor < 0:  # closed already
        return octets
    return octets + int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def remote_name(writer: asyncio.StreamWriter) -> str:
    """The other side as people write it."""
    address = writer.get_extra_info("peername")
    if not isinstance(address, tuple):
        return "ipc"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
