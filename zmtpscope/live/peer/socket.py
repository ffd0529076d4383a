"""A ZeroMQ socket over asyncio: one or several connections, and which of them messages come from and go to.

    async with connect("tcp://127.0.0.1:5555", "REQ") as socket:
        await socket.send([b"hello"])
        print(await socket.receive())

Messages are lists of octets, one for each part. On ROUTER, SERVER and PEER sockets the first part says which peer: the
identity of the other side, or one that is made for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from zmtpscope.live.peer.connection import FULL, LINGER, Connection, Unreachable, reach, reason, remote_name
from zmtpscope.live.peer.connection_pool import ConnectionPool
from zmtpscope.live.peer.endpoint import Endpoint, parse_endpoint
from zmtpscope.live.peer.inbox import Inbox
from zmtpscope.live.peer.routing import ROUTES, Route
from zmtpscope.live.peer.send_timeout import SendTimeout
from zmtpscope.live.peer.streams import StreamReader, listen_ipc, listen_tcp
from zmtpscope.records import from_text
from zmtpscope.zmtp.peer import (
    ClosedHalfWay,
    Dropped,
    Message,
    PeerError,
    PeerEvent,
    Ready,
    Settings,
    Subscription,
    TooSlow,
)
from zmtpscope.zmtp.peer.patterns import check_member, check_subscriber
from zmtpscope.zmtp.peer.settings import PART_COST
from zmtpscope.zmtp.socket_types import SUBSCRIBERS

if TYPE_CHECKING:
    from zmtpscope.live.recording.recording import Recording

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Seconds between attempts to connect, which double from the first to the longest; each is drawn from half as many to
half as many more, so that many clients of one server do not come back together."""
CONNECT_LIMIT = 5.0
"""Seconds for one attempt to reach the other side, where a handshake has no less."""

MOST_IN_VAIN = 32
"""Messages that go to nobody, after which everybody else has a turn."""
MOST_AT_ONCE = 256
"""Messages that are received one after the other while more are there, after which everybody else has a turn."""
LEAST_FRAME = 2
"""Octets of a frame beyond its body."""


class ConnectionClosed(NamedTuple):
    """The other side closed the connection between two messages, as it may; `lost`: before it had all of ours."""

    lost: bool


Report = Callable[[str, PeerEvent | PeerError | ConnectionClosed], None]
"""Told whatever else happens: the other side, and what it did or why its connection ended."""


