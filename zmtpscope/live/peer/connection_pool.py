"""The open connections of a socket, their common limits, and the choice of one to close at a limit."""

from __future__ import annotations

import resource
from typing import NamedTuple

from zmtpscope.live.peer.connection import Connection
from zmtpscope.zmtp.peer import PeerError, TooSlow, Violation


class MemoryLimit:
    """A limit of `limit` octets for all holders of memory together.

    When it is exceeded, the caller closes the largest holder, so a holder within an equal share is never closed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._held: dict[Connection, int] = {}
        """Octets of each holder, without zeros."""

    def charge(self, holder: Connection, octets: int) -> None:
        self.total += octets - self._held.get(holder, 0)
        if octets:
            self._held[holder] = octets
        else:
            self._held.pop(holder, None)

    def largest(self) -> tuple[Connection, int]:
        """Return the connection that holds the most octets, and their number. There must be a connection."""
        return max(self._held.items(), key=lambda each: each[1])


MAX_CONNECTIONS = 1024
"""Connections of a listening socket, at most half of the files that the process may open: some hundred connections are
accepted before one can be closed, and without a free file none can be."""
LARGEST_HELD = 256 << 20
"""Octets that all connections of a socket may use for incomplete messages, subscriptions, and octets queued for slow
receivers; at least twice the largest message."""
MIN_IDLE = 10.0
"""Seconds without octets in either direction after which a connection may be closed for a new one."""


class Eviction(NamedTuple):
    """A connection to close because a limit is reached, and the error to report for it."""

    connection: Connection
    error: PeerError


class ConnectionPool:
    """The open connections of one socket, with their limits. Messages have at most `largest_message` octets."""

    def __init__(self, largest_message: int) -> None:
        self.connections: dict[Connection, None] = {}
        """Connections, oldest first."""
        self._memory = MemoryLimit(max(LARGEST_HELD, 2 * largest_message))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        unlimited = files == resource.RLIM_INFINITY
        self._most = MAX_CONNECTIONS if unlimited else min(MAX_CONNECTIONS, files // 2)

    def add(self, connection: Connection) -> None:
        """Add a connection, even if the pool is full."""
        self.connections[connection] = None

    def remove(self, connection: Connection) -> None:
        self._memory.charge(connection, 0)
        self.connections.pop(connection, None)

    @property
    def is_full(self) -> bool:
        return len(self.connections) >= self._most

    def evict(self, now: float) -> Eviction | None:
        """Return the connection to close for a new one, None if all are in use.

        It is the oldest with an incomplete handshake, otherwise the one that was silent longest.
        """
        connection = next((each for each in self.connections if not each.peer.ready), None)
        if connection is not None:
            why = f"this one did not complete its handshake within {now - connection.since:.1f} s"
        else:
            connection = min(self.connections, key=lambda each: each.active_at)
            if now - connection.active_at < MIN_IDLE:
                return None
            why = f"this one was silent for {now - connection.active_at:.0f} s"
        count = len(self.connections)
        return Eviction(
            connection, TooSlow(f"closed to make room for another connection: {count} were open, and {why}")
        )

    def rejection(self) -> PeerError:
        """Return the error for a new connection when none can be evicted."""
        why = f"{len(self.connections)} connections are open, and none was silent for {MIN_IDLE:g} s"
        return Violation(f"rejected: {why}")

    def charge(self, connection: Connection) -> list[Eviction]:
        """Update the memory that a connection holds. Return the connections to close to get below the limit."""
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
