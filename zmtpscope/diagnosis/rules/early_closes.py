"""Connections that end before they are used: both sides have the same mechanism role, a program exits too soon, or a
command is rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.handshakes import (
    MIN_IDLE,
    MIN_WAIT,
    OTHER_CAUSES,
    hung_handshakes,
    path_to_client,
    rejects_type,
)
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import (
    client_name,
    duration,
    name_of,
    repeated,
    server_name,
    steady,
)
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.observed import Ends, ObservedConnection
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.zmtp.socket_types import PUBLISHERS, may_meet

ROLES = {
    ("CURVE", "server"): "ZMQ_CURVE_SERVER is set on both: set ZMQ_CURVE_SERVERKEY instead on one of the two",
    ("CURVE", "client"): "ZMQ_CURVE_SERVERKEY is set on both: set ZMQ_CURVE_SERVER instead on one of the two",
    ("PLAIN", "server"): "ZMQ_PLAIN_SERVER is set on both: set ZMQ_PLAIN_USERNAME and _PASSWORD instead on one",
    ("PLAIN", "client"): "ZMQ_PLAIN_USERNAME is set on both: set ZMQ_PLAIN_SERVER on one of the two",
}
"""Text and hint for two sides with the same role, by mechanism and role."""


def _same_role(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for ends, connections in knowledge.by_ends.items():
        found = [(each, role) for each in connections if (role := _common_role(each, knowledge.last_ns))]
        if not found or any(map(is_agreed, connections)):
            continue
        (first, role), same = found[0], [each for each, _ in found]
        mechanism = first.sides[0].mechanism or ""
        # the side that closes does not hang, and waits for a HELLO, although a client would have sent its own
        closers = {None if (ending := ending_of(each)) is None else ending.side for each in same}
        waits = "each waits for the HELLO of the other" if role == "server" else "each sends HELLO"
        times = [each.start.ns for each in same]
        yield Diagnosis.of(
            "same-role",
            "error",
            ends.name,
            f"{server_name(first)} and {ends.client} are both {role}s of {mechanism}: {waits}{repeated(times)}",
            f"{ROLES[mechanism, role]}; it does not matter which of them binds",
            evidence=(Evidence.opening(each) for each in same[:MAX_EVIDENCE]),
            about=same,
            last_ns=same[-1].last_ns,
            proven=role == "client" or {0, 1} <= closers,
        )


def _common_role(connection: ObservedConnection, now: int) -> str | None:
    """Return the role in the security mechanism that both sides have ("client" or "server"); None if they differ or are
    unknown."""
    sides, mechanism = connection.sides, connection.sides[0].mechanism
    if (mechanism, "server") not in ROLES or sides[1].mechanism != mechanism or any(side.error for side in sides):
        return None
    if connection.gaps or (connection.values is not None and not connection.is_whole):
        return None
    commands = [None if side.last_command is None else side.last_command[1] for side in sides]
    if commands == ["HELLO", "HELLO"]:
        return "client"
    ending, greeted = ending_of(connection), max(side.greeting.ns for side in sides if side.greeting is not None)
    waited = end_of(connection, now) - greeted
    least = MIN_WAIT if ending is not None else MIN_IDLE
    return "server" if commands == [None, None] and waited >= least else None


MIN_LEFT = 2
EXIT_HINT = (
    "make the program close its socket and terminate its context before it exits, with ZMQ_LINGER above 0 or -1: then "
    "it waits until its messages are sent"
)
TIMER_HINT = (
    "raise ZMQ_HANDSHAKE_IVL of the client above several round trips of this path (30 s unless set); if its programs "
    "exit themselves, set ZMQ_LINGER above 0 or to -1"
)


def _left_early(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client address and endpoint with handshakes that the client broke off, if other connections of the
    two succeed."""
    hung = {each.connection.conn_id for same in hung_handshakes(knowledge).values() for each in same}
    for ends, connections in knowledge.by_ends.items():
        left = [each for each in connections if each.conn_id not in hung and _leaves_early(each)]
        agreed = [each for each in connections if is_agreed(each)]
        if len(left) < MIN_LEFT or not agreed:
            continue
        lasted = steady([end_of(each, each.start.ns) - each.start.ns for each in left])
        is_timer = lasted is not None and len(left) > MIN_LEFT and all(map(path_to_client, left))
        why, hint = ": a program that exits so early loses its queued messages", EXIT_HINT
        if lasted is not None and is_timer:
            why, hint = f", each after about {duration(lasted)}: a timer, or a program that exits", TIMER_HINT
        yield Diagnosis.of(
            "left-in-handshake",
            "warn",
            ends.name,
            f"{client_name(agreed[0])} closes {len(left)} of {len(connections)} connections to "
            f"{server_name(agreed[0])} before the handshake is complete{why}",
            hint,
            evidence=(_ends(each) for each in left[:MAX_EVIDENCE]),
            about=left,
            explains=LEAVING,
            last_ns=left[-1].last_ns,
            proven=False,
        )


