"""Protocol errors and warnings that no other rule explains, and handshakes that all fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import address, client_name, duration, name_of, repeated, server_name
from zmtpscope.diagnosis.diagnosis import FAILING, MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.rules.from_findings import Met
from zmtpscope.findings import FINDINGS
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

VIOLATION = "protocol-violation"
NO_HANDSHAKE = "handshake-failing"
MIN_TIMED, TIMER_SPREAD = 3, 20
"""Connections with equal durations, within a twentieth, that show a timer."""
MIN_WAIT = 10 * SECOND // 1000
"""Minimum time without data (ns) after which a timer closes."""

ACCEPTED = frozenset({"ZMTP3X-META-11", "REQREP-02"})
"""Violations that libzmq and all known peers accept, so they are notes."""

ABSENT = frozenset({"ZRE-11", "ZRE-12", "ZRE-21", "ZMTP3X-META-15"})
"""Findings about an answer, a connection or an end that does not exist: an incomplete capture may lack it."""

LEFT = frozenset({"NULL-08", "PLAIN-09"})
"""Findings about a side that closes in the handshake: once only, its program may just have exited."""

WITHOUT_SECURITY = ("1.0", "2.0")
TOO_OLD = (
    "the other side speaks a version of ZMTP without security, and a socket with PLAIN or CURVE closes on it: "
    "update its library; otherwise check the log of the side that closes"
)
REASONS = (
    "check the log of the side that closes; usual reasons are the mechanism, keys, the ZAP handler, socket types "
    "and ZMQ_MAXMSGSIZE"
)
WITHOUT_A_WORD = (
    "a ZeroMQ socket greets at once: a proxy or port mapping (container, load balancer, tunnel) closes like this if "
    "it cannot reach the server behind it, which may not run or may be bound to 127.0.0.1; so do a TLS listener and "
    "a program at its limit of open files"
)
WEBSOCKET = (
    "the HTTP response in that packet tells why: a web server or proxy must pass on the Upgrade and Connection headers "
    "(nginx: proxy_http_version 1.1, proxy_set_header), to the port and path of a server that speaks ZWS 2.0"
)
TIMER = (
    "raise ZMQ_HANDSHAKE_IVL of the side that closes (30 s unless set): a handshake takes several round trips, and "
    "this path is slow or loses packets"
)

WEAK = ("peer-departed", "periodic-disconnect", "reconnect-storm", "clear-text")
"""Rules that give no reason for a failing handshake."""


def unexplained(knowledge: Knowledge, found: Iterable[Diagnosis], rules: Sequence[Rule]) -> list[Diagnosis]:
    """Return diagnoses for findings and failed handshakes that no diagnosis in `found` explains."""
    ids, told = {rule.id for rule in rules}, list(found)
    more: list[Diagnosis] = []
    if VIOLATION in ids:
        more += _violations(knowledge, told)
    if NO_HANDSHAKE in ids:
        more += _failing_handshakes(knowledge, told + more)
    return more


def _violations(knowledge: Knowledge, found: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Make one diagnosis for each finding id that `found` does not explain, because programs repeat their mistakes."""
    explained = {each for diagnosis in found for each in diagnosis.explains}
    left_out = frozenset[str]() if all(each.is_whole for each in knowledge.connections) else ABSENT
    met = grouped(
        ((finding.severity, finding.id), Met(connection, finding))
        for connection in knowledge.connections
        for finding in connection.findings.values()
        if finding.severity in FAILING
        and (connection.conn_id, finding.id) not in explained
        and finding.id not in left_out
        and not (connection.is_misordered and finding.severity != "error")  # most warnings compare the two sides
    )
    for (severity, id_), each in met.items():
        each.sort(key=attrgetter("finding.moment.ns"))
        connection, first = each[0]
        endpoints = len({of.endpoint for of, _ in each})
        more = f", and at {counted(endpoints - 1, 'endpoint')} more" if endpoints > 1 else ""
        count, last_ns = sum(finding.count for _, finding in each), max(finding.last_ns for _, finding in each)
        times = sorted(finding.moment.ns for _, finding in each)
        who = ""
        if first.side is not None:
            who = f", from {name_of(connection, first.side)} to {name_of(connection, 1 - first.side)}"
        yield Diagnosis.of(
            VIOLATION,
            "note"
            if id_ in ACCEPTED or (id_ in LEFT and len(each) == 1)
            else "error"
            if severity == "error"
            else "warn",
            f"{id_} at {address(connection.endpoint)}",
            f"{first.text}{who}{more}{repeated(times, count, last_ns)} ({id_})",
            first.hint or f"see {FINDINGS[id_].section}",
            evidence=(Evidence.of(finding) for _, finding in each[:MAX_EVIDENCE]),
            about=each,
            count=count,
            last_ns=last_ns,
        )


class Failed(NamedTuple):
    """A connection that ended before its handshake was complete, and how it ended."""

    connection: ObservedConnection
    ending: Ending


