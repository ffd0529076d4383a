"""PINGs whose TTL is shorter than the time to the next PING, so that the peer closes connections of working
programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import address, duration, name_of, repeated
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.heartbeats import TIMER_NS, TTL_KEPT, is_past_ttl
from zmtpscope.diagnosis.observers.observed import Ends, ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND

WRAPS_MS = 1 << 16
"""libzmq up to 4.3.6 has 16 bits for the milliseconds of a received TTL."""

ALIVE_NS = 2 * SECOND
"""A client that reconnects within this time was neither stopped nor cut off."""

Pinger = tuple[Ends, str | None, bool]
"""Client and endpoint, the client's identity, and whether the listener sends the PINGs."""


class BrokenPromise(NamedTuple):
    """A connection that was closed because the TTL in the PINGs of side `asker` is shorter than their interval.

    `ttl_ns` is the announced TTL, and `kept_ns` the time after which the peer closed. `every_ns` is the interval, or
    None if libzmq truncated the TTL to `kept_ns`.
    """

    connection: ObservedConnection
    asker: int
    ttl_ns: int
    kept_ns: int
    every_ns: int | None
    closed_ns: int


@once
def broken_promises(knowledge: Knowledge) -> dict[str, BrokenPromise]:
    """Return the connections that ended because a TTL was too short, although both programs worked, by conn_id."""
    every = _intervals(knowledge)
    found: dict[str, BrokenPromise] = {}
    for same in knowledge.by_client.values():
        for place, connection in enumerate(same):
            broken = _broken(connection, islice(same, place + 1, None), every)
            if broken is not None:
                found[connection.conn_id] = broken
    return found


def _broken(
    connection: ObservedConnection, later: Iterable[ObservedConnection], every: dict[Pinger, int]
) -> BrokenPromise | None:
    ending = ending_of(connection)
    if ending is None or not connection.is_whole:
        return None
    asker, closed = 1 - ending.side, ending.moment.ns
    heartbeats = connection.sides[asker].heartbeats
    if heartbeats is None or heartbeats.last is None or not heartbeats.ttl_ms:
        return None
    ttl, wrapped = heartbeats.ttl_ms * MILLISECOND, heartbeats.ttl_ms % WRAPS_MS * MILLISECOND
    least, most = (part * wrapped for part in TTL_KEPT)
    if heartbeats.ttl_ms >= WRAPS_MS and least <= closed - heartbeats.last.ns <= most + TIMER_NS:
        return BrokenPromise(connection, asker, ttl, wrapped, None, closed)
    interval = every.get(_pinger(connection, asker))
    if interval is None and any(closed <= each.start.ns <= closed + ALIVE_NS for each in later):
        interval = _until_first_ping(connection, asker)
    if interval is not None and interval >= ttl and is_past_ttl(connection, asker, closed):
        return BrokenPromise(connection, asker, ttl, ttl, interval, closed)
    return None


def _intervals(knowledge: Knowledge) -> dict[Pinger, int]:
    """Return the usual interval (ns) of the PINGs of each peer: the longest of its connections."""
    found: dict[Pinger, int] = {}
    for connection in knowledge.connections:
        for asker, side in enumerate(connection.sides):
            interval = None if side.heartbeats is None else side.heartbeats.interval.median
            if interval is not None:
                pinger = _pinger(connection, asker)
                found[pinger] = max(round(interval), found.get(pinger, 0))
    return found


def _until_first_ping(connection: ObservedConnection, asker: int) -> int | None:
    """Return the time (ns) from the handshake to the only PING of a connection, or None: libzmq waits one interval
    before it."""
    side = connection.sides[asker]
    if side.heartbeats is None or side.heartbeats.last is None or side.ready is None:
        return None
    is_first = sum(side.heartbeats.counts.values()) + len(side.heartbeats.waiting) == 1
    return side.heartbeats.last.ns - side.ready.ns if is_first else None


def _pinger(connection: ObservedConnection, asker: int) -> Pinger:
    return connection.ends, connection.client.identity, asker == connection.listener


def by_pinger(broken: Iterable[BrokenPromise]) -> Iterable[Sequence[BrokenPromise]]:
    return grouped(((_pinger(each.connection, each.asker), each.every_ns is None), each) for each in broken).values()


HEARTBEAT_TTL = "heartbeat-ttl"
WRAPS = "ZMTP31-PING-07"


def _ttl(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for broken in by_pinger(broken_promises(knowledge).values()):
        yield _diagnosis(broken)


def _diagnosis(broken: Sequence[BrokenPromise]) -> Diagnosis:
    connection, asker, ttl, kept, every, _ = first = broken[0]
    name, peer = name_of(connection, asker), name_of(connection, 1 - asker)
    times = [each.closed_ns for each in broken]
    if every is None:
        promise = (
            f"{name} sends PINGs with a TTL of {duration(ttl)}, which libzmq up to 4.3.6 wraps to {duration(kept)}"
        )
        hint = f"set ZMQ_HEARTBEAT_TTL of {name} below 65536 ms"
    else:
        promise = f"{name} sends a PING every {duration(every)} with a TTL of only {duration(ttl)}"
        hint = f"set ZMQ_HEARTBEAT_TTL of {name} to twice its ZMQ_HEARTBEAT_IVL or more; neither program hangs"
    return Diagnosis.of(
        HEARTBEAT_TTL,
        "error",
        f"{name} at {address(connection.endpoint)}",
        f"{promise}: {peer} closes the connection {duration(_silence(first))} after the last sign of life"
        + repeated(times),
        hint,
        evidence=(
            Evidence(last, f"a PING with a TTL of {duration(ttl)}", each.connection.ref)
            for each in broken[:MAX_EVIDENCE]
            if (last := _last_ping(each)) is not None
        ),
        about=broken,
        explains=(WRAPS,),
        last_ns=max(times),
    )


def _last_ping(broken: BrokenPromise) -> Moment | None:
    heartbeats = broken.connection.sides[broken.asker].heartbeats
    return None if heartbeats is None else heartbeats.last


def _silence(broken: BrokenPromise) -> int:
    return broken.closed_ns - (broken.connection.sides[broken.asker].last_ns or broken.closed_ns)


TABLE = (
    Rule(
        HEARTBEAT_TTL,
        "error",
        "A heartbeat TTL closes connections of working programs",
        "A peer sends PINGs with a TTL that is shorter than the time to its next PING, or longer than 65.5 s, which "
        "libzmq up to 4.3.6 truncates. The other side closed the connection when the TTL expired, as the protocol "
        "requires.\n"
        "* The time between two PINGs is taken from any connection of the peer to the endpoint.\n"
        "* If no connection has two PINGs, and the peer reconnects within 2 s, it is the time from the handshake to "
        "the first PING.",
        "The next PING arrives before the TTL expires, or the other side did not close then.",
        _ttl,
        (
            *(
                "heartbeat-timeout",
                "peer-departed",
                "periodic-disconnect",
                "client-returns",
                "reconnect-storm",
                "request-lost",
            ),
            *("request-unanswered", "late-reply", "late-subscriber", "subscription-lost-on-reconnect"),
        ),
    ),
)
