"""Sides that sent messages steadily and then stopped, although similar peers continue or requests arrive."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeVar

from zmtpscope.diagnosis.across.endings import end_of, ending_of, is_agreed
from zmtpscope.diagnosis.across.hanging import hanging
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.unanswering import (
    MIN_LASTED,
    MIN_MESSAGES,
    MIN_SILENCE,
    Unanswered,
    last_unanswered,
    unanswered,
)
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, ObservedSide, began
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.socket_types import PUBLISHERS_AND_RADIO, ROUTING, TWO_WAY

Key = TypeVar("Key", bound=Hashable)

MIN_TURNS, MIN_PAUSES = 3.5, 4
"""A client has stopped if it sent for the first multiple of its longest pause, is silent for the second, and similar
ones continue."""

MANY_TURNS, LONG_SILENCE = 15, 10 * SECOND
"""Silence that is a warning for a DEALER with an identity, because its ROUTER knows it: multiple of its longest pause,
and ns."""

STEADY_SILENCE = 6 * SECOND
"""Longest usual silence of a side that sent messages steadily and unasked, and of a client that asked steadily."""

MIN_BEATS, MAX_JITTER, MISSING_BEATS = 12, 1.25, 10
"""For heartbeats that ceased: minimum number of messages, longest pause as a multiple of the mean, and silence as a
multiple of the longest pause."""

UNASKED = 8
"""A ROUTER or DEALER that sends this many times as many messages as it receives is not asked for them."""

SAME_RHYTHM = 2
"""Longest pauses of similar clients differ by at most this factor."""

SENDERS = PUBLISHERS_AND_RADIO | {"PUSH", "SCATTER"}
"""Socket types that send messages without a request."""

ASKERS = ("REQ", "CLIENT")
"""Socket types that stop when they have nothing more to request."""

RUNNING = "running"
"""`until` of a stall that continues."""

MAX_COMPARED = 64
"""Silent workers of a host, or similar peers, to compare with one peer."""


class Silence(NamedTuple):
    """A side of an open connection that sent nothing from its last message until `until` (ns).

    `text` names the peers that continue meanwhile. `asker` is the side whose messages have no answer, `successor` the
    connection on which the client continues, and `blocked_by` the conn_id of a receiver that blocks the sender; each
    may be None.
    """

    connection: ObservedConnection
    side: int
    until: int
    severity: Severity
    text: str
    asker: ObservedSide | None = None
    """The side with unanswered messages, on any connection."""
    successor: ObservedConnection | None = None
    """The connection on which the client continues."""
    blocked_by: str | None = None
    """The conn_id of a receiver that reads nothing, for which the side may wait."""

    @property
    def rhythm(self) -> ObservedRhythm:
        rhythm = self.connection.sides[self.side].rhythm
        assert rhythm is not None
        return rhythm

    @property
    def is_of_listener(self) -> bool:
        return self.side == self.connection.listener


@once
def silences(knowledge: Knowledge) -> Sequence[Silence]:
    found: list[Silence] = []
    for connection in knowledge.connections:
        if connection.is_whole and is_agreed(connection):
            found += _of_connection(connection, knowledge)
        else:
            found += _of_only_sender(connection, knowledge)
    return found


def _of_only_sender(connection: ObservedConnection, knowledge: Knowledge) -> Iterator[Silence]:
    """Find the silence of the side that sent all messages of a connection whose start was not captured."""
    is_midstream = connection.socket_types() == (None, None) and not connection.is_doubtful
    senders = [number for number, side in enumerate(connection.sides) if side.rhythm is not None]
    if not (is_midstream and connection.is_unbroken and connection.is_open) or len(senders) != 1:
        return
    rhythm = connection.sides[senders[0]].rhythm
    if rhythm is not None and _may_be_silent(connection, senders[0], rhythm, knowledge.last_ns):
        silence = _steady(connection, senders[0], knowledge)
        if silence is not None:
            yield silence


def _of_connection(connection: ObservedConnection, knowledge: Knowledge) -> Iterator[Silence]:
    ending = ending_of(connection)
    if ending is None and not connection.is_open:
        return
    until = end_of(connection, knowledge.last_ns)
    for side in (0, 1):
        rhythm = connection.sides[side].rhythm
        if rhythm is not None and _may_be_silent(connection, side, rhythm, until):
            is_left = ending is None or ending.side != side
            silence = _unanswering(connection, side, until, unanswered(connection, side, until, knowledge))
            is_steady = silence is None and rhythm.lasted_ns >= MIN_LASTED
            if is_steady and is_left:
                silence = _reconnected(connection, side, until, knowledge) or _beside_others(
                    connection, side, until, knowledge
                )
            if is_steady and silence is None and is_left:
                silence = _unanswering(connection, side, until, last_unanswered(connection, side, until))
            if is_steady and silence is None and ending is None:
                silence = _steady(connection, side, knowledge)
            if silence is not None:
                yield silence


def _may_be_silent(connection: ObservedConnection, number: int, rhythm: ObservedRhythm, until: int) -> bool:
    """Whether the silence of a side needs another explanation than TCP: no outage, closed window or
    unfinished message."""
    side = connection.sides[number]
    if side.is_sending or any(each.last_outage is not None for each in connection.sides):
        return False
    is_stalled = any(stall.end_ns > rhythm.last.ns for stall in side.stalls)
    is_unwanted = side.socket_type in PUBLISHERS_AND_RADIO and _was_cancelled(connection.sides[1 - number], rhythm)
    return until - rhythm.last.ns >= MIN_SILENCE and not is_stalled and not is_unwanted


def _was_cancelled(subscriber: ObservedSide, rhythm: ObservedRhythm) -> bool:
    """Whether the subscriber cancelled a subscription at about the time of the publisher's last message, or later."""
    if subscriber.subscriptions is None:
        return False
    since = rhythm.last.ns - rhythm.longest_ns
    return any(each.ended_by == "cancel" and (each.until_ns or 0) >= since for each in subscriber.subscriptions.ended)


