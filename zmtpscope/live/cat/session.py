"""One run of `zmtpscope cat`: sends the input, prints received messages, and ends when its goal is reached."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import time_ns
from typing import Any

from zmtpscope.export.message_lines import Render, typed
from zmtpscope.live.cat.message_input import BadMessage
from zmtpscope.live.cat.standard_streams import Messages, Output
from zmtpscope.live.peer.connection import Unreachable
from zmtpscope.live.peer.outbox import ROUTES, Route
from zmtpscope.live.peer.socket import FIRST_DELAY, ConnectionClosed, Socket
from zmtpscope.words import counted
from zmtpscope.zmtp.peer import (
    ClosedHalfWay,
    Dropped,
    Membership,
    PeerError,
    PeerEvent,
    Ready,
    Subscription,
    TooSlow,
)
from zmtpscope.zmtp.peer.patterns import PATTERNS
from zmtpscope.zmtp.socket_types import PUBLISHERS

WAIT = 5.0
"""Seconds to wait for a connection, a subscription or a reply."""
GRACE = 0.25
"""Seconds added to a time limit, so that a connection with the same limit can report its reason first."""
MAX_LINES_OF_A_KIND = 10
"""Lines of a kind to print; further ones are counted."""
CATCH_UP = 0.1
"""Delay in seconds that `--rate` makes up for by sending faster."""


class Unexpected(Exception):
    """A message without the expected part arrived (`--expect`); the text describes it."""


@dataclass(frozen=True, slots=True)
class Goal:
    """When a run of `cat` ends, and its limits.

    `count`: messages received, or sent if the socket never receives. `wait`: seconds for a connection and for each
    reply. `rate`: messages per second. `expected`: a part that every received message must have.
    """

    count: int | None = None
    wait: float | None = None
    rate: float | None = None
    expected: bytes | None = None


class ConnectionLog:
    """Prints when connections open and close, and which messages were dropped.

    `say` prints a line on standard error. A socket that `asks` (REQ) finds out by itself that no reply can arrive, and
    sends its next request to another peer.
    """

    def __init__(self, say: Callable[[str], None], *, listens: bool, asks: bool = False) -> None:
        self.failure: PeerError | None = None
        """Why there is no connection. The error of a peer that was reached is not replaced by a later `Unreachable`."""
        self.lost = False
        """Whether a connection that we opened ended before all messages were delivered."""
        self.welcomed = asyncio.Event()
        """This event is set on each new connection."""
        self.wanted = asyncio.Event()
        """This event is set when a peer has subscribed to messages of our publisher."""
        self._say = say
        self._listens = listens
        self._asks = asks
        self._was_ready = False
        self._soon: asyncio.TimerHandle | None = None
        """Prints the reason at the next attempt to connect, unless the run ends before."""
        self._counts: Counter[str] = Counter()

    def __call__(self, remote: str, what: PeerEvent | PeerError | ConnectionClosed) -> None:
        """Print an event of the socket, for example that a connection closed. The socket calls this as its `report`
        callback."""
        if isinstance(what, Ready):
            self._was_ready, self.failure = True, None
            self.welcomed.set()
            if what.version == "1.0":  # cannot subscribe
                self.wanted.set()
        elif isinstance(what, Subscription | Membership):
            if what.begins:
                self.wanted.set()
        elif isinstance(what, Dropped):
            self._dropped(remote, what)
        elif isinstance(what, PeerError):
            self._failed(remote, what)
        elif isinstance(what, ConnectionClosed) and not self._listens:
            self._failed(remote, ClosedHalfWay("the other side closed the connection"), lost=what.lost)

    def _dropped(self, remote: str, what: Dropped) -> None:
        """Report a dropped message. Only the first `MAX_LINES_OF_A_KIND` are formatted."""
        text = (
            f"{remote}: dropped {_described(what.parts)}: {what.reason}"
            if self._counts["dropped"] < MAX_LINES_OF_A_KIND
            else ""
        )
        self.say("dropped", text)

    def _failed(self, remote: str, error: PeerError, *, lost: bool = True) -> None:
        if self._listens:
            self.say("connections", f"{remote}: {error}")
        elif self._was_ready and isinstance(error, ClosedHalfWay | TooSlow):
            self.lost |= lost
            if not self._asks:
                text = f"{remote}: {error}; reconnecting"
                self._soon = asyncio.get_running_loop().call_later(FIRST_DELAY, self.say, "connections", text)
        if self.failure is None or not isinstance(error, Unreachable):
            self.failure = error

    def say(self, kind: str, text: str) -> None:
        """Print a line, unless `MAX_LINES_OF_A_KIND` of this kind were printed; further lines are only counted."""
        self._counts[kind] += 1
        count = self._counts[kind]
        if count <= MAX_LINES_OF_A_KIND:
            self._say(text + (f"; further {kind} are only counted" if count == MAX_LINES_OF_A_KIND else ""))

    def finish(self) -> None:
        """Print the totals of lines that were only counted."""
        if self._soon is not None:
            self._soon.cancel()
        for kind, count in self._counts.items():
            if count > MAX_LINES_OF_A_KIND:
                self._say(f"{kind}: {count} in total")


class CatSession:
    """One run of `cat`: sends messages from `source`, and writes received ones to `output`.

    Without a `source`, it sends received messages back (`echoes`), or nothing.
    """

    def __init__(
        self,
        socket: Socket,
        goal: Goal,
        log: ConnectionLog,
        source: Messages | None,
        output: Output,
        render: Render,
        *,
        listens: bool,
        echoes: bool = False,
    ) -> None:
        self.socket = socket
        self.goal = goal
        self.log = log
        self.source = source
        self.output = output
        self.render = render
        self.sent = self.received = 0
        self._listens = listens
        self._echoes = echoes
        self._socket_type = socket.settings.socket_type
        self._pattern = PATTERNS[self._socket_type]
        self._route = ROUTES[self._socket_type]
        self._publishes = self._socket_type in PUBLISHERS or self._socket_type == "RADIO"
        self._idle_since: float | None = None
        """Start of the current wait for a message."""
        self._due: float | None = None
        """Time of the next message at the requested rate."""
        self._undelivered: PeerError | None = None

    async def run(self) -> None:
        """Run until the `Goal` is reached, for example the number of messages. Raises `PeerError`, `Unexpected`,
        `BadMessage` and `OSError`."""
        try:
            if not self._pattern.receives:
                await self._send_all()
            elif self._socket_type == "REQ":
                await self._request_all()
            elif self._socket_type == "REP" and not self._echoes:
                await self._answer_all()
            else:
                await self._send_and_receive()
            if self._undelivered is not None:
                raise self._undelivered
        finally:
            self.log.finish()
            self.output.close()
            if self.source is not None:
                self.source.close()

    # -- one method per kind of socket type ----------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Send all messages of the source, and wait until the peer's system has accepted them."""
        await self._connect()
        if self.source is None:
            return
        if self._publishes:
            await self._within(self.log.wanted.wait(), "no peer subscribed")
        async for batch in self.source.batches():
            for parts in batch:
                if not self._pattern.receives and self.sent == self.goal.count:
                    break
                await self._say(parts)
            else:
                continue
            break
        try:
            async with asyncio.timeout(self.goal.wait):
                await self.socket.flush()
        except TimeoutError:
            raise TooSlow(f"the other side did not receive all messages within {self.goal.wait:g} s") from None
        if self.log.lost and self.sent:
            raise ClosedHalfWay("the connection was lost, and messages in transit may not have arrived")

    async def _request_all(self) -> None:
        await self._connect()
        assert self.source is not None
        async for batch in self.source.batches():
            for parts in batch:
                await self._say(parts)
                limit = self.goal.wait or WAIT
                try:
                    async with asyncio.timeout(limit):
                        await self._receive()
                except TimeoutError:
                    raise TooSlow(f"no reply arrived within {limit:g} s") from None
                await self.output.flush()
                if self._has_enough:
                    return

    async def _answer_all(self) -> None:
        """Answer requests with the messages of the source, one by one, until there are no more messages."""
        await self._connect()
        assert self.source is not None
        while not self._has_enough:
            async with running(self.source.next()) as answer, running(self._receive()) as request:
                await self._until_silent(request, self.goal.wait, answer)
                if not request.done():
                    return
                await self.output.flush()
                parts = await answer
            if parts is None:
                raise BadMessage("a request arrived after the end of standard input, so no reply is left")
            await self._say(parts)

    async def _send_and_receive(self) -> None:
        """Send and receive at the same time. After the last message was sent, silence ends the run."""
        async with running(self._send_all()) as sending, running(self._receive_all()) as receiving:
            await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                limit = self.goal.wait or (WAIT if self.sent else None)
                await self._until_silent(receiving, limit)
            else:
                receiving.result()

    async def _receive_all(self) -> None:
        while not self._has_enough:
            for parts in await self._receive(None if self.goal.count is None else self.goal.count - self.received):
                if self._echoes:
                    await self._send(parts)
        await self.output.flush()

    # -- steps ---------------------------------------------------------------------------------------------------------

    @property
    def _has_enough(self) -> bool:
        return self.received == self.goal.count

    @property
    def _time_limit(self) -> float | None:
        """Return the seconds to wait for a peer; None (no limit) is the default of a listening socket."""
        return self.goal.wait or (None if self._listens else WAIT)

    async def _connect(self) -> None:
        await self._within(self.socket.wait_ready(), "no peer connected")

    async def _within(self, waited: Coroutine[Any, Any, object], missing: str) -> None:
        limit = self._time_limit
        try:
            async with asyncio.timeout(None if limit is None else limit + GRACE):
                await waited
        except TimeoutError:
            raise self.log.failure or TooSlow(f"{missing} within {limit:g} s") from None

    async def _until_silent(
        self, receiving: asyncio.Task[Any], limit: float | None, other: asyncio.Task[Any] | None = None
    ) -> None:
        """Wait until the task `receiving` is done, `other` has no more messages, or nothing arrives for `limit`
        seconds.

        Raises `TooSlow` if an expected message did not arrive.
        """
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while not receiving.done():
            if other is not None and other.done() and other.result() is None:
                return
            idle = self._idle_since
            left = None if limit is None else limit if idle is None else max(idle, begin) + limit - loop.time()
            if left is not None and left <= 0:
                self._give_up(limit)
                return
            waited = {receiving} if other is None or other.done() else {receiving, other}
            await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        receiving.result()

    def _give_up(self, limit: float | None) -> None:
        """End the run after `limit` seconds of silence. Raises `PeerError` if fewer messages arrived than the goal
        requires."""
        least = self.goal.count or int(self.goal.expected is not None or not self.sent)
        if self.received < least:
            failure = None if self.socket.connected else self.log.failure
            raise failure or TooSlow(f"no {'further ' if self.received else ''}message arrived within {limit:g} s")

    async def _receive(self, most: int | None = 1) -> list[list[bytes]]:
        """Receive the next message, or up to `most` messages that have arrived, and write them to the output.

        The output is flushed when no more messages wait.
        """
        if not self.socket.waiting:
            await self.output.flush()
            self._idle_since = asyncio.get_running_loop().time()
        messages = await self.socket.receive_all(most)
        self._idle_since = None
        expected, now = self.goal.expected, time_ns()
        for parts in messages:
            self.received += 1
            self.output.add(self.render(parts, now))
            if expected is not None and expected not in parts:
                await self.output.flush()
                raise Unexpected(f"received {_described(parts)}, without the part {_shown(expected)}")
        if self.output.is_full:
            await self.output.flush()
        return messages

    async def _say(self, parts: list[bytes]) -> None:
        """Send a message as soon as the rate limit allows it."""
        if self.goal.rate is not None:
            now = asyncio.get_running_loop().time()
            due = now if self._due is None else max(self._due, now - CATCH_UP)
            await asyncio.sleep(due - now)
            self._due = due + 1 / self.goal.rate
        self.sent += 1
        if await self._send(parts):
            return
        if self._route is Route.NAMED:
            await self._send_when_connected(parts)
        elif self._publishes:
            self.log.say("messages without a subscriber", f"no peer subscribed to {_shown(parts[0])}: not sent")

    async def _send(self, parts: list[bytes]) -> int:
        if self._route is Route.ROUND_ROBIN and not self.socket.connected:
            await self._connect()
        try:
            return await self.socket.send(parts)
        except ValueError as error:
            raise BadMessage(str(error)) from None

    async def _send_when_connected(self, parts: list[bytes]) -> None:
        """Send to the peer named by the first part, once it has connected."""
        limit = self.goal.wait or WAIT
        try:
            async with asyncio.timeout(limit):
                while not await self._send(parts):
                    self.log.welcomed.clear()
                    await self.log.welcomed.wait()
        except TimeoutError:
            missing = f"no peer named {_shown(parts[0])} connected within {limit:g} s"
            self.log.say("messages without a peer", f"{missing}: not sent")
            self._undelivered = TooSlow(missing)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, Any]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a coroutine as a task, which is cancelled at the end of the `async with` block."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _shown(octets: bytes) -> str:
    text = typed(octets[:40])
    return f'"{text}"' if len(octets) <= 40 else f'"{text}…"'


def _described(parts: list[bytes]) -> str:
    return f"a message of {counted(len(parts), 'part')}, {' | '.join(map(_shown, parts[:4]))}"
