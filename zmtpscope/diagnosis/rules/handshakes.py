"""Handshakes that never complete: different mechanisms, or a silent side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.handshakes import AT_ONCE, MIN_WAIT, Hung, Waiting, hung_handshakes
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import (
    client_name,
    duration,
    name_of,
    repeated,
    server_name,
    steady,
)
from zmtpscope.diagnosis.diagnosis import LIKELY, MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedFinding
from zmtpscope.diagnosis.rules.from_findings import Met, with_finding
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted
from zmtpscope.zmtp.greeting import GREETING_3_SIZE

CLOSED_WITHIN = "ZMTP3X-GREETING-12"
"""Finding about a side that closed before it had sent its own mechanism, as libzmq does."""
MISMATCH = ("ZMTP3X-GREETING-05", "ZMTP3X-GREETING-13", CLOSED_WITHIN)
NO_MECHANISM = ("ZMTP3X-GREETING-03", "ZMTP3X-GREETING-10")
"""Findings about an announced mechanism that is not a valid name."""


def _mechanism_mismatch(knowledge: Knowledge) -> Iterator[Diagnosis]:
    differing = (
        each
        for each in with_finding(knowledge, *MISMATCH)
        if each.connection.finding(*NO_MECHANISM) is None and not _read_more(*each)
    )
    for ends, met in grouped((each.connection.ends, each) for each in differing).items():
        known = knowledge.by_ends[ends]
        listening, connecting = _mechanism(known, listens=True), _mechanism(known, listens=False)
        if listening == connecting:
            continue
        times = [each.finding.moment.ns for each in met]
        yield Diagnosis.of(
            "mechanism-mismatch",
            "error",
            ends.name,
            _mismatch(met[0].connection, listening, connecting) + repeated(times),
            "configure the same mechanism on both sides: NULL (none), PLAIN or CURVE",
            evidence=(Evidence(each.finding.moment, _who_says(each), each.finding.ref) for each in met[:MAX_EVIDENCE]),
            about=met,
            explains=(*MISMATCH, "ZMTP-CONN-08"),
            last_ns=max(each.finding.last_ns for each in met),
            proven=bool(listening and connecting),
        )


def _read_more(connection: ObservedConnection, finding: ObservedFinding) -> bool:
    """Whether a side that closed early had received more than the other side's greeting, so that this data may be the
    reason."""
    values = connection.values
    if finding.id != CLOSED_WITHIN or finding.side is None or values is None:
        return False
    received: int = values[f"stream_bytes_{1 - finding.side}"]
    return received > GREETING_3_SIZE


def _mechanism(connections: Sequence[ObservedConnection], *, listens: bool) -> str | None:
    """Return the mechanism that the listener (`listens`) or the client announced on any of the connections, or None."""
    sides = [each.server if listens else each.client for each in connections]
    return next((side.mechanism for side in sides if side.mechanism), None)


def _who_says(met: Met) -> str:
    """Return the text of a finding, with the name of the peer instead of "This side"."""
    connection, finding = met
    return (
        finding.text
        if finding.side is None
        else finding.text.replace("This side", name_of(connection, finding.side), 1)
    )


def _mismatch(connection: ObservedConnection, listening: str | None, connecting: str | None) -> str:
    server, client = server_name(connection), client_name(connection)
    if listening and connecting:
        return f"{server} uses {listening} and {client} {connecting}, so they cannot connect"
    if listening:
        return f"{server} uses {listening}, and {client} closes on it: it uses another mechanism"
    return f"{client} uses {connecting}, and {server} closes on it: it uses another mechanism"


ANSWERS = ("ZMTP-CONN-03", "NULL-08", "PLAIN-08", "PLAIN-09", "CURVE-24")
"""Findings about answers that were never sent."""


def _handshake_timeout(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for waiting, hung in hung_handshakes(knowledge).items():
        if not any(each.waits_for_zap for each in hung):
            if all(each.is_too_early for each in hung):
                yield replace(
                    _hanging("handshake-timeout", knowledge, waiting, hung, _too_early(hung), TIMER_HINT),
                    severity="warn",
                    certainty=LIKELY,
                )
                continue
            others, is_over = _others(waiting, hung[0], knowledge), _is_over(waiting, hung, knowledge)
            served = sum(each.is_served for each in others)
            diagnosis = _hanging(
                "handshake-timeout",
                knowledge,
                waiting,
                hung,
                _silence(hung[0], listens=waiting.listener_is_silent)
                + (f", although it serves {counted(served, 'other connection')} meanwhile" if served else ""),
                MOMENT_HINT if is_over else FULL_HINT if served else HANGS_HINT,
                [] if served else [each.conn_id for each in others],
            )
            yield replace(diagnosis, severity="note") if is_over else diagnosis


def _too_early(hung: Sequence[Hung]) -> str:
    first = hung[0]
    return (
        f"{server_name(first.connection)} cannot answer as fast as {client_name(first.connection)} expects: connecting "
        f"took {duration(first.connecting_took)}, a round trip of this path, and nothing of an answer could arrive so "
        "soon after it"
    )


def _is_over(waiting: Waiting, hung: Sequence[Hung], knowledge: Knowledge) -> bool:
    """Whether a listener was silent only for a moment, and served connections that began later."""
    last = hung[-1].connection.start.ns
    later = (each for each in knowledge.by_endpoint[waiting.ends.endpoint] if each.start.ns > last)
    is_short = waiting.listener_is_silent and max(each.waited for each in hung) < MIN_OUTAGE
    return is_short and all(each.is_over for each in hung) and any(map(is_agreed, later))


class Other(NamedTuple):
    """An earlier connection to a listener that does not answer new ones. `is_served`: the listener still
    sends on it."""

    conn_id: str
    is_served: bool


def _others(waiting: Waiting, first: Hung, knowledge: Knowledge) -> list[Other]:
    """Return the earlier connections to an endpoint that sends nothing on new connections.

    They are open when the first handshake hangs, or their clients gave up a request just before.
    """
    if not waiting.listener_is_silent or first.connection.sides[first.silent].greeting is not None:
        return []
    start, found = first.connection.start.ns, list[Other]()
    for each in knowledge.by_endpoint[waiting.ends.endpoint]:
        last, ending = each.server.last_ns, ending_of(each)
        is_given_up = each.requests is not None and each.requests.waiting_count > 0
        is_over = ending is not None and ending.moment.ns < start - (GIVES_UP if is_given_up else AT_ONCE)
        if each.start.ns < start and last is not None and is_agreed(each) and not is_over:
            found.append(Other(each.conn_id, last >= start + MIN_WAIT))
    return found


HANGS_HINT = (
    "its kernel accepts connections, but nothing of the program arrives: check whether it hangs, is stopped, or is not "
    "ZeroMQ, or a firewall drops its data; ZMQ_HANDSHAKE_IVL sets how long the other side waits"
)
TIMER_HINT = (
    "raise ZMQ_HANDSHAKE_IVL of the client (30 s unless set) above several round trips of this path; the program that "
    "listens is not at fault"
)
MOMENT_HINT = (
    "no action if its program, or the server behind a TCP proxy, restarted then; otherwise check whether that program "
    "was busy"
)
GIVES_UP = 3 * SECOND
"""A client that gives up a request connects again within this time (ns)."""
MIN_OUTAGE = 3 * SECOND
"""A listener that is silent for less time and then serves new connections may have been restarted."""
FULL_HINT = (
    "the program does not hang, but accepts no more connections: check the limit of open files (ulimit -n), "
    "ZMQ_MAX_SOCKETS, or the limit of a proxy (maxconn), and which unused connections stay open"
)


def unanswered_logins(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose each client and endpoint with hung handshakes in which the server waited for its ZAP handler."""
    for waiting, hung in hung_handshakes(knowledge).items():
        if any(each.waits_for_zap for each in hung):
            connection, silent, _, _ = hung[0]
            yield _hanging(
                "authentication-failing",
                knowledge,
                waiting,
                hung,
                f"{name_of(connection, silent)} does not answer the login of {name_of(connection, 1 - silent)}: its "
                "ZAP handler is silent, or returns 300",
                "check the ZAP handler in the process of that side: whether it runs, hangs, or waits for a database",
            )