LEAVING = ("ZMTP-CONN-03", "NULL-08", "PLAIN-09", "ZMTP3X-GREETING-12")
"""Findings about a side that closes before its handshake is complete."""


def _leaves_early(connection: ObservedConnection) -> bool:
    """Whether a ZMTP client closes before the handshake is complete, and the capture shows no reason."""
    client, ending = 1 - connection.listener, ending_of(connection)
    if ending is None or ending.side != client or is_agreed(connection) or not connection.is_whole:
        return False
    if connection.finding(*OTHER_CAUSES) is not None or any(side.error for side in connection.sides):
        return False
    if rejects_type(connection):
        return False
    return connection.sides[client].greeting is not None and ending.moment.ns - connection.start.ns < MIN_WAIT


def _ends(connection: ObservedConnection) -> Evidence:
    lasted = end_of(connection, connection.start.ns) - connection.start.ns
    return Evidence(connection.start, f"the connection begins; it ends {duration(lasted)} later", connection.ref)


MIN_EMPTY = 3
SHORT = 3 * SECOND
"""A publisher that stays longer has time to receive subscriptions."""


def _leave_before_publishing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each address and endpoint where connecting publishers close before they send a message."""
    for ends, connections in knowledge.by_ends.items():
        empty = [each for each in connections if _publishes_nothing(each)]
        subscribed = sum(each.server.subscriptions is not None for each in empty)
        if len(empty) < MIN_EMPTY or len(empty) * 2 < sum(map(is_agreed, connections)) or not subscribed:
            continue
        first, on = empty[0], "each" if subscribed == len(empty) else f"{subscribed} of them"
        lives = [ending.moment.ns - each.start.ns for each in empty if (ending := ending_of(each)) is not None]
        yield Diagnosis.of(
            "publisher-leaves-early",
            "warn",
            ends.name,
            f"{client_name(first)} closes {len(empty)} of {len(connections)} connections to {server_name(first)} "
            f"within {duration(max(lives))} without a message, although a subscription arrived on {on}: messages "
            "published before it are lost",
            "make the program wait for the subscription before it publishes (an XPUB receives it) and before it "
            "exits, or keep one PUB open for all messages; PUSH does not drop",
            evidence=(_ends(each) for each in empty[:MAX_EVIDENCE]),
            about=empty,
            last_ns=empty[-1].last_ns,
            proven=False,
        )


def _publishes_nothing(connection: ObservedConnection) -> bool:
    """Whether a publisher closes its connection soon after it opened, and sent no message."""
    publisher, ending, values = 1 - connection.listener, ending_of(connection), connection.values
    if ending is None or ending.side != publisher or ending.cause not in ("closed", "reset") or values is None:
        return False
    if connection.sides[publisher].socket_type not in PUBLISHERS or not (connection.is_whole and is_agreed(connection)):
        return False
    is_silent = not values[f"messages_{publisher}"] and not values[f"sealed_{publisher}"]
    return is_silent and ending.moment.ns - connection.start.ns < SHORT


AT_ONCE = 5 * MILLISECOND
"""A side that closes within this time plus the handshake time does so because of the last command."""
MIN_REJECTED = 3


class Rejected(NamedTuple):
    """A connection that one side closed immediately after it received `command` at `moment`."""

    connection: ObservedConnection
    ending: Ending
    command: str
    moment: Moment

    @property
    def by_listener(self) -> bool:
        return self.ending.side == self.connection.listener

    @property
    def after(self) -> int:
        return self.ending.moment.ns - self.moment.ns


def _rejected(connection: ObservedConnection) -> Rejected | None:
    """Return the command after which a side immediately closed the connection, if the other side sent nothing more;
    otherwise None."""
    ending = ending_of(connection)
    if ending is None or ending.cause not in ("closed", "reset") or not connection.is_whole:
        return None
    closing, other = connection.sides[ending.side], connection.sides[1 - ending.side]
    if other.last_command is None or other.last_command[1] not in ("READY", "PING"):
        return None
    moment, command = other.last_command
    setup = 0 if other.ready is None else max(0, other.ready.ns - connection.start.ns)
    if not 0 <= ending.moment.ns - moment.ns <= AT_ONCE + setup:
        return None
    if command == "PING":
        is_last = other.last_ns is not None and other.last_ns <= moment.ns
        return Rejected(connection, ending, command, moment) if is_last else None
    types = closing.socket_type, other.socket_type
    fits = types[0] is not None and types[1] is not None and may_meet(types[0], types[1])
    return Rejected(connection, ending, command, moment) if fits and closing.rhythm is None else None


def _rejections(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client, endpoint and closing side, if that side always closes on the same command."""
    for ends, connections in knowledge.by_ends.items():
        rejected = (each for each in map(_rejected, connections) if each is not None)
        found = grouped(((each.by_listener, each.command), each) for each in rejected)
        for (by_listener, command), same in found.items():
            if command == "PING" and _is_pinged(connections, by_listener, same):
                yield _on_ping(ends, same)
            if command == "READY" and len(same) >= MIN_REJECTED and _all_end_so(connections, same, by_listener):
                yield _on_ready(ends, same)


