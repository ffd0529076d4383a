"""The connections that a socket has at the same time: how many there may be, what they may make us keep together, and
which of them has to go for that."""

from __future__ import annotations

import resource
from typing import NamedTuple

from zmtpscope.live.budget import Budget
from zmtpscope.live.connection import Connection
from zmtpscope.zmtp.peer import PeerError, TooSlow, Violation

MOST_CONNECTIONS = 1024
"""Of a socket that listens; for another one somebody has to go (`Places.release`). At most half of the files that the
process may open: some hundred are accepted before any of them can be closed, and without a file none can be."""
LARGEST_HELD = 256 << 20
"""Octets that all connections of a socket make us keep together: messages that are not all there yet, subscriptions,
and what waits for those that take nothing. Twice the largest message where that is more."""
LEAST_IDLE = 10.0
"""Seconds in which a connection has neither sent nor taken anything, after which another one may have its place."""


class Ending(NamedTuple):
    """A connection that has to go, and what is said of it."""

    connection: Connection
    error: PeerError


class Places:
    """Those of one socket, whose messages have at most `largest_message` octets."""

    def __init__(self, largest_message: int) -> None:
        self.connections: dict[Connection, None] = {}
        """All that there are, the oldest first."""
        self._budget: Budget[Connection] = Budget(max(LARGEST_HELD, 2 * largest_message))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        unlimited = files == resource.RLIM_INFINITY
        self._most = MOST_CONNECTIONS if unlimited else min(MOST_CONNECTIONS, files // 2)

    def add(self, connection: Connection) -> None:
        """It has a place, whether one is free or not."""
        self.connections[connection] = None

    def remove(self, connection: Connection) -> None:
        """It has none any more."""
        self._budget.charge(connection, 0)
        self.connections.pop(connection, None)

    @property
    def are_full(self) -> bool:
        """There is no place for another one."""
        return len(self.connections) >= self._most

    def release(self, now: float) -> Ending | None:
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
        return Ending(connection, TooSlow(f"closed for another one: {count} were open, and {why}"))

    def why_in_use(self) -> PeerError:
        """What is said to another one where nobody has to go."""
        why = f"{len(self.connections)} connections are open, and none of them has been silent for {LEAST_IDLE:g} s"
        return Violation(f"turned away: {why}")

    def charge(self, connection: Connection) -> list[Ending]:
        """It may hold more now: who has to go, since all together hold more than they may."""
        budget = self._budget
        budget.charge(connection, connection.held)
        endings = []
        while budget.total > budget.limit:
            largest, octets = budget.largest()
            budget.charge(largest, 0)
            limit = f"all connections together hold more than {budget.limit >> 20} MiB"
            held = f"messages under way, subscriptions and what is not read, and this one holds most: {octets} octets"
            endings.append(Ending(largest, Violation(f"{limit} for {held}")))
        return endings
