"""Heartbeats without an answer, after which one side closes the connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import CUT_OFF
from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.handshakes import NEARLY, path_to_client
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, duration, how_often, name_of, steady
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.heartbeats import SHORTEST_NS, is_past_ttl, open_pings, waits_in_vain
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import ObservedHeartbeats, ObservedPing
from zmtpscope.diagnosis.rules.heartbeat_ttl import broken_promises
from zmtpscope.findings.kinds import Severity
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND, SECOND
from zmtpscope.words import counted

HEARTBEAT_TIMEOUT = "heartbeat-timeout"

TOLD = (*CUT_OFF, "ZMTP31-PING-04", "ZMTP31-PING-09")
"""Findings about unfinished exchanges of a side that gave up."""

MAX_NAMED = 3

STOPPED = 2.5
"""A side that sends no PING for this multiple of its interval has given up, even if its FIN was lost."""

MIN_MISSED = 2
"""PINGs without PONG that show a silent peer while the connection is open."""
MIN_SILENCE = SECOND
"""A shorter silence is usual: a peer collects garbage or compiles."""
MIN_PINGS, MIN_CEASED = 3, 4
"""PINGs at equal intervals, and the multiple of the longest interval after which a side has fallen silent."""

A_WHOLE_INTERVAL = 0.9
"""A side that closes before this fraction of its usual interval may have another reason."""

MIN_BEFORE_PONG = 3
"""Equal waits for a PONG that cannot have arrived yet."""

MIN_AT_ONCE = 2
"""PINGs in one segment that show that they waited at the sender, so their time is not that of the segment."""

STOPPED_PROCESS = (
    "its process is stopped, blocked in a call or a debugger, or its host or the path to it is down; if it is only "
    "slow, raise ZMQ_HEARTBEAT_TIMEOUT"
)
HINT = f"check the silent peer, not the side that closed: {STOPPED_PROCESS}"
OPEN_HINT = f"check the silent peer: {STOPPED_PROCESS}"
PEER_HINTS = HINT, OPEN_HINT

TRANSFER_HINT = (
    "raise ZMQ_HEARTBEAT_TIMEOUT of the side that closed above the transfer time of a large message, or send "
    "smaller messages"
)

SHORT_HINT = (
    "raise ZMQ_HEARTBEAT_TIMEOUT of the side that closed (by default ZMQ_HEARTBEAT_IVL) to several round-trip "
    "times; neither program hangs"
)

TTL_HINT = f"{OPEN_HINT}; or its ZMQ_HEARTBEAT_TTL is shorter than its ZMQ_HEARTBEAT_IVL: only one PING was captured"

WAY_HINT = (
    "check the path between the two, not one of them: a link that was down, a route, a firewall, or a suspended host"
)


class TimeOut(NamedTuple):
    """A connection on which side `silent` sent nothing, so that the other side gave up at `ns`.

    `text` describes the evidence.
    """

    connection: ObservedConnection
    silent: int
    ns: int
    text: str
    evidence: tuple[Evidence, ...]
    proven: bool = True
    hint: str = HINT
    severity: Severity = "error"
    """An error if the time-out is proven; a likely one is a warning."""

    @property
    def is_of_server(self) -> bool:
        return self.silent == self.connection.listener


def _time_outs(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        ((connection.ends, time_out.is_of_server), time_out)
        for connection in knowledge.connections
        if connection.is_whole and connection.conn_id not in broken_promises(knowledge)
        for time_out in _of_connection(connection, knowledge)
    )
    for same in _silent_at_once(found):
        yield _diagnosis(same)
    for connections in knowledge.by_ends.values():
        early = [each for each in map(_closed_before_pong, connections) if each is not None]
        waits = [each.ns - each.evidence[0].moment.ns for each in early]
        if len(early) >= MIN_BEFORE_PONG and steady(waits) is not None:
            yield _diagnosis([early])


def _silent_at_once(found: Mapping[tuple[Ends, bool], Sequence[TimeOut]]) -> Iterator[list[Sequence[TimeOut]]]:
    """Yield groups of time-outs with the same cause: one server was silent to several clients at a time, or one client
    to several servers.

    `found` contains the time-outs by client and endpoint, and whether the listener is silent.
    """
    peers: dict[str | Endpoint, list[Sequence[TimeOut]]] = {}
    for (ends, is_server), each in found.items():
        first = _worst(each)
        if first.hint in PEER_HINTS and not _is_likely(first):
            peers.setdefault(ends.endpoint if is_server else ends.client, []).append(each)
        else:
            yield [each]
    for groups in peers.values():
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
    """Return one diagnosis for time-outs at the same time, in all of which one peer is silent."""
    each = [time_out for pair in same for time_out in pair]
    first, times = _worst(same[0]), [time_out.ns for time_out in same[0]]
    connection = first.connection
    name = name_of(connection, first.silent)
    others = [_other_of(pair[0]) for pair in same]
    again = f"; the same {how_often(times)}" if len(times) > 1 else ""
    whom = connection.client.ip
    if len(others) > 1:
        is_server = first.is_of_server
        whom = counted(len(others), "client" if is_server else "server")
        named = others[:MAX_NAMED] if is_server else others[1:MAX_NAMED]
        names = ", ".join(named) + (", …" if len(others) > MAX_NAMED else "")
        again += f"; it is silent to {whom} at once: {names}" if is_server else f"; the same at {names}"
    return Diagnosis.of(
        HEARTBEAT_TIMEOUT,
        "warn" if _is_likely(first) else first.severity,
        f"{name} with {whom} at {address(connection.endpoint)}",
        f"{name} {first.text}{again}",
        first.hint,
        evidence=first.evidence,
        about=each,
        explains=TOLD,
        last_ns=max(time_out.ns for time_out in each),
        proven=first.proven,
    )


def _worst(each: Sequence[TimeOut]) -> TimeOut:
    return min(each, key=_is_likely)


def _silent_since(each: Sequence[TimeOut]) -> int:
    """Return the time (ns) of the first PING without an answer."""
    return min(evidence.moment.ns for evidence in _worst(each).evidence)


def _other_of(time_out: TimeOut) -> str:
    connection = time_out.connection
    return connection.client.ip if time_out.is_of_server else address(connection.endpoint)


def _is_likely(time_out: TimeOut) -> bool:
    return not time_out.proven


def _of_connection(connection: ObservedConnection, knowledge: Knowledge) -> Iterator[TimeOut]:
    ending = ending_of(connection)
    if ending is None:
        found = [_does_not_answer(connection, side, knowledge) for side in (0, 1)]
        yield from [each for each in found if each is not None] or _ceased(connection, knowledge)
        return
    closed = ending.moment.ns
    for side in (0, 1):
        if ending.side == side:
            time_out = _closed_for(connection, side, closed) or _cut_off(connection, side, closed)
        else:
            time_out = _time_to_live_over(connection, side, closed)
        if time_out is not None:
            yield time_out


def _closed_before_pong(connection: ObservedConnection) -> TimeOut | None:
    """Return the time-out of a client that closed before a PONG could reach it, or None.

    The server, behind the capture point, did send the PONG.
    """
    client, ending = 1 - connection.listener, ending_of(connection)
    heartbeats, path = connection.client.heartbeats, path_to_client(connection)
    if heartbeats is None or heartbeats.last is None or ending is None or ending.side != client:
        return None
    waited = ending.moment.ns - heartbeats.last.ns
    if not connection.is_whole or not SHORTEST_NS <= waited < path * NEARLY or not heartbeats.counts["answered"]:
        return None
    who, packet = name_of(connection, client), heartbeats.last.packet
    return TimeOut(
        connection,
        1 - client,
        ending.moment.ns,
        f"cannot answer as fast as {who} expects, which closed {duration(waited)} after its PING in packet {packet}, "
        f"before the PONG could arrive: the path takes {duration(path)} there and back",
        (Evidence(heartbeats.last, "the last PING"),),
        proven=False,
        hint=SHORT_HINT,
    )


def _closed_for(connection: ObservedConnection, asker: int, closed: int) -> TimeOut | None:
    """Return the time-out if side `asker` received nothing after a PING, and closed the connection at `closed` (ns);
    otherwise None."""
    heartbeats, open_ = connection.sides[asker].heartbeats, open_pings(connection, asker, closed)
    if heartbeats is None or not waits_in_vain(connection, asker, closed):
        return None
    first, interval = open_[0], heartbeats.interval.median
    waited, who = closed - first.moment.ns, name_of(connection, asker)
    evidence = _pings(open_)
    if first.is_within:
        return TimeOut(
            connection,
            1 - asker,
            closed,
            f"was still sending a message when {who} closed, {duration(waited)} after its PING in packet "
            f"{first.moment.packet}: the PONG can only follow the message",
            evidence,
            proven=False,
            hint=TRANSFER_HINT,
        )
    usual = _handshake_answer(connection, asker)
    if usual >= waited:
        return TimeOut(
            connection,
            1 - asker,
            closed,
            f"cannot answer as fast as {who} expects, which closed {duration(waited)} after its PING in packet "
            f"{first.moment.packet}: in the handshake an answer took {duration(usual)}",
            evidence,
            proven=False,
            hint=SHORT_HINT,
        )
    if len(open_) > 1 and first.moment == open_[-1].moment:
        return TimeOut(
            connection,
            1 - asker,
            closed,
            f"and {who} could not reach each other for a while: {len(open_)} PINGs of {who} arrived at once, in "
            f"packet {first.moment.packet}, because TCP retransmits lost data, and it closed the connection "
            f"{duration(waited)} later",
            evidence,
            proven=False,
            hint=WAY_HINT,
        )
    return TimeOut(
        connection,
        1 - asker,
        closed,
        f"does not answer the heartbeats of {who}: nothing arrived after the PING in packet {first.moment.packet}, "
        f"and {who} closed {duration(waited)} later{_before(heartbeats)}",
        evidence,
        proven=interval is None or waited >= interval * A_WHOLE_INTERVAL,
        hint=WAY_HINT if _is_stuck(connection) else HINT,
    )


def _is_stuck(connection: ObservedConnection) -> bool:
    """Whether TCP sends data again that is not acknowledged: the fault is in the network, and in neither program."""
    return any(side.last_outage is not None for side in connection.sides)


def _handshake_answer(connection: ObservedConnection, asker: int) -> int:
    """Return how long (ns) the slowest answer to side `asker` took in the handshake; 0 if the other side sent first."""
    own, other = connection.sides[asker], connection.sides[1 - asker]
    moments = (own.greeting, other.greeting), (own.ready, other.ready)
    return max((0, *(answer.ns - asked.ns for asked, answer in moments if asked is not None and answer is not None)))


def _does_not_answer(connection: ObservedConnection, asker: int, knowledge: Knowledge) -> TimeOut | None:
    """Return the time-out if side `asker` received nothing after a PING, and the connection is still open; otherwise
    None.

    Either several PINGs to a peer that used to answer are pending, or `asker` has stopped sending PINGs.
    """
    now = knowledge.last_ns
    heartbeats, open_ = connection.sides[asker].heartbeats, open_pings(connection, asker, now)
    if heartbeats is None or heartbeats.last is None or connection.sides[1 - asker].is_sending:
        return None
    interval = heartbeats.interval.median
    if interval is None or not waits_in_vain(connection, asker, now):
        return None
    first, who = open_[0], name_of(connection, asker)
    has_stopped = now - heartbeats.last.ns >= STOPPED * interval
    is_missed = len(open_) >= MIN_MISSED and heartbeats.counts["answered"] and now - first.moment.ns >= MIN_SILENCE
    if not (has_stopped or is_missed):
        return None
    gave_up = ", then these ceased" if has_stopped else ""
    return TimeOut(
        connection,
        1 - asker,
        now,
        f"does not answer the heartbeats of {who}: nothing arrived after the PING in packet {first.moment.packet}, "
        f"for {duration(now - first.moment.ns)} and {counted(len(open_), 'PING')}{gave_up}{_before(heartbeats)}",
        _pings(open_),
        hint=WAY_HINT if _is_stuck(connection) else OPEN_HINT,
        severity="error" if has_stopped else "note" if _is_stuck(connection) else "warn",
    )


def _ceased(connection: ObservedConnection, knowledge: Knowledge) -> Iterator[TimeOut]:
    """Yield a time-out for each side that sent PINGs at regular intervals, and then nothing for many intervals.

    Both sides of a connection may have stopped.
    """
    now = knowledge.last_ns
    silent = [side for side in (0, 1) if _has_ceased(connection.sides[side], now)]
    since = max((connection.sides[side].last_ns or 0 for side in silent), default=0)
    for side in silent[:1]:
        heartbeats = connection.sides[side].heartbeats
        assert heartbeats is not None
        assert heartbeats.last is not None
        interval = heartbeats.interval.median or 0
        both = f"and {name_of(connection, 1 - side)} have" if len(silent) > 1 else "has"
        yield TimeOut(
            connection,
            side,
            now,
            f"{both} fallen silent: a PING came every {duration(interval)} until packet {heartbeats.last.packet}, and "
            f"nothing at all for {duration(now - since)}",
            (Evidence(heartbeats.last, "the last PING"),),
            proven=False,
            hint=WAY_HINT if len(silent) > 1 else OPEN_HINT,
        )


def _has_ceased(side: ObservedSide, now: int) -> bool:
    heartbeats = side.heartbeats
    if heartbeats is None or heartbeats.last is None or heartbeats.interval.count < MIN_PINGS or side.is_sending:
        return False
    longest = max(MIN_CEASED * (heartbeats.interval.most or 0), MIN_SILENCE)
    return now - max(heartbeats.last.ns, side.last_ns or 0) >= longest


def _pings(open_: Sequence[ObservedPing]) -> tuple[Evidence, ...]:
    """Return the first pending PINGs as evidence, one for each packet."""
    moments = {ping.moment: Evidence(ping.moment, "a PING without PONG", ping.ref) for ping in reversed(open_[:3])}
    return tuple(reversed(moments.values()))


def _before(heartbeats: ObservedHeartbeats) -> str:
    """Describe the interval of PINGs, and the latency of earlier PONGs."""
    answered, median, interval = heartbeats.counts["answered"], heartbeats.rtt.median, heartbeats.interval.median
    if interval is None:
        return ""
    before = f", {answered} before answered in {duration(median)}" if answered and median is not None else ""
    return f" (a PING every {duration(interval)}{before})"


def _cut_off(connection: ObservedConnection, closer: int, closed: int) -> TimeOut | None:
    """Return the time-out if the path was interrupted: the last PINGs and the FIN of side `closer` arrived together,
    late.

    Meanwhile a PING of its peer was pending. None otherwise.
    """
    own, other = (connection.sides[side].heartbeats for side in (closer, 1 - closer))
    if own is None or other is None:
        return None
    at_once = [ping for ping in own.waiting if ping.moment.ns == closed]
    unanswered = [ping for ping in other.waiting if ping.next_data_ns is None or ping.next_data_ns >= closed]
    if len(at_once) < MIN_AT_ONCE or not unanswered or closed - unanswered[0].moment.ns < SHORTEST_NS:
        return None
    who, peer, first = name_of(connection, closer), name_of(connection, 1 - closer), unanswered[0]
    return TimeOut(
        connection,
        closer,
        closed,
        f"gave {peer} up: the path to {connection.sides[closer].ip} was broken for "
        f"{duration(closed - first.moment.ns)}; since the PING in packet {first.moment.packet}, which has no PONG, "
        f"nothing arrived from {who} until {len(at_once)} PINGs and its FIN arrived at once in packet "
        f"{at_once[0].moment.packet}, because TCP retransmits lost data",
        (
            Evidence(first.moment, "a PING without PONG", first.ref),
            Evidence(at_once[0].moment, f"{len(at_once)} PINGs and FIN at once", at_once[0].ref),
        ),
        hint=WAY_HINT,
    )


def _time_to_live_over(connection: ObservedConnection, asker: int, closed: int) -> TimeOut | None:
    """Return the time-out if side `asker` sent nothing for the TTL of its last PING, so that its peer closed; otherwise
    None."""
    side = connection.sides[asker]
    heartbeats = side.heartbeats
    if heartbeats is None or heartbeats.last is None or not is_past_ttl(connection, asker, closed):
        return None
    ttl, silence = heartbeats.ttl_ms * MILLISECOND, closed - (side.last_ns or 0)
    who, has_interval = name_of(connection, 1 - asker), heartbeats.interval.median is not None
    return TimeOut(
        connection,
        asker,
        closed,
        f"fell silent: its last PING, in packet {heartbeats.last.packet}, announces a TTL of {duration(ttl)}, and "
        f"{who} closed {duration(silence)} after its last octet",
        (Evidence(heartbeats.last, "its last PING"),),
        proven=has_interval,
        hint=HINT if has_interval else TTL_HINT,
    )


TABLE = (
    Rule(
        HEARTBEAT_TIMEOUT,
        "error",
        "A peer does not answer heartbeats, and its connection is closed",
        "A peer sent nothing while heartbeats were due, and its connection was closed. Its process hangs, or the path "
        "to it is broken: a capture at one place cannot distinguish the two. Several others to which it is silent at "
        "once are one diagnosis. Only completely captured connections count.\n"
        "* Severity error if a side sent a PING, received nothing after it, and closed the connection.\n"
        "* Severity error if a side sent a PING, received nothing after it, and sent no further PING, without FIN.\n"
        "* Severity error if a side was silent for longer than the TTL of its last PING, and the other side closed. If "
        "that was its only PING, a warning that is not proven: the TTL may be shorter than the interval of the PINGs.\n"
        "* Severity warning on an open connection if a peer that used to answer has sent no octet for a second, and "
        "two PINGs are pending.\n"
        "* Severity warning on an open connection if a side that sent PINGs at intervals has left out four of them.\n"
        "Not proven in two cases:\n"
        "* The side that sends PINGs closed before its next PING was due.\n"
        "* Several of its PINGs arrived in one segment: the path was broken then. This is proven if its FIN is in "
        "that segment, and a PING of the silent side was pending.",
        "* Octets of the silent side arrive after the PING. Its data after the FIN or RST of the other side does not "
        "count, nor does a RST of its kernel.\n"
        "* The timeout is too short: the silent side was still sending a message when the PING arrived, and its PONG "
        "must follow that message.\n"
        "* The timeout is too short: an answer in the handshake took longer, or a client closed three times after an "
        "equal time, before a PONG could arrive.\n"
        "* The capture of the connection is incomplete.",
        _time_outs,
        consequences=(
            *("handshake-timeout", "connection-unanswered", "peer-departed", "periodic-disconnect", "client-returns"),
            *("request-lost", "request-unanswered", "fell-silent"),
        ),
    ),
)
