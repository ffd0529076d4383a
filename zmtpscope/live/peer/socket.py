"""A ZeroMQ socket over asyncio.

    async with connect("tcp://127.0.0.1:5555", "REQ") as socket:
        await socket.send([b"hello"])
        print(await socket.receive())

Messages are lists of octets, one for each part. On ROUTER, SERVER and PEER sockets the first part is the routing id of
the peer: its identity, or a generated one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from zmtpscope.live.peer.arguments import (
    Endpoint,
    Octets,
    Text,
    checked_parts,
    octets_of,
    text_of,
)
from zmtpscope.live.peer.connection import LINGER, Connection, Unreachable, reach, reason, remote_name
from zmtpscope.live.peer.connection_pool import ConnectionPool
from zmtpscope.live.peer.inbox import Inbox
from zmtpscope.live.peer.outbox import ROUTES, Outbox, Route, start
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
from zmtpscope.zmtp.peer.patterns import PATTERNS, check_member, check_subscriber
from zmtpscope.zmtp.peer.settings import PART_COST
from zmtpscope.zmtp.socket_types import SUBSCRIBERS

if TYPE_CHECKING:
    from zmtpscope.live.recording.recording import Recording

FIRST_DELAY, LONGEST_DELAY = 0.1, 5.0
"""Seconds between attempts to connect.

The delay doubles after each attempt, and varies by 50 %, so that the clients of a server do not all reconnect at the
same time.
"""
CONNECT_LIMIT = 5.0
"""Seconds for one attempt to connect, unless the handshake's limit is lower."""

MAX_IN_VAIN = 32
"""Messages sent without a receiver after which other tasks run."""
MAX_CONCURRENT = 256
"""Number of messages received without waiting after which other tasks run."""


class ConnectionClosed(NamedTuple):
    """The other endpoint closed the connection between two messages. `lost`: it did not receive everything that was
    sent to it."""

    lost: bool


Report = Callable[[str, PeerEvent | PeerError | ConnectionClosed], None]
"""A callback for events other than messages: the other endpoint, and an event or the reason why its connection
ended."""