def _failing_handshakes(knowledge: Knowledge, found: Iterable[Diagnosis]) -> Iterator[Diagnosis]:
    """Diagnose each client and endpoint whose handshakes all fail, unless `found` contains the reason."""
    explained = {conn_id for diagnosis in found if diagnosis.rule not in WEAK for conn_id in diagnosis.conn_ids}
    for ends, connections in knowledge.by_ends.items():
        if any(is_agreed(each) or each.conn_id in explained for each in connections):
            continue
        failed = [Failed(each, ending) for each in connections if (ending := _failed(each)) is not None]
        if not failed:
            continue
        connection, times = failed[0].connection, [each.ending.moment.ns for each in failed]
        closes, hint = _closes(failed)
        yield Diagnosis.of(
            NO_HANDSHAKE,
            "warn" if len(failed) > 1 else "note",
            ends.name,
            f"No handshake of {client_name(connection)} with {server_name(connection)} succeeds: "
            f"{closes}{repeated(times)}",
            hint,
            evidence=map(_evidence, failed[:MAX_EVIDENCE]),
            about=failed,
            last_ns=max(times),
            proven=hint == WEBSOCKET,
        )


def _evidence(failed: Failed) -> Evidence:
    connection = failed.connection
    if connection.server.refuses_websocket and connection.server.greeting is not None:
        return Evidence(connection.server.greeting, "the HTTP response")
    return Evidence.opening(connection)


def _failed(connection: ObservedConnection) -> Ending | None:
    """Return how a connection of a ZMTP client ended before its handshake was complete; None if it did not."""
    client, values = connection.client, connection.values
    if client.greeting is None or values is None or values["opened_by"] is None or values["only_side"] is not None:
        return None
    is_captured = not (values["gap_bytes"] or values["unseen_bytes"]) and values["close"] not in ("reused", "evicted")
    return ending_of(connection) if is_captured else None


def _closes(failed: list[Failed]) -> tuple[str, str]:
    """Return a text about the side that closes or refuses the connections, and the hint."""
    connection, ending = failed[0]
    if all(each.connection.server.refuses_websocket for each in failed):
        return f"{server_name(connection)} refuses to open a WebSocket for ZeroMQ", WEBSOCKET
    closes = f"{name_of(connection, ending.side)} closes"
    after = f"{closes} {_after(connection, ending)}"
    if all(each.ending.side == each.connection.listener and _said_nothing(each) for each in failed):
        return f"{after}, without sending anything", WITHOUT_A_WORD
    lasted = [each.ending.moment.ns - each.connection.start.ns for each in failed]
    if len(failed) >= MIN_TIMED and max(lasted) - min(lasted) <= max(lasted) // TIMER_SPREAD and _are_timed(failed):
        after = f"{duration(lasted[0])} after the connection began, while {_other(failed[0])} still answers"
        return f"{closes} {after}", TIMER
    is_old = all(each.connection.sides[1 - each.ending.side].version in WITHOUT_SECURITY for each in failed)
    return after, TOO_OLD if is_old else REASONS


def _said_nothing(failed: Failed) -> bool:
    return failed.connection.sides[failed.ending.side].last_ns is None


def _are_timed(failed: list[Failed]) -> bool:
    """Whether a timer closes the connections: the same side closes each time, long after the last data that it
    received."""
    side = failed[0].ending.side
    last_data = [(each, each.connection.sides[1 - side].last_ns) for each in failed]
    return all(
        each.ending.side == side and last is not None and each.ending.moment.ns - last >= MIN_WAIT
        for each, last in last_data
    )


def _other(failed: Failed) -> str:
    return name_of(failed.connection, 1 - failed.ending.side)


def _after(connection: ObservedConnection, ending: Ending) -> str:
    """Describe the last octets that the closing side received: `1.5 ms after the READY of PUSH 10.0.0.2`."""
    number = 1 - ending.side
    side, other = connection.sides[number], name_of(connection, number)
    if side.last_command is not None:
        moment, name = side.last_command
        return f"{duration(ending.moment.ns - moment.ns)} after the {name} of {other}"
    if side.greeting is not None:
        return f"{duration(ending.moment.ns - side.greeting.ns)} after the greeting of {other}"
    return f"after {duration(ending.moment.ns - connection.start.ns)}, in which {other} sent nothing"


TABLE = (
    Rule(
        VIOLATION,
        "warn",
        "A peer does not keep to the protocol",
        "Findings of severity error or warn, as `read` prints them, that no other rule explains. Each kind of finding "
        "is one diagnosis.",
        "Another diagnosis explains the finding.",
        lambda knowledge: iter(()),
    ),
    Rule(
        NO_HANDSHAKE,
        "warn",
        "No handshake succeeds",
        "A client speaks ZMTP to an endpoint, and each of its connections ended before the handshake was complete, "
        "for no reason that another rule finds.\n"
        "* If the listener closes without ERROR, it is probably not ZeroMQ.\n"
        "* If one side closes after an equal time each time, although the other side answers, it has a timer.\n"
        "* Proven if an HTTP response refuses to switch to a WebSocket with ZWS.\n"
        "* Severity note if there is only one connection.",
        "* A handshake of the two succeeds.\n* Another diagnosis covers one of these connections.",
        lambda knowledge: iter(()),
        ("reconnect-storm",),
    ),
)