def _is_pinged(connections: Sequence[ObservedConnection], by_listener: bool, same: Sequence[Rejected]) -> bool:
    """Whether a side closes on the first PING of every connection: at least twice, or once for a DISH of libzmq."""
    first = same[0].connection.sides[same[0].ending.side]
    came_back = len(connections) > 1
    if len(same) < MIN_LEFT and (first.socket_type != "DISH" or came_back):
        return False
    for connection in connections:
        side = connection.listener if by_listener else 1 - connection.listener
        heartbeats = connection.sides[1 - side].heartbeats
        if heartbeats is not None and heartbeats.interval.count:
            return False
    return True


def _all_end_so(connections: Sequence[ObservedConnection], same: Sequence[Rejected], by_listener: bool) -> bool:
    """Whether all connections between two peers end in this way.

    If the client closes, it must also reconnect quickly, because programs that connect from time to time close, too.
    """
    conn_ids = {each.connection.conn_id for each in same}
    if any(is_agreed(each) and each.conn_id not in conn_ids for each in connections):
        return False
    starts = sorted(each.connection.start.ns for each in same)
    return by_listener or median(later - sooner for sooner, later in pairwise(starts)) < MIN_WAIT


DISH_HINT = "a DISH of libzmq up to 4.3.5 closes on heartbeats: set ZMQ_HEARTBEAT_IVL of the RADIO to 0"
PING_HINT = (
    "that peer does not support heartbeats: set ZMQ_HEARTBEAT_IVL of the other side to 0, or replace its library"
)


def _on_ping(ends: Ends, same: Sequence[Rejected]) -> Diagnosis:
    connection, ending = same[0][:2]
    closes, pings = name_of(connection, ending.side), name_of(connection, 1 - ending.side)
    is_dish = connection.sides[ending.side].socket_type == "DISH"
    hint = DISH_HINT if is_dish else PING_HINT
    back = "" if len(same) > 1 else " and does not reconnect"
    return _diagnosis(
        "closes-on-ping",
        ends,
        same,
        f"{closes} closes {duration(same[0].after)} after the PING of {pings}{back}",
        hint,
    )


