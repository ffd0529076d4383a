"""The connections that a socket has at the same time: how many there may be, what they may make us keep together, and
which of them has to go for that."""

from __future__ import annotations

import resource
from typing import NamedTuple

from zmtpscope.live.peer.connection import Connection
from zmtpscope.live.peer.memory_limit import MemoryLimit
from zmtpscope.zmtp.peer import PeerError, TooSlow, Violation

MOST_CONNECTIONS = 1024
"""Of a socket that listens; for another one somebody has to go (`ConnectionPool.evict`). At most half of the files that
the process may open: some hundred are accepted before any of them can be closed, and without a file none can be."""
LARGEST_HELD = 256 << 20
"""Octets that all connections of a socket make us keep together: messages that are not all there yet, subscriptions,
and what waits for those that take nothing. Twice the largest message where that is more."""
LEAST_IDLE = 10.0
"""Seconds in which a connection has neither sent nor taken anything, after which another one may have its place."""


class Eviction(NamedTuple):
    """A connection that has to go, and what is said of it."""

    connection: Connection
    error: PeerError


class ConnectionPool:
    """Those of one socket, whose messages have at most `largest_message` octets."""

    def __init__(self, largest_message: int) -> None:
        self.connections: dict[Connection, None] = {}
        """All that there are, the oldest first."""
        self._memory: MemoryLimit[Connection] = MemoryLimit(max(LARGEST_HELD, 2 * largest_message))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        unlimited = files == resource.RLIM_INFINITY
        self._most = MOST_CONNECTIONS if unlimited else min(MOST_CONNECTIONS, files // 2)

    def add(self, connection: Connection) -> None:
        """It has a place, whether one is free or not."""
        self.connections[connection] = None

    def remove(self, connection: Connection) -> None:
        """It has none any more."""
        self._memory.charge(connection, 0)
        self.connections.pop(connection, None)

    @property
    def is_full(self) -> bool:
        """There is no place for another one."""
        return len(self.connections) >= self._most

    def evict(self, now: float) -> Eviction | None:
        """Who has to go for another one, at a time of the loop: the oldest without a handshake, or the one that was
        silent longest. None where all of them are in use."""
        connection = next((each for each in self.connections if not each.peer.ready), None)
        if connection is not None:
            why = f"this one had not completed its handshake after {now - connection.since:.1f} s"
        else:
            connection = min(self.connections, key=lambda each: each.active_at)
            if now - connection.active_at < LEAST_IDLE:
                return None
            why = f"this one had been silent for {now - connection.active_at:.0f} s"
        count = len(self.connections)
        return Eviction(connection, TooSlow(f"closed for another one: {count} were open, and {why}"))

    def rejection(self) -> PeerError:
        """What is said to another one where nobody has to go."""
        why = f"{len(self.connections)} connections are open, and none of them has been silent for {LEAST_IDLE:g} s"
        return Violation(f"turned away: {why}")

    def charge(self, connection: Connection) -> list[Eviction]:
        """It may hold more now: who has to go, since all together hold more than they may."""
        memory = self._memory
        memory.charge(connection, connection.held)
        evictions = []
        while memory.total > memory.limit:
            largest, octets = memory.largest()
            memory.charge(largest, 0)
            limit = f"all connections together hold more than {memory.limit >> 20} MiB"
            held = f"messages under way, subscriptions and what is not read, and this one holds most: {octets} octets"
            evictions.append(Eviction(largest, Violation(f"{limit} for {held}")))
        return evictions
