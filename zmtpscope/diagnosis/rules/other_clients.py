"""Peers that are not ZeroMQ: scans, health checks, and clients or servers of other protocols."""

from __future__ import annotations

from collections.abc import Iterator

from zmtpscope.diagnosis.across.endings import Ending, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding, once
from zmtpscope.diagnosis.across.words import address, how_often, repeated, server_name
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection
from zmtpscope.diagnosis.rules.from_findings import Met, with_finding
from zmtpscope.findings.capturing import ANSWERS, ATTEMPTS, NO_ROUTE
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

REACHED = ATTEMPTS.keys() - {NO_ROUTE}
MIN_PORTS = 5
"""Endpoints that a port scan tries, without retries."""
MAX_TRIES = 2
"""Attempts of a port scan at each endpoint; a client of ZeroMQ retries more often."""

FOREIGN = "ZMTP-CONN-04"
WEBSOCKET = "speaks WebSocket"
AT_ONCE = SECOND // 5

FAILED_HINT = (
    "the program may have failed on these octets: see its log, and update its library (old releases abort on them); "
    "keep other clients away from the port"
)

FOREIGN_HINT = "correct the port of that client; if it is a health check, make it check the TCP connection only"
WEBSOCKET_HINT = "connect to tcp:// instead of ws://, or bind that socket to ws://"


@once
def _scans(knowledge: Knowledge) -> dict[str, dict[Endpoint, RunFinding]]:
    """Return addresses that try many ports, with the finding about the first attempt at each endpoint."""
    tried: dict[str, dict[Endpoint, RunFinding]] = {}
    for finding in knowledge.findings:
        if finding.id in REACHED and finding.endpoint is not None and finding.client and finding.times <= MAX_TRIES:
            tried.setdefault(finding.client, {}).setdefault(finding.endpoint, finding)
    return {client: by_endpoint for client, by_endpoint in tried.items() if len(by_endpoint) >= MIN_PORTS}


def _port_scans(knowledge: Knowledge) -> Iterator[Diagnosis]:
    scans = _scans(knowledge)
    came_to_look: dict[str, list[str]] = {client: [] for client in scans}
    for connection in knowledge.connections if scans else ():
        visitor = connection.client
        if visitor.ip in came_to_look and visitor.ready is None:  # a ZMTP client sends READY
            came_to_look[visitor.ip].append(connection.conn_id)
    for client, by_endpoint in scans.items():
        found = sorted(by_endpoint.values(), key=lambda each: each.moment.ns)
        hosts = sorted({host for host, _ in by_endpoint})
        where = hosts[0] if len(hosts) == 1 else counted(len(hosts), "host")
        yield Diagnosis.of(
            "scanner",
            "note",
            client,
            f"{client} looks for open ports: it tried {len(by_endpoint)} of {where}, once or twice each",
            "no action if that is your own scan; otherwise find out who uses that address",
            evidence=(Evidence.of(each) for each in found[:MAX_EVIDENCE]),
            beside=came_to_look[client],
            explained=((each.ref.partition("/")[0], each.id) for each in found),
            count=len(by_endpoint),
            last_ns=found[-1].moment.ns,
        )


def _silent_visits(knowledge: Knowledge) -> Iterator[Diagnosis]:
    silent = (each for each in knowledge.connections if said_nothing(each))
    for ends, visits in grouped((each.ends, each) for each in silent).items():
        speaks_zmtp = any(map(is_agreed, knowledge.by_ends[ends]))  # and checks the port before
        if speaks_zmtp or ends.client in _scans(knowledge):
            continue
        first, times = visits[0], [each.start.ns for each in visits]
        yield Diagnosis.of(
            "scanner",
            "note",
            ends.name,
            f"{ends.client} connects to {server_name(first)} and leaves without sending anything{repeated(times)}: "
            "a health check, or a port scan",
            "no action for a health check; a ZeroMQ client would have sent a greeting",
            evidence=(Evidence.opening(each) for each in visits[:MAX_EVIDENCE]),
            about=visits,
            last_ns=visits[-1].last_ns,
        )


