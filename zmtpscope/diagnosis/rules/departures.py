"""Connections that end: how and how often they end, and which peers depended on them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import CUT_OFF, Disconnect, disconnects, ended, of_listeners
from zmtpscope.diagnosis.across.endings import ending_of, lifetime
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import (
    address,
    client_name,
    duration,
    name_of,
    repeated,
    server_name,
    steady,
)
from zmtpscope.diagnosis.across.zre import said_farewell
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint
from zmtpscope.diagnosis.rules import authentication, handshakes, socket_types
from zmtpscope.diagnosis.rules.ended_processes import (
    MIN_GONE,
    aftermath,
    is_abandoned,
    is_in_turn,
    left_in_turn,
    of_processes,
    process_ended,
    served_until,
)
from zmtpscope.diagnosis.rules.from_findings import with_finding
from zmtpscope.diagnosis.rules.work_left import WorkLeft, work_left
from zmtpscope.grouping import divided_at_pauses, grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted, listed

MIN_PERIOD = SECOND
"""Minimum life of a connection (ns); shorter lives are a storm of reconnections."""
MIN_TIMES = 3
LARGEST_DEVIATION = 0.1
"""Lives that differ by a larger fraction are not periodic. Ends closer than this fraction of the period are one
event: a server that stops ends all connections of a client."""
STEADIER = 4
"""Silences have a timer if they spread this many times less than the lifetimes."""


UNKNOWN_HINT = (
    "its host was restarted, the address moved to another host (failover), or a firewall or load balancer forgot the "
    "connection: what was sent to it last did not arrive"
)
LOG_HINT = (
    "check its log around that time: FIN or RST without notice means that the program closed its socket, exited, or "
    "was killed"
)
IDLE_HINT = "a firewall, NAT or load balancer drops idle connections: send heartbeats more often (ZMQ_HEARTBEAT_IVL)"
LIFE_HINT = (
    "check for a time limit of this length, on lifetime or on idle time, on that host and on the path: load "
    "balancer, firewall, a program that restarts; ZMQ_HEARTBEAT_IVL avoids idle timeouts"
)

TOGETHER_HINT = (
    "the connections of several clients end at the same moments: find out why that program restarts or closes its "
    "socket, and see its log"
)


class Period(NamedTuple):
    """A client's connections that each end after `ns`, `times` times.

    The time counts from the last data if `is_idle`, otherwise from the start of the connection.
    """

    ns: int
    is_idle: bool
    times: int


def _period(departures: Sequence[Disconnect]) -> Period | None:
    if len(departures) < MIN_TIMES:
        return None
    lives = [lifetime(each.connection, each.ending) for each in departures]
    idle = [each.ending.moment.ns - each.connection.spoke_ns for each in departures]
    ends = sorted(map(ended, departures))
    by_life, by_silence = (lives, False), (idle, True)
    is_timed = _spread(idle) * STEADIER < _spread(lives)  # lives also vary little if messages are regular
    for values, is_idle in (by_silence, by_life) if is_timed else (by_life, by_silence):
        period = steady(values, LARGEST_DEVIATION)
        if period is not None and period >= MIN_PERIOD:
            times = len(_moments(ends, period * LARGEST_DEVIATION))
            return Period(period, is_idle, times) if times >= MIN_TIMES else None
    return None


def _spread(values: Sequence[int]) -> float:
    """Return the largest value minus the smallest, as a fraction of the largest."""
    return (max(values) - min(values)) / max(*values, 1)


def _moments(times: Sequence[int], pause: float) -> list[int]:
    return [first for first, *_ in divided_at_pauses(times, int, pause)]


def _periodic_disconnect(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = ((departures, _period(departures)) for departures in of_listeners(knowledge).values())
    periodic = [(departures, period) for departures, period in found if period is not None]
    for same in grouped(
        (_moments_of_end(departures), (departures, period)) for departures, period in periodic
    ).values():
        departures, period = same[0]
        connection, others = departures[0].connection, len(same) - 1
        after = f"after {duration(period.ns)} of silence" if period.is_idle else f"after {duration(period.ns)}"
        clients = client_name(connection) + (f" and {counted(others, 'other client')} together" if others else "")
        hint = TOGETHER_HINT if others else IDLE_HINT if period.is_idle else LIFE_HINT
        every = [each for own, _ in same for each in own]
        yield Diagnosis.of(
            "periodic-disconnect",
            "warn",
            f"{client_name(connection)} at {address(connection.endpoint)}",
            f"{server_name(connection)} {how_they_end(departures)} each connection of {clients} {after}, "
            f"{period.times} times",
            hint,
            evidence=ends_of(departures),
            about=every,
            beside=relayed_by(knowledge, departures),
            explains=CUT_OFF,
            count=period.times,
            last_ns=departures[-1].ending.moment.ns,
        )


def _moments_of_end(departures: Sequence[Disconnect]) -> tuple[Endpoint, tuple[int, ...]]:
    """Return a key to group clients: the endpoint, and the seconds in which its listener ended their connections."""
    seconds = dict.fromkeys(each.ending.moment.ns // SECOND for each in departures)
    return departures[0].connection.endpoint, tuple(seconds)


RELAYED = SECOND // 20
MAX_RELAYED = 16
"""Connections to report as the other half of a relayed one."""


class End(NamedTuple):
    """Time (ns) at which a host ended a connection to an endpoint."""

    ns: int
    endpoint: Endpoint
    conn_id: str


class EndsOfHost:
    """The times at which connections of one host ended, in order."""

    def __init__(self, ends: Iterable[End]) -> None:
        self._ends = sorted(ends)
        self._others = [len(self._ends)] * (len(self._ends) + 1)
        """Index of the next end with another endpoint, for each end."""
        for place in range(len(self._ends) - 2, -1, -1):
            is_same = self._ends[place].endpoint == self._ends[place + 1].endpoint
            self._others[place] = self._others[place + 1] if is_same else place + 1

    def around(self, time: int, endpoint: Endpoint) -> Iterator[str]:
        """Yield the conn_ids of connections to other endpoints than `endpoint` that ended at about `time` (ns)."""
        place = bisect_left(self._ends, time - RELAYED, key=attrgetter("ns"))
        while place < len(self._ends) and self._ends[place].ns <= time + RELAYED:
            if self._ends[place].endpoint == endpoint:
                place = self._others[place]
            else:
                yield self._ends[place].conn_id
                place += 1


@once
def _ends_by_host(knowledge: Knowledge) -> dict[str, EndsOfHost]:
    found = grouped(
        (each.sides[ending.side].ip, End(ending.moment.ns, each.endpoint, each.conn_id))
        for each in knowledge.connections
        if (ending := ending_of(each)) is not None
    )
    return {host: EndsOfHost(ends) for host, ends in found.items()}


def relayed_by(knowledge: Knowledge, departures: Sequence[Disconnect]) -> frozenset[str]:
    """Return the conn_ids of the other connections of TCP proxies that passed these connections on.

    The proxy's host ended both connections, to the client and to the server, at the same time.
    """
    connection, ending = departures[0].connection, departures[0].ending
    ends = _ends_by_host(knowledge)[connection.sides[ending.side].ip]
    around = (ends.around(each.ending.moment.ns, connection.endpoint) for each in departures)
    return frozenset(conn_id for each in around for conn_id in islice(each, MAX_RELAYED))


Leaver = tuple[Endpoint, str | None, str | None, bool]
"""Endpoint, address and identity of a client that left, and whether it had reconnected before."""


def _peer_departed(knowledge: Knowledge) -> Iterator[Diagnosis]:
    periodic = {
        each.connection.conn_id
        for departures in of_listeners(knowledge).values()
        if _period(departures) is not None
        for each in departures
    }
    found: dict[Leaver, list[Disconnect]] = {}
    for departure in disconnects(knowledge):
        connection = departure.connection
        if (
            connection.conn_id not in periodic
            and _is_worth_telling(departure, knowledge)
            and not said_farewell(departure, knowledge)
        ):
            client = connection.client
            is_replaced = departure.replaced_ns is not None
            who = (None, None) if departure.by_listener and not is_replaced else (client.ip, client.identity)
            found.setdefault((connection.endpoint, *who, is_replaced), []).append(departure)
    _add_stragglers(found, knowledge)
    for departures in found.values():
        departures.sort(key=ended)
    yield from left_in_turn(found.values(), knowledge)
    for left in of_processes([each for each in found.values() if not is_in_turn(each, knowledge)]):
        if left[0][0].replaced_ns is not None:
            yield _replaced(left[0])
        elif left[1:]:
            yield process_ended(left, knowledge.last_ns)
        else:
            yield _departed(left[0], knowledge)


def _add_stragglers(found: dict[Leaver, list[Disconnect]], knowledge: Knowledge) -> None:
    """Add clients to `found` that did not reconnect after a listener had ended their and other connections."""
    told = {each.connection.conn_id for departures in found.values() for each in departures}
    back: dict[Endpoint, tuple[int, int]] = {}
    for (endpoint, ip, _, _), departures in found.items():
        again = max((each.back_ns for each in departures if each.back_ns is not None), default=knowledge.last_ns)
        if ip is None and knowledge.last_ns - again >= MIN_GONE:
            back[endpoint] = max(map(ended, departures)), again
    for departure in disconnects(knowledge):
        endpoint = departure.connection.endpoint
        is_gone = departure.by_listener and not departure.is_missed and departure.back_ns is None
        if is_gone and endpoint in back and departure.connection.conn_id not in told:
            last, again = back[endpoint]
            if abs(ended(departure) - last) < SECOND and ended(departure) < again:
                found[endpoint, None, None, False].append(departure)


def _is_worth_telling(departure: Disconnect, knowledge: Knowledge) -> bool:
    """Whether a departure was unexpected, and not only a client that comes and goes.

    It was if the other peer tries to reconnect, a message was cut off, one of several clients left for good, a
    publisher left all its subscribers, or all receivers left a PUSH.
    """
    if departure.cut_off() is not None or departure.replaced_ns is not None:
        return True
    end, endpoint = departure.ending.moment.ns, departure.connection.endpoint
    if is_abandoned(departure, knowledge.last_ns) and served_until(knowledge)[endpoint] < end + SECOND:
        return True
    if departure.is_missed:
        return departure.by_listener or departure.ending.is_reset
    return departure.leaves_siblings and not departure.by_listener and not _is_done(departure)


DONE_WHEN_THEY_LEAVE = frozenset({"SUB", "XSUB", "DISH", "PUSH", "REQ"})
"""Types of clients that leave no work undone."""


def _is_done(departure: Disconnect) -> bool:
    """Whether a client closed its connection without a pending request, as programs do when they have finished."""
    connection = departure.connection
    is_waiting = connection.requests is not None and connection.requests.waiting
    client = connection.client.socket_type
    return client in DONE_WHEN_THEY_LEAVE and not departure.ending.is_reset and not is_waiting


CUT_HINT = (
    "it closed its socket with too short a ZMQ_LINGER, exited or was killed before everything was sent: messages that "
    "waited are lost; raise ZMQ_LINGER, and terminate the context before the program exits"
)
NO_WORK = WorkLeft("", LOG_HINT)


def _departed(departures: Sequence[Disconnect], knowledge: Knowledge) -> Diagnosis:
    connection, ending = departures[0].connection, departures[0].ending
    others = _others(departures)
    times = [each.ending.moment.ns for each in departures]
    moments = _moments(times, SECOND)
    what = "its connection" if len(moments) == len(departures) else f"{len(departures)} connections"
    is_unknown = all(each.ending.is_unknown for each in departures)
    ends, resets = ("no longer knows", ", and resets it") if is_unknown else (how_they_end(departures), "")
    text = f"{name_of(connection, ending.side)} {ends} {what} with {others}{resets}{repeated(moments)}"
    cut_off = [each for each in departures if each.cut_off() is not None]
    text += ", in the middle of a message" if cut_off else ""
    stayed_away = [each for each in departures if each.back_ns is None and not each.is_missed]
    after = aftermath([each for each in departures if each not in stayed_away] or departures, knowledge.last_ns)
    if 0 < len(stayed_away) < len(departures):
        text, after = f"{text}{after.text}, but not {_others(stayed_away)}", after._replace(text="")
    is_own_fault = any(each.cuts_itself() for each in cut_off)
    work = work_left(departures[-1], knowledge) or NO_WORK
    return Diagnosis.of(
        "peer-departed",
        "warn" if after.is_outage or is_own_fault else "note",
        f"{name_of(connection, ending.side)} at {address(connection.endpoint)}",
        text + after.text + work.text,
        UNKNOWN_HINT if is_unknown else CUT_HINT if is_own_fault else work.hint,
        evidence=ends_of(departures),
        about=departures,
        explains=CUT_OFF,
        last_ns=times[-1],
    )


def _replaced(departures: Sequence[Disconnect]) -> Diagnosis:
    connection, ending = departures[0].connection, departures[0].ending
    client = connection.client
    silent = ending.moment.ns - (client.last_ns or connection.start.ns)
    times = [each.ending.moment.ns for each in departures]
    return Diagnosis.of(
        "peer-departed",
        "note",
        f"{client_name(connection)} at {address(connection.endpoint)}, replaced",
        f"{client_name(connection)} reconnected to {server_name(connection)} "
        f"{duration(ending.moment.ns - (departures[0].replaced_ns or 0))} before {name_of(connection, ending.side)} "
        f"reset its old connection, on which it had sent nothing for {duration(silent)}{repeated(times)}",
        "the old connection was dead: the host, or the path to it, was down for a while; ZMQ_HEARTBEAT_IVL on both "
        "sides closes dead connections sooner",
        evidence=ends_of(departures),
        about=departures,
        explains=CUT_OFF,
        last_ns=times[-1],
    )


MAX_OTHERS = 2


def _others(departures: Sequence[Disconnect]) -> str:
    """Name further clients: `SUB 10.0.0.2` or `SUB 10.0.0.2, SUB 10.0.0.3 and 7 more`."""
    names = list(dict.fromkeys(name_of(each.connection, 1 - each.ending.side) for each in departures))
    return listed(names, MAX_OTHERS)


def how_they_end(departures: Sequence[Disconnect]) -> str:
    resets = sum(each.ending.is_reset for each in departures)
    return "resets" if resets == len(departures) else "closes" if not resets else "closes or resets"


def ends_of(departures: Sequence[Disconnect]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            each.ending.moment,
            f"{'RST' if each.ending.is_reset else 'FIN'} of {name_of(each.connection, each.ending.side)}, "
            f"{duration(lifetime(each.connection, each.ending))} after the connection began",
            each.connection.ref,
        )
        for each in departures[:MAX_EVIDENCE]
    )


VIOLATION = "ZMTP-CONN-08"

OTHER_CAUSES = frozenset((*authentication.ERRORS, *socket_types.TOLD, *handshakes.MISMATCH))
"""Findings of other rules after which a side also closes."""


def _violating_frame(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped(
        ((connection.ends, error.id, error.side ^ connection.listener), (connection, closed, error))
        for connection, closed in with_finding(knowledge, VIOLATION)
        if (error := connection.finding(closed.text.rpartition(" ")[2])) is not None
        and error.side is not None
        and error.id not in OTHER_CAUSES
    )
    for (ends, id_, _), met in found.items():
        connection, _, error = met[0]
        offender = error.side or 0
        times = [each.moment.ns for _, each, _ in met]
        yield Diagnosis.of(
            "violating-frame",
            "error",
            f"{id_} of {ends.name}",
            f"{name_of(connection, 1 - offender)} closes the connection because of what "
            f"{name_of(connection, offender)} sends: {_decapitalised(error.text)}{repeated(times)}",
            error.hint or "find out which implementation that peer uses, and fix it there",
            evidence=(
                evidence
                for _, closed, error in met[:MAX_EVIDENCE]
                for evidence in (
                    Evidence.of(error),
                    Evidence.of(closed),
                )
            ),
            about=(each for each, _, _ in met),
            explains=(VIOLATION, id_, *CUT_OFF),
            last_ns=times[-1],
        )


def _decapitalised(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


TABLE = (
    Rule(
        "periodic-disconnect",
        "warn",
        "Connections repeatedly end after the same time",
        "The connections of a client to an endpoint ended at least three times after an equal lifetime, or an equal "
        "silence (within a tenth), and the client did not end them. Connections that end at the same moment count "
        "once. A capture does not show which host sent a RST: firewalls and load balancers send RST in the name of "
        "both sides.",
        "* The times differ by more than a tenth.\n* The client ended the connections itself.",
        _periodic_disconnect,
        ("reconnect-storm", "peer-departed"),
    ),
    Rule(
        "peer-departed",
        "note",
        "A peer left while others depended on it",
        "A peer ended its connection first (FIN or RST) while others depended on it. ZMTP has no goodbye, so a closed "
        "socket and a killed program look alike. Endpoints of one host that close within half a second are one "
        "diagnosis: a process ended. These cases are reported:\n"
        "* The other side tried to connect again.\n"
        "* The peer's last message was cut off.\n"
        "* The peer was a client, and similar clients stayed. A SUB, DISH, PUSH or REQ without a pending request is "
        "not reported, because the others lose nothing.\n"
        "* A publisher left all its subscribers, or all receivers left a PUSH that was sending, and none was "
        "connected again within 3 s.\n"
        "* Severity warning if a listener was not back within 10 s although clients tried, or if the peer cut off its "
        "own message.\n"
        "* Severity note if the host then listens on another port that its system chose.",
        "* A pending PING, an ERROR or a forbidden frame explains the end.\n* No other peer depended on it.",
        _peer_departed,
        ("connection-refused", "connection-unanswered", "reconnect-storm", "request-lost"),
    ),
    Rule(
        "violating-frame",
        "error",
        "A connection is closed because of a frame",
        "A side closed the connection within a second after it received a frame that violates the protocol. libzmq "
        "behaves like this. The capture shows only the time, not the reason, so the frame is a conclusion.",
        "The receiver of the frame stays connected for more than a second.",
        _violating_frame,
        ("reconnect-storm", "peer-departed"),
    ),
)