def _silence(hung: Hung, *, listens: bool) -> str:
    connection, silent, _, _ = hung
    side = connection.sides[silent]
    does = "accepts connections" if listens else f"connects to {server_name(connection)}"
    said = "sends nothing" if side.greeting is None else "stops during the handshake"
    return f"{name_of(connection, silent)} {does} and {said}"


def _hanging(
    rule: str,
    knowledge: Knowledge,
    waiting: Waiting,
    hung: list[Hung],
    what: str,
    hint: str,
    beside: Iterable[str] = (),
) -> Diagnosis:
    """Return the diagnosis of hung handshakes of one client at one endpoint.

    `what` names the silent side and what it does. On further connections, with conn_ids `beside`, it is silent, too.
    """
    connection, silent, _, _ = hung[0]
    return Diagnosis.of(
        rule,
        "error" if waiting.listener_is_silent else "warn",
        waiting.ends.name,
        f"{what}; {name_of(connection, 1 - silent)} {_patience(hung)}",
        hint,
        evidence=(_wait(each) for each in hung[:MAX_EVIDENCE]),
        about=hung,
        beside=beside,
        # of all connections of the two: some may have been closed immediately for the same reason
        explained=((each.conn_id, id_) for each in knowledge.by_ends[waiting.ends] for id_ in ANSWERS),
        last_ns=hung[-1].connection.last_ns,
        proven=rule != "authentication-failing",
    )


