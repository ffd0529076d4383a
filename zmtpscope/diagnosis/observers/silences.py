"""Sides that fall silent although a sign of life is due: unanswered PINGs, and an expired TTL."""

from __future__ import annotations

from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedPing
from zmtpscope.records import MILLISECOND, SECOND

MANY_TIMES = 10
"""A PONG counts as missing after this many times the longest latency so far."""
SHORTEST_NS = 20 * MILLISECOND
"""Minimum wait for a PONG (ns); a side that closes sooner has not waited for it."""
TTL_KEPT = 0.9, 1.5
"""The parts of a TTL after which it can have expired, and before which (plus TIMER_NS) the side closes the
connection."""
TIMER_NS = SECOND // 5
REPLY_NS = 20 * MILLISECOND
"""A system answers data to a closed socket with RST within this time (ns)."""


def open_pings(connection: ObservedConnection, asker: int, end: int) -> list[ObservedPing]:
    """Return the PINGs of a side without any data from the other side until `end`, oldest first."""
    heartbeats = connection.sides[asker].heartbeats
    if heartbeats is None:
        return []
    values = connection.values
    if values is not None and values[f"rst_ns_{asker}"] == end:
        end -= REPLY_NS  # data that reaches a closed socket is answered with RST
    return [ping for ping in heartbeats.waiting if ping.heard_ns is None or ping.heard_ns > end]


def waits_in_vain(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether a side that gave up at `end` had waited for a PONG for `MANY_TIMES` the longest latency so far."""
    heartbeats, pings = connection.sides[asker].heartbeats, open_pings(connection, asker, end)
    if heartbeats is None or not pings:
        return False
    return end - pings[0].moment.ns >= max(SHORTEST_NS, MANY_TIMES * (heartbeats.rtt.most or 0))


def is_past_ttl(connection: ObservedConnection, asker: int, end: int) -> bool:
    """Whether the TTL of the last PING of a side had just expired at `end` without a sign of life."""
    side = connection.sides[asker]
    if side.heartbeats is None or not side.heartbeats.ttl_ms or side.last_ns is None:
        return False
    least, most = (part * side.heartbeats.ttl_ms * MILLISECOND for part in TTL_KEPT)
    return least <= end - side.last_ns <= most + TIMER_NS