def _unanswering(connection: ObservedConnection, side: int, until: int, found: Unanswered | None) -> Silence | None:
    return None if found is None else Silence(connection, side, until, *found)


def _beside_others(connection: ObservedConnection, side: int, until: int, knowledge: Knowledge) -> Silence | None:
    """Find a client that stopped sending while other clients of its endpoint with the same rhythm continue, or None.

    Also find a publisher that stopped, if other publishers to which the same host is subscribed continue.
    """
    own, socket_type = connection.sides[side].rhythm, connection.sides[side].socket_type
    if own is None:
        return None
    turns, silent = own.lasted_ns / max(own.longest_ns, 1), until - own.last.ns
    if turns < MIN_TURNS or silent < MIN_PAUSES * own.longest_ns:
        return None
    if socket_type in ASKERS and (turns < MANY_TURNS or silent < max(MANY_TURNS * own.longest_ns, STEADY_SILENCE)):
        return None
    if side == connection.listener:
        if socket_type not in SENDERS:
            return None
        others = _going_on(own, _rhythms_of_senders(knowledge).get(_fed(connection), ()))
        who = f"{_others(others, socket_type)} of {connection.sides[1 - side].ip}"
    else:
        others = _going_on(own, _rhythms(knowledge).get((connection.endpoint, socket_type), ()))
        who = f"{_others(others, 'client')} of this endpoint"
    if not others:
        return None
    is_named = socket_type == "DEALER" and connection.sides[side].identity is not None
    is_long = turns >= MANY_TURNS and silent >= max(MANY_TURNS * own.longest_ns, LONG_SILENCE)
    go_on = f"{who} {'goes' if others == 1 else 'go'} on"
    return Silence(connection, side, until, "warn" if is_named and is_long else "note", f"while {go_on}")