class Socket:
    """Make one with `connect` or `bind`, and use it with `async with`.

    A socket that connects comes back when the connection is lost, and gives up (`receive` and `send` raise `PeerError`)
    where that would not help: refused keys, unfit socket types, something else than ZMTP. One that listens goes on
    whatever single connections do. `report` is told of both.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: Settings,
        *,
        listens: bool,
        report: Report | None = None,
        recording: Recording | None = None,
        comes_back: bool = True,
    ) -> None:
        self.endpoint = endpoint
        self.settings = settings
        self.failure: PeerError | None = None
        """Why nothing more will come."""
        self._listens = listens
        self._report = report or (lambda remote, what: None)
        self._recording = recording
        self._comes_back = comes_back
        self._route = ROUTES[settings.socket_type]
        self._asks = settings.socket_type == "REQ"
        self._pool = ConnectionPool(settings.limits.message)
        self._ready: dict[Connection, None] = {}
        """Those that have completed their handshake."""
        self._turns: deque[Connection] = deque()
        """Those of them that take what is sent, as far as is known, in turn."""
        self._names: dict[bytes, Connection] = {}
        self._inbox: Inbox[Connection] = Inbox()
        self._changed = asyncio.Event()
        """Set whenever somebody who waits should look again."""
        self._in_vain = 0
        """Messages that were sent to nobody."""
        self._received = 0
        """Messages since everybody else had a turn."""
        self._asker: tuple[Connection, Message] | None = None
        self._asked: Connection | None = None
        self._lost: PeerError | None = None
        """The one that was asked has gone."""
        self._topics: list[bytes] = []
        self._groups: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._waits: set[asyncio.Task[None]] = set()
        """For connections in front of which it is full."""
        self._server: asyncio.Server | None = None
        self._closed = False
        self._delay = FIRST_DELAY
        """Seconds before the next attempt to connect, on the average."""
        self._send_timeout = SendTimeout()

    async def __aenter__(self) -> Self:
        if self._listens:
            await self._listen()
        else:
            self._start(self._keep_connected(), self._tasks)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Send what is left to send, and close all connections."""
        self._closed = True
        self._inbox.close()
        if self._server is not None:
            self._server.close()
        for wait in self._waits:
            wait.cancel()
        await asyncio.gather(*self._waits, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in list(self._ready)))
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=LINGER if self._ready else 0)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._endpoint_is_ours:
            with contextlib.suppress(OSError):
                os.unlink(str(self.endpoint.path))

    # -- messages ------------------------------------------------------------------------------------------------------

    async def receive(self) -> list[bytes]:
        """The next message. Raises `PeerError` where none will come any more."""
        (message,) = await self.receive_all(1)
        return message

    async def receive_all(self, most: int | None = None) -> list[list[bytes]]:
        """The messages that are there, at most `most`, and one where an answer is due to each; waits for the first.
        Raises `PeerError` where none will come any more."""
        if self._received >= MOST_AT_ONCE:
            self._received = 0
            await asyncio.sleep(0)
        while not self._inbox:
            self._received = 0
            self._give_up_if_failed()
            if self._lost is not None:
                lost, self._lost = self._lost, None
                raise lost
            await self._wait()
        one = self._route is Route.BACK or self._asks
        taken = self._inbox.take(1 if one else most or len(self._inbox))
        self._received += len(taken)
        if self._route is Route.NAMED:
            return [[connection.name, *message.parts] for connection, message in taken]
        if self._route is Route.BACK:
            (self._asker,) = taken
        self._asked = None
        return [message.parts for _, message in taken]

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        while True:
            yield await self.receive()

    async def send(self, parts: Sequence[bytes]) -> int:
        """Send one message; waits for a connection where it goes to one of several. To how many it was sent: 0 where
        nobody wants it, or the one that it is for has gone.

        Raises `ValueError` for what the socket type cannot send, and `PeerError` where there will be no connection any
        more.
        """
        sent = await self._hand(parts)
        if not sent:  # nothing has made it wait, and those it is for may be about to come
            self._in_vain += 1
            if self._in_vain % MOST_IN_VAIN == 0:
                await asyncio.sleep(0)
        return sent

    async def _hand(self, parts: Sequence[bytes]) -> int:
        if self._route is Route.ALL:
            self._give_up_if_failed()
            return await self._send_to(list(self._ready), parts)
        if self._route is Route.NAMED:
            if len(parts) < 2:
                raise ValueError(f"the first part of a message on a {self.settings.socket_type} socket says to whom")
            named = self._names.get(parts[0])
            return 0 if named is None else await self._send_to([named], parts[1:])
        if self._route is Route.BACK:
            if self._asker is None:
                raise ValueError("a REP socket answers: first receive a request")
            connection, request = self._asker
            sent = await self._send_to([connection] if connection in self._ready else [], parts, request.envelope)
            self._asker = None
            return sent
        if self._asks and self._asked is not None:
            raise ValueError("a REQ socket waits for the reply before it asks again")
        return await self._send_in_turn(await self._next_to_take(), parts)

    async def _next_to_take(self) -> Connection:
        """The next connection in turn whose other side takes what is sent; waits for one. Raises `PeerError` where
        there will be none."""
        while True:
            await self.wait_ready()
            while self._turns:
                connection = self._turns.popleft()
                if not connection.unsent:
                    self._turns.append(connection)
                    return connection
                self._start(self._await_turn(connection), self._waits)
            await self._wait()

    async def _await_turn(self, connection: Connection) -> None:
        """It has its turn again when it has taken what was sent."""
        await connection.drain()
        if connection in self._ready:
            self._turns.append(connection)
            self._changed.set()

    async def _send_in_turn(self, connection: Connection, parts: Sequence[bytes]) -> int:
        connection.peer.send(parts)
        if self._asks:
            self._asked, self._lost = connection, None
        if connection.flush_soon(_size(parts)):
            await asyncio.sleep(0)
        return 1

    async def _send_to(
        self, connections: Sequence[Connection], parts: Sequence[bytes], envelope: Sequence[bytes] = ()
    ) -> int:
        """Send to those that want it, and wait until they take more, all at the same time. One that was waited for in
        vain gets nothing until it does: others are waiting."""
        sent, much = 0, False
        dropped = Dropped([*parts], "the other side takes nothing of what is sent")
        full: list[Connection] = []
        for connection in connections:
            if connection.is_stuck and connection.unsent > FULL:
                if connection.peer.wants(parts[0]):
                    self._report(connection.remote, dropped)
                continue
            connection.is_stuck = False
            if not connection.peer.send(parts, envelope):
                continue
            sent += 1
            much |= connection.flush_soon(_size(parts))
            if connection.unsent > FULL:
                full.append(connection)
        if full:
            await self._wait_for(full)
        elif much:
            await asyncio.sleep(0)
        return sent

    async def _wait_for(self, connections: list[Connection]) -> None:
        await self._send_timeout.wait_for(connections)
        for connection in connections:
            if connection.is_stuck:
                self._charge(connection)

    async def subscribe(self, topic: bytes) -> None:
        """Ask all that are connected, now or later, for messages that begin with `topic` (SUB, XSUB).

        Raises `ValueError` on sockets of other types.
        """
        check_subscriber(self.settings.socket_type)
        self._topics.append(topic)
        self._tell_all(lambda connection: connection.peer.subscribe(topic))

    async def cancel(self, topic: bytes) -> None:
        """Take back one `subscribe`. Raises `ValueError` where there was none."""
        self._topics.remove(topic)
        self._tell_all(lambda connection: connection.peer.cancel(topic))

    async def join(self, group: str) -> None:
        """Ask for the messages of `group`, a `text` (DISH). Raises `ValueError` for what is no group."""
        check_member(self.settings.socket_type, from_text(group))
        self._groups.append(group)
        self._tell_all(lambda connection: connection.peer.join(group))

    async def leave(self, group: str) -> None:
        """Take back one `join`. Raises `ValueError` where there was none."""
        self._groups.remove(group)
        self._tell_all(lambda connection: connection.peer.leave(group))

    def _tell_all(self, say: Callable[[Connection], None]) -> None:
        for connection in self._ready:
            say(connection)
            connection.flush()

    @property
    def waiting(self) -> int:
        """How many messages `receive` gives at once."""
        return len(self._inbox)

    @property
    def connected(self) -> int:
        """How many connections have completed their handshake."""
        return len(self._ready)

    async def wait_ready(self, count: int = 1) -> None:
        """Until so many connections have completed their handshake. Raises `PeerError` where that will not happen."""
        while len(self._ready) < count:
            self._give_up_if_failed()
            await self._wait()

    async def flush(self) -> None:
        """Until the system has taken what was sent so far, but for those that were waited for in vain. What was sent to
        one of several is waited for as long as it takes: nobody else gets it."""
        for connection in self._ready:
            connection.flush()
        full = [connection for connection in self._ready if connection.unsent and not connection.is_stuck]
        if self._route is Route.TURN:
            await asyncio.gather(*(connection.drain() for connection in full))
        else:
            await self._wait_for(full)

    def _give_up_if_failed(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # -- connections ---------------------------------------------------------------------------------------------------

    def _start(self, work: Any, tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    @property
    def _endpoint_is_ours(self) -> bool:
        """A file of ipc that was made here."""
        path = self.endpoint.path
        return self._server is not None and path is not None and not path.startswith("\0")

    async def _listen(self) -> None:
        endpoint = self.endpoint
        try:
            if endpoint.path is not None:
                self._server = await listen_ipc(self._accept, endpoint.path)
            else:
                self._server = await listen_tcp(self._accept, endpoint.host, endpoint.port)
                self.endpoint = endpoint._replace(port=self._server.sockets[0].getsockname()[1])
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"cannot listen on {endpoint}: {reason(error)}") from None

    def _accept(self, reader: StreamReader, writer: asyncio.StreamWriter) -> None:
        """No coroutine: asyncio of Python 3.11 complains of those that are cancelled."""
        if self._closed:
            writer.close()
        elif not self._pool.is_full or self._make_room():
            self._start(self._serve(self._connection(reader, writer)), self._tasks)
        else:
            self._report(remote_name(writer), self._pool.rejection())
            writer.transport.abort()

    def _make_room(self) -> bool:
        """Close a connection that nobody needs; False where there is none."""
        eviction = self._pool.evict(asyncio.get_running_loop().time())
        if eviction is None:
            return False
        self._end(*eviction)
        return True

    async def _serve(self, connection: Connection) -> None:
        with contextlib.suppress(PeerError):
            await self._run(connection)

    async def _keep_connected(self) -> None:
        while not self._closed:
            failure: PeerError = ClosedHalfWay("the other side closed the connection")
            try:
                await self._run(self._connection(*await self._reach()))
            except PeerError as error:
                failure = error
            if not self._comes_back or not isinstance(failure, Unreachable | ClosedHalfWay | TooSlow):
                self.failure = failure
                self._changed.set()
                return
            await asyncio.sleep(self._delay * random.uniform(0.5, 1.5))
            self._delay = min(2 * self._delay, LONGEST_DELAY)

    async def _reach(self) -> tuple[StreamReader, asyncio.StreamWriter]:
        try:
            return await reach(self.endpoint, min(CONNECT_LIMIT, self.settings.limits.handshake))
        except Unreachable as error:
            self._report(str(self.endpoint), error)
            raise

    def _connection(self, reader: StreamReader, writer: asyncio.StreamWriter) -> Connection:
        connection = Connection(self.settings, reader, writer, self._hear, self._inbox)
        self._pool.add(connection)
        return connection

    async def _run(self, connection: Connection) -> None:
        """One connection to its end. Raises `PeerError`."""
        if self._recording is not None:
            connection.record(self._recording, not self._listens, self.endpoint.path)
        failure = None
        try:
            await connection.run()
        except PeerError as error:
            failure = error
            self._report(connection.remote, error)
            raise
        finally:
            self._forget(connection, failure)
        if not self._closed:
            self._report(connection.remote, ConnectionClosed(connection.lost))

    def _hear(self, connection: Connection, events: list[PeerEvent], size: int) -> None:
        """What `size` octets have brought."""
        self._charge(connection)
        inbox = self._inbox
        waiting = len(inbox)
        chooses = self._asks or connection.peer.version == "1.0"
        for event in events:
            if not isinstance(event, Message):
                self._note(connection, event)
            elif not chooses or self._is_wanted(connection, event):
                inbox.add(connection, event)
        if count := len(inbox) - waiting:
            self._changed.set()
            inbox.charge(connection, size + count * PART_COST)

    def _charge(self, connection: Connection) -> None:
        """See that all connections together hold no more than they may."""
        for eviction in self._pool.charge(connection):
            self._end(*eviction)

    def _end(self, connection: Connection, error: PeerError) -> None:
        """Close a connection at once, and have its place."""
        self._forget(connection, error)
        connection.fail(error)

    def _is_wanted(self, connection: Connection, message: Message) -> bool:
        if self._asks and (connection is not self._asked or self._inbox):
            self._report(connection.remote, Dropped(message.parts, "no request waits for this reply"))
            return False
        return connection.peer.version != "1.0" or self._is_asked_for(message.parts[0])

    def _note(self, connection: Connection, event: PeerEvent) -> None:
        """Anything but a message."""
        if isinstance(event, Ready):
            self._welcome(connection, event)
        elif isinstance(event, Subscription) and self.settings.socket_type == "XPUB":
            self._inbox.add(connection, Message([bytes([event.begins]) + event.topic]))
        self._report(connection.remote, event)

    def _is_asked_for(self, topic: bytes) -> bool:
        """Whether we have subscribed to it: 1.0 has no way to tell a publisher, so that each subscriber looks."""
        return self.settings.socket_type not in SUBSCRIBERS or any(map(topic.startswith, self._topics))

    def _welcome(self, connection: Connection, event: Ready) -> None:
        for topic in self._topics:
            connection.peer.subscribe(topic)
        for group in self._groups:
            connection.peer.join(group)
        if self._route is Route.NAMED:
            name = from_text(event.identity or "")
            if not name or name in self._names:
                name = b"\0" + os.urandom(4)
            connection.name = name
            self._names[name] = connection
        self._ready[connection] = None
        if self._route is Route.TURN:
            self._turns.append(connection)
        self._delay = FIRST_DELAY
        self._changed.set()

    def _forget(self, connection: Connection, failure: PeerError | None) -> None:
        self._pool.remove(connection)
        self._ready.pop(connection, None)
        if connection in self._turns:
            self._turns.remove(connection)
        if self._names.get(connection.name) is connection:
            del self._names[connection.name]
        if self._asked is connection and not self._inbox:
            self._asked = None
            self._lost = failure or ClosedHalfWay("the other side closed, and did not answer the request")
        self._changed.set()


def _size(parts: Sequence[bytes]) -> int:
    """Octets of a message, about."""
    return sum(map(len, parts), len(parts) * LEAST_FRAME)


def connect(endpoint: str, socket_type: str, **options: Any) -> Socket:
    """A socket that connects to `endpoint`: `tcp://host:port` or `ipc://path`.

    `options` are those of `Settings` (identity, security, version, heartbeat ...) and of `Socket` (report, recording,
    comes_back). Raises `ValueError` where they do not fit together.
    """
    return _socket(parse_endpoint(endpoint), socket_type, False, options)


def bind(endpoint: str, socket_type: str, **options: Any) -> Socket:
    """A socket that listens on `endpoint`: on loopback where it names no host, on all interfaces where that is `*`.

    With port 0 the system chooses one: `Socket.endpoint` has it inside of `async with`.
    """
    return _socket(parse_endpoint(endpoint, bind=True), socket_type, True, options)


def _socket(endpoint: Endpoint, socket_type: str, listens: bool, options: dict[str, Any]) -> Socket:
    of_socket = {name: options.pop(name) for name in ("report", "recording", "comes_back") if name in options}
    return Socket(endpoint, Settings(socket_type, **options), listens=listens, **of_socket)
