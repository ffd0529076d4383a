"""Rules for misused sockets: connected to themselves, closed by a running timer, used for one request, or by a library
that sends too much."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import Ending, ending_of, is_agreed, lifetime
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, duration, name_of, server_name, shown, steady
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.records import SECOND
from zmtpscope.words import counted

TO_ITSELF = "ZMTP-CONN-11"


def _self_connected(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each endpoint."""
    for endpoint, connections in knowledge.by_endpoint.items():
        found = [(each, finding) for each in connections if (finding := each.finding(TO_ITSELF)) is not None]
        if not found:
            continue
        connection, _ = found[0]
        who = next((side.socket_type for side in connection.sides if side.socket_type), "socket")
        yield Diagnosis.of(
            "self-connected",
            "error",
            address(endpoint),
            f"The {who} that connects to {address(endpoint)} is connected to itself: nothing listened there, and TCP "
            "took that port for the client, so it receives what it sends and no server can bind there",
            "bind before others connect, or use a port below the range of ephemeral ports (ip_local_port_range)",
            evidence=(Evidence.opening(each) for each, _ in found[:MAX_EVIDENCE]),
            about=(each for each, _ in found),
            explains=(TO_ITSELF,),
            count=len(found),
            last_ns=found[-1][0].last_ns,
        )


MIN_TIMER = SECOND
MIN_TIMES = 2
LARGEST_DEVIATION = 0.02


def _handshake_timer(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each client address and endpoint."""
    for (client, endpoint), connections in knowledge.by_address.items():
        ended = [(each, ending) for each in connections if (ending := _ended_by_newer(each)) is not None]
        lives = [lifetime(each, ending) for each, ending in ended]
        period = steady(lives, LARGEST_DEVIATION)
        if len(ended) < MIN_TIMES or period is None or period < MIN_TIMER:
            continue
        connection, ending = ended[0]
        yield Diagnosis.of(
            "handshake-timer",
            "warn",
            f"{client} at {address(endpoint)}",
            f"{name_of(connection, ending.side)} closes each connection with {name_of(connection, 1 - ending.side)} "
            f"{duration(period)} after it began, {len(ended)} times, although messages pass: its handshake timer goes "
            "on behind a handshake of ZMTP 2.0",
            "replace libzmq 4.3.3 or 4.3.4 by 4.3.5 on the side that closes, or set its ZMQ_HANDSHAKE_IVL to 0",
            evidence=(Evidence.opening(each) for each, _ in ended[:MAX_EVIDENCE]),
            about=(each for each, _ in ended),
            count=len(ended),
            last_ns=ended[-1][0].last_ns,
            proven=False,
        )


def _ended_by_newer(connection: ObservedConnection) -> Ending | None:
    """Return the end of a complete ZMTP 2.0 connection, if the side that knows 3.x ended it, otherwise None."""
    values, ending = connection.values, ending_of(connection)
    if values is None or ending is None or values["version"] != "2.0" or not is_agreed(connection):
        return None
    return ending if (connection.sides[ending.side].version or "").startswith("3") else None


MIN_ONCE = 20
SHORT = SECOND


def _connection_per_request(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each client address and endpoint."""
    for (client, endpoint), connections in knowledge.by_address.items():
        if len(connections) < MIN_ONCE or not all(map(_has_one_request, connections)):
            continue
        first = connections[0]
        yield Diagnosis.of(
            "connection-per-request",
            "note",
            f"{client} at {address(endpoint)}",
            f"{client_name(first)} opens a connection to {server_name(first)} for each of its "
            f"{counted(len(connections), 'request')}: each costs a handshake, and a port for a minute or more",
            "keep one socket open for all requests of a program",
            evidence=(Evidence.opening(each) for each in connections[:MAX_EVIDENCE]),
            about=connections,
            count=len(connections),
            last_ns=connections[-1].last_ns,
        )


def _has_one_request(connection: ObservedConnection) -> bool:
    """Whether a client sent one message, received at most one, and closed within a second."""
    values, client, ending = connection.values, 1 - connection.listener, ending_of(connection)
    if values is None or ending is None or ending.side != client or not is_agreed(connection):
        return False
    is_one = values[f"messages_{client}"] == 1 and values[f"messages_{1 - client}"] <= 1
    return is_one and lifetime(connection, ending) < SHORT


PHANTOM = "phantom-identity"


def _phantoms(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each client address, endpoint and side."""
    for (client, endpoint), connections in knowledge.by_address.items():
        for listens in (True, False):
            found = [
                (each, side, phantom)
                for each in connections
                for side in (0, 1)
                if (side == each.listener) is listens and (phantom := each.sides[side].phantom) is not None
            ]
            if found:
                connection, side, _ = found[0]
                identity = connection.sides[side].identity
                often = f", on {len(found)} connections" if len(found) > 1 else ""
                what = f'identity "{shown(identity)}"' if identity else "empty identity"
                yield Diagnosis.of(
                    PHANTOM,
                    "warn",
                    f"{client} at {address(endpoint)}",
                    f"{name_of(connection, side)} sends its {what} twice to "
                    f"{name_of(connection, 1 - side)}, which speaks ZMTP 1.0: the second one is received as a message"
                    f"{often}",
                    "replace libzmq 4.0 of the side that sends it by a newer one, or drop the first message of each of "
                    "its connections",
                    evidence=(
                        Evidence(moment, "the identity as a message", each.ref)
                        for each, _, moment in found[:MAX_EVIDENCE]
                    ),
                    about=(each for each, _, _ in found),
                    count=len(found),
                    last_ns=found[-1][2].ns,
                    proven=False,
                )


TABLE = (
    Rule(
        "self-connected",
        "error",
        "A socket is connected to itself",
        "Both ends of a connection are one address and port. A client that keeps trying a local port in the range of "
        "ephemeral ports gets that port itself some day, and TCP connects it to itself.",
        "The two ends of the connection differ.",
        _self_connected,
        ("connection-refused", "wrong-pairing", "request-unanswered"),
    ),
    Rule(
        "handshake-timer",
        "warn",
        "A timer of the handshake closes connections of ZMTP 2.0",
        "A side that knows ZMTP 3.x ended two connections or more of ZMTP 2.0 after the same time each (within 2 %), "
        "which is its ZMQ_HANDSHAKE_IVL (30 s unless set), although the handshakes were complete. libzmq 4.3.3 and "
        "4.3.4 do not stop that timer for ZMTP 2.0.",
        "Lives of different lengths, another version, or a close by the older side.",
        _handshake_timer,
        ("peer-departed", "periodic-disconnect"),
    ),
    Rule(
        "connection-per-request",
        "note",
        "A client opens a connection for each request",
        "Twenty connections or more of one client address to an endpoint, each with one message of the client and one "
        "back at most, each closed by the client within a second.",
        "A connection of the two with more messages, or one that the client keeps.",
        _connection_per_request,
        ("peer-departed",),
    ),
    Rule(
        PHANTOM,
        "warn",
        "A peer sends its identity twice, and the second one is received as a message",
        "A peer that knows ZMTP 2.0 or newer met one of 1.0, and its first message is its identity once more, in one "
        "frame. libzmq 4.0.3 does so (issue 763 there). It is likely only, since a program may send its own name.",
        "The first message differs from the identity, or the sender speaks ZMTP 1.0 itself.",
        _phantoms,
    ),
)