def said_nothing(connection: ObservedConnection) -> bool:
    """Whether a client connected to a ZeroMQ endpoint, and left without sending an octet."""
    client, ending = 1 - connection.listener, ending_of(connection)
    return (
        connection.is_whole
        and connection.sides[1 - client].greeting is not None
        and ending is not None
        and ending.side == client
        and connection.values is not None
        and connection.values[f"stream_bytes_{client}"] == 0
    )


def _scanner(knowledge: Knowledge) -> Iterator[Diagnosis]:
    yield from _port_scans(knowledge)
    yield from _silent_visits(knowledge)


PLAIN_WEBSOCKET = "ZMTP-CONN-22"


def _plain_websockets(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for finding in knowledge.findings:
        if finding.id == PLAIN_WEBSOCKET and finding.ends is not None:
            yield Diagnosis.of(
                "plain-websocket",
                "warn",
                finding.ends.name,
                finding.detail,
                finding.hint or "",
                evidence=(Evidence(finding.moment, "the first of these connections", finding.ref),),
                count=finding.times,
            )


TLS = "ZMTP-CONN-23"
MIN_IN_CLEAR = 2


def _without_tls(knowledge: Knowledge) -> Iterator[Diagnosis]:
    tls = (each for each in knowledge.findings if each.id == TLS and ANSWERS not in each.text)
    speaking = {each.endpoint: each for each in tls if each.endpoint is not None}
    for ends, connections in knowledge.by_ends.items() if speaking else ():
        client, endpoint = ends
        others = knowledge.by_endpoint[endpoint]
        if endpoint not in speaking or any(each.server.greeting is not None for each in others):
            continue  # it also speaks ZMTP
        ended = [
            (each, end) for each in connections if (end := ending_of(each)) is not None and _is_in_clear(each, end)
        ]
        if len(ended) < MIN_IN_CLEAR:
            continue
        finding, times = speaking[endpoint], [end.moment.ns for _, end in ended]
        yield Diagnosis.of(
            "tls-expected",
            "error",
            ends.name,
            f"{address(endpoint)} speaks TLS with {finding.client}, and {client} connects without TLS: the server "
            f"closes each connection on the ZMTP greeting, {how_often(times)}",
            "connect through TLS as the others do (libzmq has no TLS: use stunnel, HAProxy or a sidecar), or to the "
            "port of the ZeroMQ socket behind it",
            evidence=(
                Evidence(finding.moment, f"{finding.client} speaks TLS", finding.ref),
                *(Evidence.opening(each) for each, _ in ended[:MAX_EVIDENCE]),
            ),
            about=connections,
            count=len(ended),
            last_ns=max(times),
            proven=False,
        )


def _is_in_clear(connection: ObservedConnection, ending: Ending) -> bool:
    """Whether the listener closed a complete connection on which the client sent an unencrypted greeting of ZMTP."""
    client = connection.client
    return connection.is_whole and ending.side == connection.listener and client.greeting is not None


def _foreign(knowledge: Knowledge) -> Iterator[Diagnosis]:
    yield from map(_tls_to_websocket, (each for each in knowledge.findings if each.id == TLS and ANSWERS in each.text))
    found = grouped(
        ((each.connection.ends, each.finding.side == each.connection.listener), each)
        for each in with_finding(knowledge, FOREIGN)
        if each.finding.side is not None
    )
    for (ends, listens), met in found.items():
        client, endpoint = ends
        connection, first = met[0]
        detail = first.detail.removeprefix("it ")
        speaks = detail or "speaks another protocol"
        who = f"{address(endpoint)} {speaks}, and {client} connects to it" if listens else f"{client} {speaks}"
        failed = [] if listens else _failed_behind(met[0], knowledge) or _failed_behind(met[-1], knowledge)
        hint = FAILED_HINT if failed else WEBSOCKET_HINT if speaks.startswith(WEBSOCKET) else FOREIGN_HINT
        yield Diagnosis.of(
            "foreign-client",
            "note" if client in _scans(knowledge) else "warn",
            ends.name,
            (f"{who} as to ZeroMQ" if listens else f"{who} to {server_name(connection)}, which is ZeroMQ")
            + repeated([each.finding.moment.ns for each in met])
            + (f"; at once {address(endpoint)} closed {counted(len(failed), 'other connection')}" if failed else ""),
            hint,
            evidence=(Evidence.of(each) for _, each in met[:MAX_EVIDENCE]),
            about=(*met, *failed),
            explains=(FOREIGN,),
            last_ns=max(each.finding.last_ns for each in met),
            proven=not failed,
        )


def _failed_behind(met: Met, knowledge: Knowledge) -> list[ObservedConnection]:
    """Return the other connections of an endpoint, if the listener ended all of them just when octets of another
    protocol arrived."""
    found, since = [], met.finding.moment.ns
    for each in knowledge.by_endpoint[met.connection.endpoint]:
        if each is met.connection or each.start.ns > since or not is_agreed(each):
            continue
        ending = ending_of(each)
        if ending is None or ending.moment.ns - since > AT_ONCE:
            return []  # the program goes on
        if ending.moment.ns >= since and ending.side == each.listener:
            found.append(each)
    return found


def _tls_to_websocket(finding: RunFinding) -> Diagnosis:
    """Diagnose a client of wss at an endpoint of ws, whose server answers the TLS handshake as HTTP."""
    return Diagnosis.of(
        "foreign-client",
        "warn",
        "" if finding.ends is None else finding.ends.name,
        finding.detail,
        "the endpoint is a WebSocket without TLS: connect with ws:// instead of wss://, or terminate TLS before it",
        evidence=(Evidence(finding.moment, "the first of these connections", finding.ref),),
        count=finding.times,
    )


TABLE = (
    Rule(
        "scanner",
        "note",
        "Port scan or health check",
        "An address tried many endpoints once or twice each, or connected to a ZeroMQ endpoint, sent nothing and "
        "left. Health checks of load balancers do the latter at regular intervals.",
        "* The address tries an endpoint more than twice.\n"
        "* The address sends data on the connection, or speaks ZMTP there on another one.",
        _scanner,
        ("foreign-client",),
    ),
    Rule(
        "foreign-client",
        "warn",
        "A client of another protocol uses the port",
        "A client sent octets that match no version of ZMTP to an endpoint that speaks ZMTP. The diagnosis names the "
        "protocol if the first octets show it (HTTP, TLS, SSH).\n"
        "* Severity note if the address scans ports.\n"
        "* If the listener ended all its other connections within 0.2 s, it probably failed on these octets.",
        "* The first octets are those of a version of ZMTP.\n* The other side does not speak ZMTP.",
        _foreign,
        ("reconnect-storm", "peer-departed"),
    ),
    Rule(
        "plain-websocket",
        "warn",
        "A WebSocket without the sub-protocol of ZeroMQ",
        "A client opened a WebSocket to a ZeroMQ endpoint, and did not offer the sub-protocol ZWS2.0. Some servers "
        "accept it, and close when the client sends a text frame.",
        "The client offers ZWS2.0, or no connection to the endpoint speaks ZMTP.",
        _plain_websockets,
    ),
    Rule(
        "tls-expected",
        "error",
        "A client speaks ZMTP to an endpoint of TLS",
        "A client speaks ZMTP to an endpoint that expects TLS. The endpoint speaks TLS with another client, and "
        "closed at least two connections of this client without sending an octet. So a proxy that terminates TLS runs "
        "before the ZeroMQ socket, and this client connects to it without TLS. Likely: the reason is inferred.",
        "* The endpoint sends a greeting of ZMTP on any connection.\n* The client closes.",
        _without_tls,
        ("reconnect-storm", "handshake-failing", "peer-departed", "periodic-disconnect", "client-returns"),
    ),
)
