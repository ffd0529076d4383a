"""Selects the connections that a message goes to, and limits the wait for slow receivers.

At first, a receiver that never reads looks like a slow one. So all receivers that are not known to read share a few
seconds: many of them, or one that reconnects again and again, delay a socket no longer than one does.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import Any

from zmtpscope.live.peer.connection import FULL, Connection
from zmtpscope.zmtp.peer import Dropped
from zmtpscope.zmtp.peer.patterns import PATTERNS

SEND_TIMEOUT = 5.0
"""Seconds to wait while a receiver takes nothing: for each that is known to read, and for all others together."""
RENEWAL = 0.01
"""Seconds that are added to the shared ones per second."""
MIN_TAKEN = 1 << 16
"""Octets that a slow receiver must take in `SEND_TIMEOUT`; with less it is stuck."""
KNOWN = 1 << 19
"""Octets after which a receiver is known to read.

Its system takes the first ones even if no program reads: on Linux up to 400 kB by default.
"""


class SendTimeout:
    """Limits how long a socket waits for receivers that do not read: all of them share the seconds of one budget."""

    def __init__(self) -> None:
        self._left = SEND_TIMEOUT
        self._counted = time.monotonic()

    @property
    def left(self) -> float:
        """Return how many seconds of the shared budget remain."""
        return min(SEND_TIMEOUT, self._left + RENEWAL * (time.monotonic() - self._counted))

    async def wait_for(self, receivers: Sequence[Connection]) -> None:
        """Wait until each receiver has accepted all sent octets, has closed, or has exceeded the time limit
        (`is_stuck`)."""
        spent = max(await asyncio.gather(*map(self._wait, receivers)), default=0.0)
        if spent:
            self._left = max(0.0, self.left - spent)
            self._counted = time.monotonic()

    async def _wait(self, receiver: Connection) -> float:
        """Wait for one receiver; return the seconds of the budget that passed without progress."""
        while True:
            before, since = receiver.taken, time.monotonic()
            is_known = before - receiver.stuck_at >= KNOWN
            limit = SEND_TIMEOUT if is_known else self.left
            try:
                async with asyncio.timeout(limit):
                    await receiver.drain()
            except TimeoutError:
                if receiver.taken - before > MIN_TAKEN * limit / SEND_TIMEOUT:
                    continue
                receiver.is_stuck, receiver.stuck_at = True, receiver.taken
            in_vain = receiver.is_stuck or receiver.is_over
            return time.monotonic() - since if in_vain and not is_known else 0.0


class Route(Enum):
    ROUND_ROBIN = "to one after the other"
    ALL = "to everybody who wants them"
    BACK = "to the one that asked last"
    NAMED = "to the one that the first part names"


ROUTES: dict[str, Route] = {
    **dict.fromkeys(PATTERNS, Route.ROUND_ROBIN),
    **dict.fromkeys(("PUB", "XPUB", "RADIO", "XSUB"), Route.ALL),
    **dict.fromkeys(("ROUTER", "SERVER", "PEER"), Route.NAMED),
    "REP": Route.BACK,
}


MIN_FRAME = 2
"""Octets of a frame's header."""


class Outbox:
    """The connections of a socket after their handshake. `route` selects the connections that get a message.

    `dropped` is called for each message that a connection does not get, and `stuck` for a connection that exceeded the
    send timeout. `changed` is set when a connection can be used again.
    """

    def __init__(
        self,
        route: Route,
        dropped: Callable[[Connection, Dropped], None],
        stuck: Callable[[Connection], None],
        changed: asyncio.Event,
    ) -> None:
        self.connections: dict[Connection, None] = {}
        self._route = route
        self._dropped, self._stuck, self._changed = dropped, stuck, changed
        self._turns: deque[Connection] = deque()
        """Connections that are not known to be blocked, in turn."""
        self._names: dict[bytes, Connection] = {}
        self._awaited: set[asyncio.Task[None]] = set()
        """Tasks that wait until a connection has taken its octets, and then let it take its turn again."""
        self._send_timeout = SendTimeout()

    def add(self, connection: Connection, identity: bytes) -> None:
        """Add a connection under the name `identity`, unless that is empty or in use."""
        if self._route is Route.NAMED:
            name = identity if identity and identity not in self._names else b"\0" + os.urandom(4)
            connection.name = name
            self._names[name] = connection
        self.connections[connection] = None
        if self._route is Route.ROUND_ROBIN:
            self._turns.append(connection)

    def remove(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        if connection in self._turns:
            self._turns.remove(connection)
        if self._names.get(connection.name) is connection:
            del self._names[connection.name]

    async def close(self) -> None:
        for task in self._awaited:
            task.cancel()
        await asyncio.gather(*self._awaited, return_exceptions=True)
        await asyncio.gather(*(connection.close() for connection in list(self.connections)))

    def named(self, name: bytes) -> list[Connection]:
        """Return the connection of this name, if any, as a list."""
        return [self._names[name]] if name in self._names else []

    def next_in_turn(self) -> Connection | None:
        """Return the next connection that accepts octets; None if there is none, and the caller must wait for
        `changed`."""
        while self._turns:
            connection = self._turns.popleft()
            if not connection.unsent:
                self._turns.append(connection)
                return connection
            start(self._await_turn(connection), self._awaited)
        return None

    async def _await_turn(self, connection: Connection) -> None:
        await connection.drain()
        if connection in self.connections:
            self._turns.append(connection)
            self._changed.set()

    def send_in_turn(self, connection: Connection, parts: Sequence[bytes]) -> bool:
        """Send to the connection that `next_in_turn` returned; return whether other tasks should run now."""
        connection.peer.send(parts)
        return connection.flush_soon(_size(parts))

    async def send_to(
        self, connections: Sequence[Connection], parts: Sequence[bytes], envelope: Sequence[bytes] = ()
    ) -> int:
        """Send a message, after the `envelope`, to all `connections` that want it, and wait until they can take more.
        Return their number.

        A connection that exceeded the send timeout gets no messages until it accepts octets again.
        """
        sent, much = 0, False
        dropped = Dropped([*parts], "the other side does not read")
        full: list[Connection] = []
        for connection in connections:
            if connection.is_stuck and connection.unsent > FULL:
                if connection.peer.wants(parts[0]):
                    self._dropped(connection, dropped)
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

    async def flush(self) -> None:
        """Wait until the operating system has accepted everything sent so far, except on stuck connections.

        Messages that go to one connection in turn have no timeout, since no other connection gets the same message.
        """
        for connection in self.connections:
            connection.flush()
        full = [connection for connection in self.connections if connection.unsent and not connection.is_stuck]
        if self._route is Route.ROUND_ROBIN:
            await asyncio.gather(*(connection.drain() for connection in full))
        else:
            await self._wait_for(full)

    async def _wait_for(self, connections: list[Connection]) -> None:
        await self._send_timeout.wait_for(connections)
        for connection in connections:
            if connection.is_stuck:
                self._stuck(connection)


def start(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Start a task, and keep a reference to it in `tasks` until it is done."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts), len(parts) * MIN_FRAME)
