"""Heartbeats that remain unanswered: connections that one side gives up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from zmtpscope.meaning.across.endings import ending_of
from zmtpscope.meaning.across.knowledge import Endpoint, Knowledge
from zmtpscope.meaning.across.words import MILLISECOND, address, counted, duration, how_often, name_of
from zmtpscope.meaning.diagnosis import LIKELY, PROVEN, Diagnosis, Evidence, Rule
from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.silences import SHORTEST_NS, is_past_ttl, open_pings, waits_in_vain

HEARTBEAT_TIMEOUT = "heartbeat-timeout"

MOST_NAMED = 3
"""Clients to which a server is silent at once."""

STOPPED = 2.5
"""Who sends no PING for so many intervals has given up, though no FIN of it came through."""

A_WHOLE_INTERVAL = 0.9
"""Who gives up sooner than this part of its usual interval may have closed for another reason."""

LEAST_AT_ONCE = 2
"""So many PINGs in one segment were not sent when that came."""

HINT = (
    "look at that peer, not at who closed: its process is stopped, blocked in a call or a debugger, or its host or the "
    "way to it is gone; where it is only slow, raise ZMQ_HEARTBEAT_TIMEOUT"
)

WAY_HINT = (
    "look at the way between the two, not at who closed: a link that was down, a route, a firewall, or a host that was "
    "suspended"
)


class TimeOut(NamedTuple):
    """A side that is `silent` made the other one give up at `ns`; `text` says how that shows."""

    connection: ObservedConnection
    silent: int
    ns: int
    text: str
    evidence: tuple[Evidence, ...]
    certainty: Literal["proven", "likely"] = PROVEN
    hint: str = HINT


def _time_outs(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """One for each silent peer, however often it happened, and to however many at once."""
    found: dict[tuple[str, Endpoint, bool], list[TimeOut]] = {}
    for connection in knowledge.connections:
        if connection.is_whole:
            for time_out in _of_connection(connection, knowledge):
                silent = time_out.silent == connection.listener
                client = connection.sides[1 - connection.listener].ip
                found.setdefault((client, connection.endpoint, silent), []).append(time_out)
    for same in _silent_at_once(found):
        yield _diagnosis(same)


def _silent_at_once(found: Mapping[tuple[str, Endpoint, bool], Sequence[TimeOut]]) -> Iterator[list[Sequence[TimeOut]]]:
    """Those of several clients together that a server was silent to at the same time; all others by themselves."""
    servers: dict[Endpoint, list[Sequence[TimeOut]]] = {}
    for (_, endpoint, is_server), each in found.items():
        first = _worst(each)
        if is_server and first.hint == HINT and not _is_likely(first):
            servers.setdefault(endpoint, []).append(each)
        else:
            yield [each]
    for groups in servers.values():
        together: list[Sequence[TimeOut]] = []
        until = 0
        for each in sorted(groups, key=_silent_since):
            if together and _silent_since(each) > until:
                yield together
                together = []
            together.append(each)
            until = max(until, _worst(each).ns)
        yield together


def _diagnosis(same: Sequence[Sequence[TimeOut]]) -> Diagnosis:
    """Of each client at an endpoint that was left without an answer at the same time, what it suffered."""
    each = [time_out for client in same for time_out in client]
    first, times = _worst(same[0]), [time_out.ns for time_out in same[0]]
    name = name_of(first.connection, first.silent)
    clients = [_client_of(client[0]) for client in same]
    who, again = clients[0], f"; the same {how_often(times)}" if len(times) > 1 else ""
    if len(clients) > 1:
        who = counted(len(clients), "client")
        names = ", ".join(clients[:MOST_NAMED]) + (", …" if len(clients) > MOST_NAMED else "")
        again += f"; it is silent to {who} at once: {names}"
    return Diagnosis(
        HEARTBEAT_TIMEOUT,
        "warn" if _is_likely(first) else "error",
        f"{name} with {who} at {address(first.connection.endpoint)}",
        f"{name} {first.text}{again}",
        first.hint,
        first.evidence,
        len(each),
        max(time_out.ns for time_out in each),
        first.certainty,
        conn_ids=frozenset(time_out.connection.conn_id for time_out in each),
    )


def _worst(each: Sequence[TimeOut]) -> TimeOut:
    return min(each, key=_is_likely)


def _silent_since(each: Sequence[TimeOut]) -> int:
    """When what remained unanswered was sent (ns)."""
    return min(evidence.moment.ns for evidence in _worst(each).evidence)


def _client_of(time_out: TimeOut) -> str:
    return time_out.connection.sides[1 - time_out.connection.listener].ip


def _is_likely(time_out: TimeOut) -> bool:
    return time_out.certainty == LIKELY


def _of_connection(connection: ObservedConnection, knowledge: Knowledge) -> Iterator[TimeOut]:
    ending = ending_of(connection)
    for side in (0, 1):
        if ending is None:
            found = _unanswered(connection, side, None, knowledge)
        elif ending.side == side:
            closed = ending.moment.ns
            found = _unanswered(connection, side, closed, knowledge) or _cut_off(connection, side, closed)
        else:
            found = _time_to_live_over(connection, side, ending.moment.ns)
        if found is not None:
            yield found


def _unanswered(connection: ObservedConnection, asker: int, closed: int | None, knowledge: Knowledge) -> TimeOut | None:
    """The side `asker` has PINGs open, nothing came since, and it closed, or stopped sending any."""
    heartbeats = connection.sides[asker].heartbeats
    open_ = open_pings(connection, asker, knowledge.last_ns if closed is None else closed)
    if heartbeats is None or heartbeats.last is None or not open_:
        return None
    first, interval = open_[0], heartbeats.interval.median
    end = closed
    if end is None:
        if interval is None or knowledge.last_ns - heartbeats.last.ns < STOPPED * interval:
            return None
        end = heartbeats.last.ns + interval
    waited = end - first.moment.ns
    if not waits_in_vain(connection, asker, end):
        return None
    who = name_of(connection, asker)
    answered, median = heartbeats.counts["answered"], heartbeats.rtt.median
    before = f", {answered} before answered in {duration(median)}" if answered and median is not None else ""
    gave_up = "closed" if closed else "gave up"
    evidence = {ping.moment: Evidence(ping.moment, "a PING without PONG", ping.ref) for ping in reversed(open_[:3])}
    if len(open_) > 1 and open_[0].moment == open_[-1].moment:
        return TimeOut(
            connection,
            1 - asker,
            end,
            f"and {who} could not reach each other for a while: {len(open_)} PINGs of {who} came at once, in packet "
            f"{first.moment.packet}, as TCP sends again what did not get through, and it {gave_up} {duration(waited)} "
            "behind them",
            tuple(evidence.values()),
            LIKELY,
            WAY_HINT,
        )
    every = f" (a PING every {duration(interval)}{before})" if interval is not None else ""
    return TimeOut(
        connection,
        1 - asker,
        end,
        f"does not answer the heartbeats of {who}: nothing came after the PING in packet {first.moment.packet}, and "
        f"{who} {gave_up} {duration(waited)} later{every}",
        tuple(reversed(evidence.values())),
        PROVEN if interval is None or waited >= interval * A_WHOLE_INTERVAL else LIKELY,
    )


def _cut_off(connection: ObservedConnection, closer: int, closed: int) -> TimeOut | None:
    """The last that came from the side `closer` came at once with its FIN, several PINGs among it, while a PING of the
    other side was open: it had sent them, and closed, long before."""
    own, other = (connection.sides[side].heartbeats for side in (closer, 1 - closer))
    if own is None or other is None:
        return None
    at_once = [ping for ping in own.waiting if ping.moment.ns == closed]
    unheard = [ping for ping in other.waiting if ping.heard_ns is None or ping.heard_ns >= closed]
    if len(at_once) < LEAST_AT_ONCE or not unheard or closed - unheard[0].moment.ns < SHORTEST_NS:
        return None
    who, peer, first = name_of(connection, closer), name_of(connection, 1 - closer), unheard[0]
    return TimeOut(
        connection,
        closer,
        closed,
        f"gave {peer} up: the way to {connection.sides[closer].ip} was broken for "
        f"{duration(closed - first.moment.ns)}; since the PING in packet {first.moment.packet}, which has no PONG, "
        f"nothing came from {who} until, at once in packet {at_once[0].moment.packet}, {len(at_once)} PINGs and its "
        "FIN did, as TCP sends again what did not get through",
        (
            Evidence(first.moment, "a PING without PONG", first.ref),
            Evidence(at_once[0].moment, f"{len(at_once)} PINGs and FIN at once", at_once[0].ref),
        ),
        hint=WAY_HINT,
    )


def _time_to_live_over(connection: ObservedConnection, asker: int, closed: int) -> TimeOut | None:
    """The side `asker` was silent for longer than the TTL of its last PING, and the other one closed."""
    side = connection.sides[asker]
    heartbeats = side.heartbeats
    if heartbeats is None or heartbeats.last is None or not is_past_ttl(connection, asker, closed):
        return None
    ttl, silence = heartbeats.ttl_ms * MILLISECOND, closed - (side.last_ns or 0)
    who = name_of(connection, 1 - asker)
    return TimeOut(
        connection,
        asker,
        closed,
        f"fell silent: its last PING, in packet {heartbeats.last.packet}, promises a sign of life within "
        f"{duration(ttl)} (its TTL), none came, and {who} closed the connection {duration(silence)} behind the last",
        (Evidence(heartbeats.last, "its last PING"),),
    )


TABLE = (
    Rule(
        HEARTBEAT_TIMEOUT,
        "error",
        "A connection is given up since a peer does not answer heartbeats",
        "A side had a PING open, nothing at all came from its peer since, and it closed the connection, or, where no "
        "FIN came through, sent no PING any more; or a side was silent for longer than the TTL that its last PING "
        "announced, and its peer closed. The silent side is named: its process hangs, or the way to it is broken; a "
        "capture at one place cannot tell these two apart. It is likely only where the side closed sooner than it "
        "sends its next PING, or where its PINGs came in one segment: then the way between the two was broken. That is "
        "proven where its FIN came with them and a PING of its peer had waited. A server that is silent to several "
        "clients at the same time is told once. What comes behind its FIN or RST is no "
        "answer, and neither is what its system answers with RST. It holds of connections only that were captured "
        "whole.",
        "Octets of the silent side arrive after the PING, or octets of the connection are missing from the capture.",
        _time_outs,
        consequences=(
            *("handshake-timeout", "connection-unanswered", "peer-departed", "periodic-disconnect"),
            *("request-lost", "request-unanswered"),
        ),
    ),
)
