"""A `Peer` that sends and receives over an asyncio stream."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import sys
import termios
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zmtpscope.live.peer.arguments import Endpoint
from zmtpscope.live.peer.inbox import TURN, Inbox
from zmtpscope.live.peer.streams import StreamReader, connect_ipc, connect_tcp
from zmtpscope.live.worker import Worker
from zmtpscope.words import host_port
from zmtpscope.zmtp.peer import Peer, PeerError, PeerEvent, Settings, Violation

if TYPE_CHECKING:
    from zmtpscope.live.recording.recording import RecordedConnection, Recording

PIECE, MIN_PIECE = 1 << 15, 1 << 8
"""Octets of a read.

The work for a read is unknown in advance, so reads are small in the handshake, and after a read that took long.
"""
BODY_PIECE = 1 << 18
"""Octets of a read inside a message body, which makes no work until complete."""
MANY, MANY_IN_A_CROWD = 1000, 64
"""Events of a read, normally and while connections wait for room: the application's work for events counts too."""
FULL = 1 << 16
"""Waiting octets above which a sender waits until the system has taken them."""
LINGER = 2.0
"""Seconds in which the other endpoint may take the remaining octets of a closed connection, before it is aborted."""
LARGEST_UNREAD = 1 << 20
"""Octets of PONGs that wait because the other endpoint does not read."""


class Unreachable(PeerError):
    """The endpoint could not be reached, or refused the connection."""


async def reach(endpoint: Endpoint, limit: float) -> tuple[StreamReader, asyncio.StreamWriter]:
    """Connect to an endpoint within `limit` seconds; return the streams. Raises `Unreachable`."""
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
                failure = ConnectionResetError(errno.ECONNRESET, "reset before any data")
            raise failure
    except TimeoutError:
        raise Unreachable(f"no answer within {limit:g} s") from None
    except (OSError, UnicodeError) as error:
        raise Unreachable(reason(error)) from None


async def _addresses(host: str) -> list[str]:
    """Return the IP addresses of a host name. Raises `OSError`, and `UnicodeError` for an invalid name.

    The lookup runs in a daemon thread, since asyncio's own threads keep the program from ending while a name server
    does not answer.
    """
    worker = Worker("lookup")
    try:
        found = await worker.call(partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM))
    finally:
        worker.close()
    return [str(each[4][0]) for each in found]


def reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError):
        return "not a valid host name"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens on the port"
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno).lower()  # asyncio uses other texts
    return (error.strerror or str(error)).lower()