def _going_on(own: ObservedRhythm, others: Sequence[ObservedRhythm]) -> int:
    """Return how many other peers with the same rhythm began before this one stopped, and continue.

    `others` are in the order of their last messages; only the latest `MAX_COMPARED` are compared.
    """
    least = max(MIN_PAUSES * own.longest_ns, MIN_SILENCE)
    first = bisect_left(others, own.last.ns + least, key=attrgetter("last.ns"))
    return sum(
        each.first_ns <= own.last.ns and own.longest_ns / SAME_RHYTHM <= each.longest_ns <= own.longest_ns * SAME_RHYTHM
        for each in islice(others, max(first, len(others) - MAX_COMPARED), None)
    )


def _others(count: int, name: str) -> str:
    """Describe a number of peers: `3 other clients`, or `64 or more other clients`."""
    return counted(count, f"other {name}") if count < MAX_COMPARED else f"{count} or more other {name}s"


def _steady(connection: ObservedConnection, side: int, knowledge: Knowledge) -> Silence | None:
    own, until = connection.sides[side].rhythm, knowledge.last_ns
    if own is None or not (_is_unasked(connection, side, knowledge) or _is_beating(connection, side)):
        return None
    last = own.last.ns
    if side == connection.listener:
        last = _last_of_servers(knowledge)[connection.endpoint]
    turns, silent = own.lasted_ns / max(own.longest_ns, 1), until - last
    many = MISSING_BEATS if _is_beating(connection, side) else MANY_TURNS
    if turns < MIN_MESSAGES or silent < max(many * own.longest_ns, STEADY_SILENCE):
        return None
    if _may_wait(connection.sides[side].ip, last, max(SECOND, own.longest_ns), knowledge):
        return None
    if side != connection.listener:
        return Silence(connection, side, until, "note", "to its peer")
    blocked_by = _blocked_by(knowledge).get((connection.endpoint, connection.sides[side].socket_type))
    is_blocked = blocked_by is not None and abs(blocked_by.since_ns - last) <= max(SECOND, own.longest_ns)
    by = blocked_by.conn_id if blocked_by is not None and is_blocked else None
    return Silence(connection, side, until, "note", "to any of its peers", blocked_by=by)


class Blocked(NamedTuple):
    """The connection `conn_id`, whose receiver reads nothing from `since_ns` until the end of the capture."""

    since_ns: int
    conn_id: str


@once
def _blocked_by(knowledge: Knowledge) -> dict[tuple[Endpoint, str | None], Blocked]:
    """Return, by endpoint and socket type of a listener, the connection whose client stopped reading last.

    A PUB with ZMQ_XPUB_NODROP sends to no subscriber while the queue of one is full.
    """
    found: dict[tuple[Endpoint, str | None], Blocked] = {}
    for connection in knowledge.connections:
        stall = connection.server.stalls[-1] if connection.server.stalls else None
        if stall is not None and stall.until == RUNNING and connection.is_open:
            place = connection.endpoint, connection.server.socket_type
            found[place] = max(found.get(place, NONE), Blocked(stall.moment.ns, connection.conn_id))
    return found


NONE = Blocked(0, "")


def _reconnected(connection: ObservedConnection, side: int, until: int, knowledge: Knowledge) -> Silence | None:
    """Find a client that fell silent on one connection and continues on another, which it opened later, or None.

    The end of the old connection is not in the capture. If a host has several connections at a time, several programs
    may have opened them, and the result is None.
    """
    own = connection.sides[side].rhythm
    if side == connection.listener or own is None or not connection.is_open:
        return None
    same = knowledge.by_client[connection.ends, connection.client.identity]
    place = bisect_left(same, connection.start.ns, key=began)
    later = same[place + 1] if place + 1 < len(same) else None
    if later is None or not is_agreed(later) or later.client.rhythm is None or same[place] is not connection:
        return None
    if later.start.ns <= own.last.ns or (place and end_of(same[place - 1], until) > connection.start.ns):
        return None
    return Silence(connection, side, until, "note", "", successor=later)