class Socket:
    """Create it with `connect` or `bind`, and use it with `async with`.

    A connecting socket reconnects when a connection is lost. If that cannot help (refused keys, incompatible socket
    types, not ZMTP), `receive` and `send` raise `PeerError`. A listening socket continues after errors of single
    connections. Both pass these events to `report`.
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
        """Why no more messages can arrive."""
        self._listens = listens
        self._report = report or (lambda remote, what: None)
        self._recording = recording
        self._reconnects = comes_back
        self._route = ROUTES[settings.socket_type]
        self._pattern = PATTERNS[settings.socket_type]
        self._asks = settings.socket_type == "REQ"
        self._pool = ConnectionPool(settings.limits.message)
        self._inbox: Inbox[Connection] = Inbox()
        self._changed = asyncio.Event()
        """This event is set when waiting tasks should check again."""
        self._in_vain = 0
        """Number of messages sent without a receiver."""
        self._received = 0
        """Messages received since other tasks ran."""
        self._asker: tuple[Connection, Message] | None = None
        self._replier: Connection | None = None
        self._lost: PeerError | None = None
        """Error of the peer that closed before its reply."""
        self._topics: list[bytes] = []
        self._groups: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._closed = False
        self._delay = FIRST_DELAY
        """Seconds before the next attempt to connect, on average."""
        self._outbox = Outbox(self._route, self._dropped, self._charge, self._changed)

    async def __aenter__(self) -> Self:
        if self._listens:
            await self._listen()
        else:
            start(self._keep_connected(), self._tasks)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the socket after the remaining octets are sent."""
        self._closed = True
        self._inbox.close()
        if self._server is not None:
            self._server.close()
        await self._outbox.close()
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=LINGER if self._outbox.connections else 0)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        if self._endpoint_is_ours:
            with contextlib.suppress(OSError):
                os.unlink(str(self.endpoint.path))

    # -- messages ------------------------------------------------------------------------------------------------------

    async def receive(self) -> list[bytes]:
        """Return the next message. Raises `PeerError` if no more can arrive, and `ValueError` on a socket that only
        sends, or a REQ without a request."""
        (message,) = await self.receive_all(1)
        return message

    async def receive_all(self, most: int | None = None) -> list[list[bytes]]:
        """Return the messages that have arrived, at most `most`, waiting for the first one. REP and REQ return only
        one.

        Raises like `receive`.
        """
        if self._received >= MAX_CONCURRENT:
            self._received = 0
            await asyncio.sleep(0)
        if not self._pattern.receives:
            raise ValueError(f"a {self.settings.socket_type} socket receives no messages")
        while not self._inbox:
            self._received = 0
            self._give_up_if_failed()
            if self._lost is not None:
                lost, self._lost = self._lost, None
                raise lost
            if self._asks and self._replier is None:
                raise ValueError("a REQ socket must send a request before it receives the reply")
            await self._wait()
        one = self._route is Route.BACK or self._asks
        taken = self._inbox.drain(1 if one else most or len(self._inbox))
        self._received += len(taken)
        if self._route is Route.NAMED:
            return [[connection.name, *message.parts] for connection, message in taken]
        if self._route is Route.BACK:
            (self._asker,) = taken
        self._replier = None
        return [message.parts for _, message in taken]

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        while True:
            yield await self.receive()

    async def send(self, parts: Sequence[Octets]) -> int:
        """Send one message; return the number of connections to which it was sent.

        Returns 0 if no peer wants it, or if the addressed peer is not connected. Socket types that send to one peer in
        turn wait for a connection. Raises `TypeError` unless `parts` is a list of octets, `ValueError` if the socket
        type cannot send it, and `PeerError` if there will be no connection.
        """
        checked = checked_parts(parts)
        if not self._pattern.sends:
            raise ValueError(f"a {self.settings.socket_type} socket sends no messages")
        sent = await self._hand_over(checked)
        if not sent:  # nothing made it wait, and its receivers may be about to connect
            self._in_vain += 1
            if self._in_vain % MAX_IN_VAIN == 0:
                await asyncio.sleep(0)
        return sent

    async def _hand_over(self, parts: list[bytes]) -> int:
        outbox = self._outbox
        if self._route is Route.ALL:
            self._give_up_if_failed()
            return await outbox.send_to(list(outbox.connections), parts)
        if self._route is Route.NAMED:
            if len(parts) < 2:
                raise ValueError(
                    f"the first part of a message on a {self.settings.socket_type} socket must name the peer"
                )
            return await outbox.send_to(outbox.named(parts[0]), parts[1:])
        if self._route is Route.BACK:
            if self._asker is None:
                raise ValueError("a REP socket must receive a request before it replies")
            connection, request = self._asker
            still_there = [connection] if connection in outbox.connections else []
            sent = await outbox.send_to(still_there, parts, request.envelope)
            self._asker = None
            return sent
        if self._asks and self._replier is not None:
            raise ValueError("a REQ socket must receive the reply before it sends another request")
        connection = await self._next_in_turn()
        much = outbox.send_in_turn(connection, parts)
        if self._asks:
            self._replier, self._lost = connection, None
        if much:
            await asyncio.sleep(0)
        return 1

    async def _next_in_turn(self) -> Connection:
        """Wait for the next connection in turn that accepts octets. Raises `PeerError` if there will be none."""
        while True:
            await self.wait_ready()
            connection = self._outbox.next_in_turn()
            if connection is not None:
                return connection
            await self._wait()

    async def subscribe(self, topic: Text) -> None:
        """Subscribe to messages that begin with `topic` on all current and later connections (SUB, XSUB).

        Raises `ValueError` on other socket types.
        """
        octets = self._add_topic(topic)
        self._for_all(lambda connection: connection.peer.subscribe(octets))

    async def cancel(self, topic: Text) -> None:
        """Undo one call of `subscribe` for this topic. Raises `ValueError` if there was none."""
        octets = octets_of(topic, "a topic")
        _take_out(self._topics, octets, f"not subscribed to {topic!r}")
        self._for_all(lambda connection: connection.peer.cancel(octets))

    async def join(self, group: Text) -> None:
        """Join `group` on all connections (DISH).

        Raises `ValueError` for an invalid group, and on other socket types.
        """
        text = self._add_group(group)
        self._for_all(lambda connection: connection.peer.join(text))

    async def leave(self, group: Text) -> None:
        """Undo one call of `join` for this group. Raises `ValueError` if there was none."""
        text = text_of(group, "a group")
        _take_out(self._groups, text, f"not a member of group {group!r}")
        self._for_all(lambda connection: connection.peer.leave(text))

    def set_subscriptions(self, topics: Iterable[Text], groups: Iterable[Text]) -> None:
        """Replace the subscriptions for future connections. Raises like `subscribe` and `join`."""
        for topic in topics:
            self._add_topic(topic)
        for group in groups:
            self._add_group(group)

    def _add_topic(self, topic: Text) -> bytes:
        check_subscriber(self.settings.socket_type)
        self._topics.append(octets_of(topic, "a topic"))
        return self._topics[-1]

    def _add_group(self, group: Text) -> str:
        text = text_of(group, "a group")
        check_member(self.settings.socket_type, from_text(text))
        self._groups.append(text)
        return text

    def _for_all(self, act: Callable[[Connection], None]) -> None:
        for connection in self._outbox.connections:
            act(connection)
            connection.flush()

    @property
    def waiting(self) -> int:
        """The number of messages that `receive` can return without waiting."""
        return len(self._inbox)

    @property
    def connected(self) -> int:
        return len(self._outbox.connections)

    async def wait_ready(self, count: int = 1) -> None:
        """Wait until `count` connections have completed their handshake. Raises `PeerError` if that cannot happen."""
        while self.connected < count:
            self._give_up_if_failed()
            await self._wait()

    async def flush(self) -> None:
        """Wait until the operating system has accepted everything sent so far, except on stuck connections."""
        await self._outbox.flush()

    def _give_up_if_failed(self) -> None:
        if self.failure is not None:
            raise self.failure

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # -- connections ---------------------------------------------------------------------------------------------------

    @property
    def _endpoint_is_ours(self) -> bool:
        """Whether this socket created the file of its ipc endpoint, and so must remove it."""
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
        """Accept a connection. This is no coroutine, because asyncio of Python 3.11 logs errors for cancelled ones."""
        if self._closed:
            writer.close()
        elif not self._pool.is_full or self._make_room():
            start(self._serve(self._connection(reader, writer)), self._tasks)
        else:
            self._report(remote_name(writer), self._pool.rejection())
            writer.transport.abort()

    def _make_room(self) -> bool:
        """Close a connection to make room for a new one; return False if none may be closed."""
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
            if not self._reconnects or not isinstance(failure, Unreachable | ClosedHalfWay | TooSlow):
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
        connection = Connection(self.settings, reader, writer, self._handle_events, self._inbox)
        self._pool.add(connection)
        return connection

    async def _run(self, connection: Connection) -> None:
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
            del failure  # else its traceback, which refers to this frame, would keep it
        if not self._closed:
            self._report(connection.remote, ConnectionClosed(connection.lost))

    def _handle_events(self, connection: Connection, events: list[PeerEvent], size: int) -> None:
        """Handle the events of a connection that arrived in `size` octets."""
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

    def _dropped(self, connection: Connection, dropped: Dropped) -> None:
        self._report(connection.remote, dropped)

    def _charge(self, connection: Connection) -> None:
        for eviction in self._pool.charge(connection):
            self._end(*eviction)

    def _end(self, connection: Connection, error: PeerError) -> None:
        self._forget(connection, error)
        connection.fail(error)

    def _is_wanted(self, connection: Connection, message: Message) -> bool:
        if self._asks and (connection is not self._replier or self._inbox):
            self._report(connection.remote, Dropped(message.parts, "no pending request for this reply"))
            return False
        return connection.peer.version != "1.0" or self._has_subscribed(message.parts[0])

    def _note(self, connection: Connection, event: PeerEvent) -> None:
        """Report an event other than a message to the application."""
        if isinstance(event, Ready):
            self._welcome(connection, event)
        elif isinstance(event, Subscription) and self.settings.socket_type == "XPUB":
            self._inbox.add(connection, Message([bytes([event.begins]) + event.topic]))
        self._report(connection.remote, event)

    def _has_subscribed(self, topic: bytes) -> bool:
        """Whether a message matches a subscription.

        A ZMTP 1.0 publisher gets no subscriptions, so each subscriber filters.
        """
        return self.settings.socket_type not in SUBSCRIBERS or any(map(topic.startswith, self._topics))

    def _welcome(self, connection: Connection, event: Ready) -> None:
        for topic in self._topics:
            connection.peer.subscribe(topic)
        for group in self._groups:
            connection.peer.join(group)
        self._outbox.add(connection, from_text(event.identity or ""))
        self._delay = FIRST_DELAY
        self._changed.set()

    def _forget(self, connection: Connection, failure: PeerError | None) -> None:
        self._pool.remove(connection)
        self._outbox.remove(connection)
        if self._replier is connection and not self._inbox:
            self._replier = None
            self._lost = failure or ClosedHalfWay("the other side closed the connection without answering the request")
        self._changed.set()


def _take_out(items: list[Any], item: object, missing: str) -> None:
    if item not in items:
        raise ValueError(missing)
    items.remove(item)