def _patience(hung: list[Hung]) -> str:
    """Describe how long the waiting side waits: `gives up after 30 s, 3 times in 91 s, every 30.1 s` or `has been
    waiting for 12 s`."""
    over = [each.waited for each in hung if each.is_over]
    if not over:
        return f"has been waiting for {duration(max(each.waited for each in hung))}"
    usual, often = steady(over), repeated([each.connection.start.ns for each in hung])
    patience = f"after {duration(usual)}" if usual is not None else f"after {duration(max(over))} at most"
    return f"gives up {patience}{often}"


def _wait(hung: Hung) -> Evidence:
    ends = "the other side gave up" if hung.is_over else "the capture ended"
    text = (
        f"nothing more arrived from {name_of(hung.connection, hung.silent)}, and {ends} {duration(hung.waited)} later"
    )
    return Evidence(hung.connection.start, text, hung.connection.ref)


TABLE = (
    Rule(
        "mechanism-mismatch",
        "error",
        "The security mechanisms differ",
        "The two sides announced different security mechanisms, so they cannot connect. libzmq closes without ERROR "
        "then. A side may close before it has announced its own mechanism. In this case its mechanism is taken from "
        "other connections between the two, and without any the diagnosis is not proven.",
        "* Both sides announce the same mechanism, on this or on another connection between them.\n"
        "* The side that closes had already received data after the greeting.",
        _mechanism_mismatch,
        ("reconnect-storm",),
    ),
    Rule(
        "handshake-timeout",
        "error",
        "Handshake never completes",
        "One side received no answer in the handshake: the other side sent nothing, or stopped after its greeting. "
        "The waiting side closed after its ZMQ_HANDSHAKE_IVL (30 s by default), or still waits at the end of the "
        "capture. The kernel accepts connections even for a program that hangs; a capture does not show what the "
        "program does.\n"
        "* If the silent program serves other connections meanwhile, it does not hang. It has reached a limit, such "
        "as the number of open files.\n"
        "* Severity note if the wait was shorter than 3 s, and later connections succeeded.",
        "* The silent side answers, or closes before the answer of the other side can reach it.\n"
        "* Octets of the connection are missing from the capture.\n"
        "* The connection is open, and octets of any connection are missing from the capture after that connection "
        "became silent: the answer may be among them.",
        _handshake_timeout,
        ("reconnect-storm", "connection-unanswered", "request-unanswered", "fell-silent", "half-closed"),
    ),
)