class Connection:
    """A connection of a socket, which runs until either side closes it or `fail` is called.

    `hear` is called with each event of the peer, and the number of octets that arrived with it. `inbox` decides when
    received octets are processed; nothing more is read until then.
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
        """When the connection was made, and when the other endpoint last sent or acknowledged octets."""
        self.peer = Peer(settings, self.since)
        self.remote = remote_name(writer)
        self._reader, self._writer = reader, writer
        self._handle = hear
        self._recording: Recording | None = None
        self._recorded: RecordedConnection | None = None
        self._flushing: asyncio.Handle | None = None
        self._waiting = self._written = 0
        self._piece = MIN_PIECE
        self._task: asyncio.Task[None] | None = None
        self._failure: PeerError | None = None
        self._answered = self._answers_taken = 0
        """Octets of PONGs: passed to the system, and acknowledged by the other endpoint."""
        self._keys_recorded = False
        self._closing = False
        self._closed_by_us = True
        self.lost = False
        """Whether some sent octets have probably not arrived."""
        self.is_stuck = False
        """Whether a sender has waited for this connection until the send timeout."""
        self.stuck_at = 0
        """`taken` at the last send timeout."""
        self.name = b""
        """Routing id of the other endpoint on ROUTER, SERVER and PEER sockets."""
        self._inbox = inbox
        writer.transport.set_write_buffer_limits(0)  # `drain` returns only when the system has taken everything

    def record(self, recording: Recording, connected_by_us: bool, path: str | None) -> None:
        """Record all traffic from now on in `recording`; `path` is the path of an ipc endpoint, or None."""
        self._recording = recording
        if path is not None:
            self._recorded = recording.opened_ipc(path, connected_by_us, time.time_ns())
        else:
            local, remote = map(self._writer.get_extra_info, ("sockname", "peername"))
            self._recorded = recording.opened(local, remote, connected_by_us, time.time_ns())

    async def run(self) -> None:
        """Run the connection until it ends. Raises `PeerError`."""
        reset = False
        self._task = asyncio.current_task()
        try:
            if self._failure is None:
                self.flush()
                await self._read_all()
        except OSError:  # reset, or the network is gone
            reset = self.lost = True
            self._end()
        except PeerError:
            if self.peer.ready and self.unsent:  # queued messages are of no use after an error
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
                )  # the traceback refers to this frame: the cycle would keep both until the garbage collector runs

    async def _read_all(self) -> None:
        """Read and process octets until the end of the stream, in turn with other connections."""
        while octets := await self._read():
            if self._recorded is not None:
                self._recorded.received(octets, time.time_ns())
            await self._inbox.process_in_turn(self, partial(self._look, octets), is_ready=self.peer.ready)
        if self._reader.failure is not None:
            raise self._reader.failure
        self._end()

    def _look(self, octets: bytes) -> None:
        """Process received octets. If that took long, the next read is smaller. Raises `PeerError`."""
        if self._closing:
            return
        inbox, time_of = self._inbox, time.thread_time  # excludes time that other programs use
        many = MANY_IN_A_CROWD if inbox.awaits_room else MANY
        begin = time_of()
        try:
            count = self._feed(octets)
        finally:
            spent = time_of() - begin
            inbox.turns.spend(spent)
        if spent > TURN or count > many:
            self._piece = max(self._piece // 2, MIN_PIECE)
        elif self.peer.ready and spent < TURN / 2 and count < many / 4:
            self._piece = min(self._piece * 2, PIECE)

    def fail(self, error: PeerError) -> None:
        """Abort the connection; `run` then raises `error`."""
        self._failure = error
        self._writer.transport.abort()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def _end(self) -> None:
        """Process the end of the stream. Raises `PeerError` if it is inside the handshake or a message."""
        if not self._closing:
            self._closed_by_us = False
            self.flush()
            self.lost |= bool(_unsent(self._writer))
            self.peer.end()

    async def _read(self) -> bytes:
        """Return the next octets, or none at the end of the stream. While waiting, run the timers of the peer."""
        while True:
            try:
                async with asyncio.timeout_at(self.peer.deadline) as timer:
                    return await self._reader.read(max(self._piece, min(self.peer.missing_octets, BODY_PIECE)))
            except TimeoutError:
                if not timer.expired():  # the timeout is the system's
                    raise
                self.peer.tick(asyncio.get_running_loop().time())
                self.flush()

    def _feed(self, octets: bytes) -> int:
        """Pass octets to the ZMTP peer; return the number of its events."""
        peer, events = self.peer, []
        before = peer.held
        self.active_at = asyncio.get_running_loop().time()
        try:
            peer.receive(octets, self.active_at)
        finally:
            events = peer.events()
            self._handle(self, events, len(octets) + max(0, before - peer.held))
            self.flush()
        if self._failure is not None:
            raise self._failure
        unread = min(self._answered - self._answers_taken, self.unsent)
        if unread > LARGEST_UNREAD:
            waiting = f"more than {LARGEST_UNREAD >> 20} MiB of them wait"
            raise Violation(f"the other side does not read the answers to its PINGs: {waiting}")
        return len(events)

    def flush(self) -> None:
        """Write the outgoing octets of the ZMTP peer to the stream."""
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
        """Record the session keys once, before the first octets that they decrypt."""
        line = self.peer.key_line
        if line and not self._keys_recorded and self._recording is not None:
            from zmtpscope.curve_keys import KeyLine

            self._keys_recorded = True
            label, *keys = line
            public, secret, server = map(bytes.fromhex, (*keys, "")[:3])
            self._recording.key(KeyLine(f"CURVE_{label}", public, secret, server or None))

    def flush_soon(self, size: int) -> bool:
        """Send a message of `size` octets, together with messages that follow at once.

        Returns True after many octets: the caller should let other tasks run.
        """
        self._waiting += size
        if self._waiting > FULL:
            self.flush()
            return True
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_soon(self.flush)
        return False

    @property
    def unsent(self) -> int:
        """The number of octets that were sent and not yet acknowledged, because the other endpoint reads slowly or not
        at all."""
        return self._writer.transport.get_write_buffer_size()

    @property
    def taken(self) -> int:
        """The number of octets that the system of the other endpoint has acknowledged."""
        return self._written - _unsent(self._writer)

    @property
    def held(self) -> int:
        return self.peer.held + (self.unsent if self.is_stuck else 0)

    @property
    def is_over(self) -> bool:
        return self._writer.is_closing()

    async def drain(self) -> None:
        """Wait until the operating system has accepted all outgoing octets, and let other tasks run."""
        self.flush()
        with contextlib.suppress(OSError):
            await self._writer.drain()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Send the remaining octets and close, within `LINGER` seconds."""
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
        # octets not taken by then are lost; without this the transport would wait forever
        asyncio.get_running_loop().call_later(LINGER, self._writer.transport.abort)


def _unsent(writer: asyncio.StreamWriter) -> int:
    """Return the number of octets that the system of the other endpoint has not acknowledged."""
    octets = writer.transport.get_write_buffer_size()
    descriptor = writer.get_extra_info("socket").fileno()
    if descriptor < 0:  # already closed
        return octets
    return octets + int.from_bytes(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def remote_name(writer: asyncio.StreamWriter) -> str:
    address = writer.get_extra_info("peername")
    if not isinstance(address, tuple):
        return "ipc"
    host, port = address[:2]
    return host_port(host, port)