def _on_ready(ends: Ends, same: Sequence[Rejected]) -> Diagnosis:
    connection, ending = same[0][:2]
    closes, other = name_of(connection, ending.side), name_of(connection, 1 - ending.side)
    return _diagnosis(
        "closes-on-ready",
        ends,
        same,
        f"{closes} closes {duration(same[0].after)} after the READY of {other}, although their socket types fit",
        "raise ZMQ_MAXMSGSIZE of the side that closes: a READY with an identity or properties may exceed it",
    )


def _diagnosis(rule: str, ends: Ends, same: Sequence[Rejected], text: str, hint: str) -> Diagnosis:
    times = [each.ending.moment.ns for each in same]
    return Diagnosis.of(
        rule,
        "warn",
        ends.name,
        text + repeated(times),
        hint,
        evidence=(
            Evidence(each.moment, (f"{each.command}, the last one it received"), None) for each in same[:MAX_EVIDENCE]
        ),
        about=same,
        last_ns=max(times),
        proven=False,
    )


TABLE = (
    Rule(
        "same-role",
        "error",
        "Both sides act as server, or both as client, of a mechanism",
        "Both sides announced the same mechanism, CURVE or PLAIN, and the same role in it. It does not matter which "
        "side binds.\n"
        "* Two servers: neither side sends HELLO, until one gives up or the capture ends. Proven if each side closed "
        "at least once while it waited, so that neither hangs.\n"
        "* Two clients: both sides send HELLO.",
        "* Either side sends a command other than HELLO.\n* A handshake between the two succeeds.",
        _same_role,
        ("reconnect-storm", "handshake-timeout"),
    ),
    Rule(
        "left-in-handshake",
        "warn",
        "A program exits before it is connected",
        "A client closed at least two connections before their handshake was complete. Other connections from its "
        "address to the same endpoint succeeded, so socket types and credentials match. A program that exits without "
        "waiting for its socket does this, and loses its queued messages. A capture does not show whether messages "
        "were queued.\n"
        "* If the client closed at least three times after an equal time, over a long path, its ZMQ_HANDSHAKE_IVL may "
        "be too short.",
        "* The other side closes, sends ERROR or does not answer.\n"
        "* No connection between the two succeeds.\n"
        "* The client closes with FIN immediately after READY: the socket types do not match.",
        _left_early,
        ("reconnect-storm", "peer-departed"),
    ),
    Rule(
        "publisher-leaves-early",
        "warn",
        "A publisher exits before its messages can be sent",
        "A PUB connected at least three times, and closed at least half of its connections within 3 s without a "
        "message, although it received a subscription on some. A PUB drops messages that it publishes before a "
        "subscription arrives, which is only after the handshake. So a program that connects, publishes at once and "
        "exits loses all its messages. Not proven: a capture does not show dropped messages, and the program may have "
        "published none.",
        "* Most of the connections carry a message, or last for 3 s.\n* No subscription arrives.",
        _leave_before_publishing,
        ("peer-departed",),
    ),
    Rule(
        "closes-on-ping",
        "warn",
        "A peer closes the connection on a heartbeat",
        "One side closed each of its connections within milliseconds of the first PING, at least twice. A DISH of "
        "libzmq up to 4.3.5 does this, and may not reconnect.",
        "On a connection between the two, the side stays after a PING: a second PING is sent, or it receives anything "
        "else.",
        _rejections,
        ("reconnect-storm", "peer-departed", "periodic-disconnect", "client-returns"),
    ),
    Rule(
        "closes-on-ready",
        "warn",
        "A peer closes the connection on READY",
        "One side closed at least three connections within milliseconds of the other side's READY, although the "
        "socket types match and it sent READY itself. libzmq does this if READY is larger than ZMQ_MAXMSGSIZE.",
        "A connection between the two lasts, or the side that closes sends a message.",
        lambda knowledge: iter(()),
        ("reconnect-storm", "peer-departed", "periodic-disconnect", "client-returns"),
    ),
)