def _may_wait(host: str, last_ns: int, near: int, knowledge: Knowledge) -> bool:
    """Whether the programs of a host may wait for a reply, and therefore be silent.

    They may if a request of the host, or to the host, was sent within `near` ns of `last_ns` and has no reply.
    """
    asked = _hanging_since(knowledge).get(host, ())
    place = bisect_left(asked, last_ns - near)
    return place < len(asked) and asked[place] <= last_ns + near


@once
def _hanging_since(knowledge: Knowledge) -> dict[str, list[int]]:
    """Return the times (ns) of unanswered requests in order, by the IP addresses of client and server."""
    found = ((side.ip, each.oldest.ns) for each in hanging(knowledge) for side in each.connection.sides)
    return {host: sorted(times) for host, times in grouped(found).items()}


def _is_unasked(connection: ObservedConnection, number: int, knowledge: Knowledge) -> bool:
    """Whether the messages of a side answer nothing: its peer, or for a client any socket of that host, sent too few
    before."""
    side, other = connection.sides[number], connection.sides[1 - number]
    if side.rhythm is None:
        return False
    if side.socket_type in SENDERS:
        first_ns = side.rhythm.first_ns
        return number == connection.listener or _first_sent(knowledge).get((other.ip, side.ip), first_ns) >= first_ns
    asked = 0 if other.rhythm is None else other.rhythm.count
    if side.socket_type is None:
        return not asked
    return side.socket_type in ROUTING and side.rhythm.count >= UNASKED * asked


def _is_beating(connection: ObservedConnection, number: int) -> bool:
    """Whether a side sent messages at regular intervals, like heartbeats, and the other side at most answered them."""
    own, other = connection.sides[number].rhythm, connection.sides[1 - number].rhythm
    if own is None or other is None or own.count < MIN_BEATS or not TWO_WAY.issuperset(connection.socket_types()):
        return False
    is_regular = own.longest_ns * (own.count - 1) <= MAX_JITTER * own.lasted_ns
    return is_regular and own.opens(other) and 0 <= other.last.ns - own.last.ns < own.longest_ns


@once
def _first_sent(knowledge: Knowledge) -> dict[tuple[str, str], int]:
    """Return the time of the first message from one host to another, on any connection."""
    sent = ((side, each.sides[1 - number]) for each in knowledge.connections for number, side in enumerate(each.sides))
    times = grouped(((side.ip, other.ip), side.rhythm.first_ns) for side, other in sent if side.rhythm is not None)
    return {hosts: min(same) for hosts, same in times.items()}


@once
def _last_of_servers(knowledge: Knowledge) -> dict[Endpoint, int]:
    """Return the time (ns) of the listener's last message at each endpoint."""
    return {
        endpoint: max((each.server.rhythm.last.ns for each in connections if each.server.rhythm is not None), default=0)
        for endpoint, connections in knowledge.by_endpoint.items()
    }


@once
def _rhythms(knowledge: Knowledge) -> dict[tuple[Endpoint, str | None], list[ObservedRhythm]]:
    return _by_last(
        ((each.endpoint, each.client.socket_type), each.client.rhythm)
        for each in knowledge.connections
        if each.client.rhythm is not None
    )


Fed = tuple[str, str | None, str | None]
"""Address of a client, its socket type, and the type of the servers that send to it."""


def _fed(connection: ObservedConnection) -> Fed:
    server, client = connection.server, connection.client
    return client.ip, client.socket_type, server.socket_type


@once
def _rhythms_of_senders(knowledge: Knowledge) -> dict[Fed, list[ObservedRhythm]]:
    """Return, by receiving host, the rhythms of all servers that send to it."""
    return _by_last(
        (_fed(each), each.server.rhythm)
        for each in knowledge.connections
        if each.server.rhythm is not None and each.server.socket_type in SENDERS
    )


def _by_last(pairs: Iterable[tuple[Key, ObservedRhythm]]) -> dict[Key, list[ObservedRhythm]]:
    return grouped(sorted(pairs, key=lambda pair: pair[1].last.ns))
