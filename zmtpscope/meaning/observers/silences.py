"""Sides that fall silent although they should give a sign of life: PINGs without an answer, and a TTL that is over."""

from __future__ import annotations

from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.observed_heartbeats import ObservedPing
from zmtpscope.records import SECOND

MILLISECOND = SECOND // 1000
MANY_TIMES = 10
"""A PONG is missed when it takes so much longer than any before, and ..."""
SHORTEST_NS = 20 * MILLISECOND
"""... at least so long. Who closes sooner has not waited for it."""
TTL_KEPT = 0.9, 1.5
"""A TTL is over behind this part of it, and has closed the connection before that one; a timer is late by ..."""
TIMER_NS = SECOND // 5
REPLY_NS = 20 * MILLISECOND
"""A system answers with RST what comes to a socket that is closed, at the latest behind ..."""


def open_pings(connection: ObservedConnection, asker: int, end: int) -> list[ObservedPing]:
    """The PINGs of a side behind which nothing at all came from the other one until `end`, the oldest first."""
    heartbeats = connection.sides[asker].heartbeats
    if heartbeats is None:
        return []
    values = connection.values
    if values is not None and values[f"rst_ns_{asker}"] == end:
        end -= REPLY_NS  # what a socket that is closed gets is what its system answers with RST
    return [ping for ping in heartbeats.waiting if ping.heard_ns is None or ping.heard_ns > end]


def waits_in_vain(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether a side that gave up at `end` had waited so long for an answer to its PING that it was missing."""
    heartbeats, pings = connection.sides[asker].heartbeats, open_pings(connection, asker, end)
    if heartbeats is None or not pings:
        return False
    return end - pings[0].moment.ns >= max(SHORTEST_NS, MANY_TIMES * (heartbeats.rtt.most or 0))


def is_past_ttl(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether the TTL of the last PING of a side was over at `end`, and had just been: it promised a sign of life."""
    side = connection.sides[asker]
    if side.heartbeats is None or not side.heartbeats.ttl_ms or side.last_ns is None:
        return False
    least, most = (part * side.heartbeats.ttl_ms * MILLISECOND for part in TTL_KEPT)
    return least <= end - side.last_ns <= most + TIMER_NS
