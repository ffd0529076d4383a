"""Sockets that are used wrongly: connected to themselves or twice to a peer, closed by a handshake timer, or opened for
a single request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from zmtpscope.diagnosis.across.endings import Ending, ending_of, is_agreed, lifetime
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.across.words import address, client_name, duration, name_of, server_name, shown, steady
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.words import counted

TO_ITSELF = "ZMTP-CONN-11"


def _self_connected(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for endpoint, found in grouped((each.endpoint, each) for each in knowledge.having(TO_ITSELF)).items():
        who = next((side.socket_type for side in found[0].sides if side.socket_type), "socket")
        yield Diagnosis.of(
            "self-connected",
            "error",
            address(endpoint),
            f"The {who} that connects to {address(endpoint)} is connected to itself: nothing listened there, and "
            "TCP assigned that port to the client, so it receives its own messages and no server can bind there",
            "bind before other programs connect, or use a port below the ephemeral range (ip_local_port_range)",
            evidence=map(Evidence.opening, found[:MAX_EVIDENCE]),
            about=found,
            explains=(TO_ITSELF,),
            last_ns=found[-1].last_ns,
        )


MIN_TIMER = SECOND
MIN_TIMES = 2
LARGEST_DEVIATION = 0.02


def _handshake_timer(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, connections in knowledge.by_ends.items():
        ended = [(each, ending) for each in connections if (ending := _ended_by_newer(each)) is not None]
        lives = [lifetime(each, ending) for each, ending in ended]
        period = steady(lives, LARGEST_DEVIATION)
        if len(ended) < MIN_TIMES or period is None or period < MIN_TIMER:
            continue
        connection, ending = ended[0]
        yield Diagnosis.of(
            "handshake-timer",
            "warn",
            ends.name,
            f"{name_of(connection, ending.side)} closes each connection with {name_of(connection, 1 - ending.side)} "
            f"{duration(period)} after it began, {len(ended)} times, although messages pass: its handshake timer "
            "continues after a ZMTP 2.0 handshake",
            "replace libzmq 4.3.3 or 4.3.4 by 4.3.5 on the side that closes, or set its ZMQ_HANDSHAKE_IVL to 0",
            evidence=(Evidence.opening(each) for each, _ in ended[:MAX_EVIDENCE]),
            about=(each for each, _ in ended),
            last_ns=ended[-1][0].last_ns,
            proven=False,
        )


def _ended_by_newer(connection: ObservedConnection) -> Ending | None:
    """Return how a complete ZMTP 2.0 connection ended, if the side that knows 3.x ended it; otherwise None."""
    values, ending = connection.values, ending_of(connection)
    if values is None or ending is None or values["version"] != "2.0" or not is_agreed(connection):
        return None
    return ending if (connection.sides[ending.side].version or "").startswith("3") else None


MIN_ONCE = 20
SHORT = SECOND


def _connection_per_request(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, connections in knowledge.by_ends.items():
        if len(connections) < MIN_ONCE:
            continue
        are_kept = all(map(_is_kept, connections)) and _follow_each_other(connections)
        if not are_kept and not all(map(_has_one_request, connections)):
            continue
        first = connections[0]
        costs = "each costs a handshake, and a port for a minute or more"
        if are_kept:
            costs = "it closes none, and both programs keep a file descriptor for each"
        yield Diagnosis.of(
            "connection-per-request",
            "note",
            ends.name,
            f"{client_name(first)} opens a connection to {server_name(first)} for each of its "
            f"{counted(len(connections), 'request')}: {costs}",
            "keep one socket open for all requests of a program" + (", or close each one" if are_kept else ""),
            evidence=(Evidence.opening(each) for each in connections[:MAX_EVIDENCE]),
            about=connections,
            last_ns=connections[-1].last_ns,
        )


def _has_one_request(connection: ObservedConnection) -> bool:
    """Whether the client sent one message, received at most one, and closed within a second."""
    values, client, ending = connection.values, 1 - connection.listener, ending_of(connection)
    if values is None or ending is None or ending.side != client or not is_agreed(connection):
        return False
    is_one = values[f"messages_{client}"] == 1 and values[f"messages_{1 - client}"] <= 1
    return is_one and lifetime(connection, ending) < SHORT


def _is_kept(connection: ObservedConnection) -> bool:
    """Whether a client sent one message, received one, and keeps the connection open."""
    client, server = connection.client.rhythm, connection.server.rhythm
    is_one = client is not None and client.count == 1 and server is not None and server.count == 1
    return is_one and connection.is_open and is_agreed(connection)


def _follow_each_other(connections: Sequence[ObservedConnection]) -> bool:
    """Whether no connection was used after the next one began, as if one program opens them and forgets them."""
    return all(before.spoke_ns <= after.start.ns for before, after in pairwise(connections))


TWICE = "connected-twice"
AT_ONCE = MILLISECOND


def _connected_twice(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher in publishers(knowledge):
        found: dict[tuple[str, str | None], tuple[Subscriber, Subscriber]] = {}
        for one, other in pairwise(publisher.subscribers):
            if _are_one_socket(one, other):
                found.setdefault((one.ip, one.identity), (one, other))
        for one, other in found.values():
            if _were_apart(one, publisher):
                continue
            who, whom = name_of(one.connection, one.side), name_of(one.connection, 1 - one.side)
            after = other.connection.start.ns - one.connection.start.ns
            yield Diagnosis.of(
                TWICE,
                "note",
                f"{one.name} at {publisher.name}",
                f"{who} connected to {whom} twice within {duration(after)}, with the same subscriptions: if that is "
                "one socket, it receives each message twice",
                "connect once: libzmq does not notice that localhost and 127.0.0.1 are one endpoint",
                evidence=(Evidence.opening(each.connection) for each in (one, other)),
                about=(one, other),
                count=2,
                proven=False,
            )


def _were_apart(one: Subscriber, publisher: Publisher) -> bool:
    """Whether earlier connections of the client began at different times, so that two sockets now reconnected at the
    same time."""
    began = [
        each.connection.start.ns
        for each in publisher.subscribers
        if each.client == one.client and each.connection.start.ns < one.connection.start.ns
    ]
    return bool(began) and all(later - sooner > AT_ONCE for sooner, later in pairwise(began))


def _are_one_socket(one: Subscriber, other: Subscriber) -> bool:
    """Whether two connections probably belong to one socket: they began at the same time, and have the same
    subscriptions."""
    is_same = one.client == other.client and one.side != one.connection.listener
    is_at_once = other.connection.start.ns - one.connection.start.ns <= AT_ONCE
    is_served = all(
        each.is_filtered and each.latest_ns and each.is_open and each.ending is None for each in (one, other)
    )
    topics = [
        {(subscription.topic, subscription.until_ns is None) for subscription in each.subscriptions}
        for each in (one, other)
    ]
    return is_same and is_at_once and is_served and bool(topics[0]) and topics[0] == topics[1]


PHANTOM = "phantom-identity"


def _phantoms(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, connections in knowledge.by_ends.items():
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
                    ends.name,
                    f"{name_of(connection, side)} sends its {what} twice to "
                    f"{name_of(connection, 1 - side)}, which speaks ZMTP 1.0: the second one is received as a message"
                    f"{often}",
                    "replace libzmq 4.0 of the sender by a newer version, or drop the first message of each of its "
                    "connections",
                    evidence=(
                        Evidence(moment, "the identity as a message", each.ref)
                        for each, _, moment in found[:MAX_EVIDENCE]
                    ),
                    about=(each for each, _, _ in found),
                    last_ns=found[-1][2].ns,
                    proven=False,
                )


TABLE = (
    Rule(
        "self-connected",
        "error",
        "A socket is connected to itself",
        "Both ends of a connection have the same address and port. A client retried a port of its own host on which "
        "no program listened. TCP assigned that port to the client itself, as it may if the port is in the ephemeral "
        "range, and the socket connected to itself.",
        "The two ends of the connection differ.",
        _self_connected,
        ("connection-refused", "wrong-pairing", "request-unanswered"),
    ),
    Rule(
        "handshake-timer",
        "warn",
        "A handshake timer closes connections of ZMTP 2.0",
        "A side closed at least two ZMTP 2.0 connections after an equal time (within 2 %), although their handshakes "
        "were complete. That side supports ZMTP 3.x, and the time is its ZMQ_HANDSHAKE_IVL (30 s by default): libzmq "
        "4.3.3 and 4.3.4 do not stop that timer on connections of ZMTP 2.0.",
        "* The connections last for different times, or have another version.\n"
        "* The side with the older version closes.",
        _handshake_timer,
        ("peer-departed", "periodic-disconnect", "client-returns"),
    ),
    Rule(
        "connection-per-request",
        "note",
        "A client opens a connection for each request",
        "A client opened at least twenty connections to an endpoint, one for each request. All of them look alike, in "
        "one of two ways:\n"
        "* The client sent one message, received at most one, and closed the connection within a second.\n"
        "* The client sent one message, received one, keeps the connection open, and no longer uses it once it has "
        "opened the next.",
        "* A connection between the two carries more messages.\n"
        "* The client keeps some connections, and closes others.",
        _connection_per_request,
        ("peer-departed",),
    ),
    Rule(
        TWICE,
        "note",
        "A subscriber is connected twice to one publisher",
        "A client opened two connections to a publisher within 1 ms. They have the same identity, or none, and the "
        "same subscriptions, so each message is received twice. Probably one socket connected twice. A capture does "
        "not show whether the connections belong to one socket or to two.",
        "* The connections, or the earlier connections that they replace, began at different times.\n"
        "* Their subscriptions or cancellations differ, or one of them ended.",
        _connected_twice,
    ),
    Rule(
        PHANTOM,
        "warn",
        "A peer sends its identity twice, and the second one is received as a message",
        "A peer that supports ZMTP 2.0 or newer connects to a peer of ZMTP 1.0, and sends its identity twice: in the "
        "greeting, and again as its first message. libzmq 4.0.3 does this (its issue 763). The receiving program gets "
        "a message that the other program never sent. Not proven: a program may send its own name.",
        "The first message differs from the identity, or the sender speaks ZMTP 1.0 itself.",
        _phantoms,
    ),
)
