"""Rules for heartbeats with a TTL that ends connections of healthy programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.promises import BrokenPromise, broken_promises, by_pinger
from zmtpscope.diagnosis.across.words import address, duration, name_of, repeated
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment

HEARTBEAT_TTL = "heartbeat-ttl"
WRAPS = "ZMTP31-PING-07"


def _ttl(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each peer that sends such PINGs at an endpoint."""
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
        count=len(broken),
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
        "A peer sends PINGs with a TTL that is shorter than the time to its next PING, or with a TTL above 65.5 s, "
        "which libzmq up to 4.3.6 truncates. The other side closed when the TTL expired, as the protocol requires. "
        "The time between PINGs is taken from any connection of the peer to the endpoint, or, if it reconnects "
        "within 2 s, from the handshake to its first PING.",
        "The next PING arrives before the TTL expires, or the other side did not close then.",
        _ttl,
        (
            *("heartbeat-timeout", "peer-departed", "periodic-disconnect", "reconnect-storm", "request-lost"),
            *("request-unanswered", "late-reply", "late-subscriber", "subscription-lost-on-reconnect"),
        ),
    ),
)
