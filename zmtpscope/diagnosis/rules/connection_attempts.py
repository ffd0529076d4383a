"""TCP connections that were never established."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.attempts import (
    MIN_LATE,
    Tried,
    clients_of,
    in_turn,
    is_zeromq,
    passed_on_in_vain,
    tried_in_vain,
)
from zmtpscope.diagnosis.across.disconnects import passing
from zmtpscope.diagnosis.across.endings import was_told_to_exit
from zmtpscope.diagnosis.across.knowledge import Knowledge, RunFinding
from zmtpscope.diagnosis.across.words import address, duration
from zmtpscope.diagnosis.diagnosis import LIKELY, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.dissect.findings.attempts import BOTH, LOST
from zmtpscope.findings.capturing import HALF_OPEN, NO_ROUTE, REFUSED, REJECTED, UNANSWERED
from zmtpscope.findings.kinds import SEVERITIES, Severity
from zmtpscope.grouping import divided_at_pauses, grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted, listed

MAX_CLIENTS = 3
"""Clients to name."""

MIN_OUTAGE = 10 * SECOND
"""A peer that is away for this long was not just restarted."""


LISTENS_LATE = (
    "listen",
    "no action needed: ZeroMQ clients retry until the server listens; start the server first if the delay matters",
)
ANSWERS_LATE = (
    "answer",
    "the host was not up yet, or the path dropped packets; ZeroMQ clients retry until the server answers",
)
"""Verb and hint of attempts that were refused, or not answered, until the endpoint was reached."""


class Words(NamedTuple):
    """Text and hint of a diagnosis about an endpoint that clients did not reach."""

    text: str
    hint: str


class InVain(NamedTuple):
    """The texts for failed attempts with the outcome `id`: if the endpoint serves no client, and if it serves others.

    `patience` is the longest time (ns) that an attempt may have waited for its answer.
    """

    id: str
    nobody: Words
    serving: Words
    patience: int


def _severity(knowledge: Knowledge, tried: Tried) -> Severity:
    """Return the severity of failed attempts. If the endpoint served connections before, its program may just have
    ended."""
    if not tried.before:
        return "error"
    if all(each.ends in passing(knowledge) for each in tried.findings):
        return "note"
    now = knowledge.last_ns
    until = max(each.until_ns if each.is_given_up(now) else now for each in tried.findings)
    is_long = until - tried.first_ns >= MIN_OUTAGE or any(each.severity == "warn" for each in tried.findings)
    return "warn" if is_long else "note"


def _where(tried: list[Tried]) -> str:
    return f"{len(tried)} endpoints of {tried[0].endpoint[0]}" if tried[1:] else address(tried[0].endpoint)


def _attempts(tried: list[Tried]) -> str:
    """Describe attempts: `10.0.0.2 tried 14 times in 2.7 s to reach 10.0.0.1:5599, and 1 other client`."""
    if len(tried) > 1:
        clients = dict.fromkeys(each.client for of_endpoint in tried for each in of_endpoint.findings)
        return f"{' and '.join(filter(None, clients))} tried {sum(each.attempts for each in tried)} times"
    attempts = [each.detail.partition(";")[0] for each in tried[0].findings]
    return attempts[0] + (f", and {counted(len(attempts) - 1, 'other client')}" if len(attempts) > 1 else "")


def _diagnosis(
    rule: str,
    severity: Severity,
    tried: list[Tried],
    text: str,
    hint: str,
    passed_on: Iterable[ObservedConnection] = (),
) -> Diagnosis:
    findings = [finding for each in tried for finding in each.findings]
    first = min(findings, key=lambda each: each.moment.ns)
    return Diagnosis.of(
        rule,
        severity,
        address(tried[0].endpoint) if len(tried) == 1 else f"{tried[0].endpoint[0]}, {len(tried)} endpoints",
        text,
        hint,
        evidence=(Evidence(first.moment, "the first attempt", first.ref),),
        about=(before for each in tried for before in each.before),
        beside=(each.conn_id for each in passed_on),
        explained=((each.ref.partition("/")[0], each.id) for each in findings),
        count=sum(each.attempts for each in tried),
    )


def _late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose endpoints that clients reached only after failed attempts; those of one host at the same
    time together."""
    for id_ in (REFUSED, UNANSWERED, REJECTED, NO_ROUTE):
        late: list[Tried] = []
        for endpoint, clients in clients_of(knowledge, id_).items():
            waited = [each for each in clients if each.back_ns is not None and not each.before]
            back_ns = min((each.back_ns or 0 for each in waited), default=0)
            tried = Tried(endpoint, [each.finding for each in waited], [], back_ns)
            if waited and tried.waited_ns >= MIN_LATE:
                late.append(tried)
        for of_host in grouped((each.endpoint[0], each) for each in late).values():
            for same in divided_at_pauses(of_host, attrgetter("first_ns"), MIN_LATE):
                yield _late_diagnosis(same)


def _late_diagnosis(tried: list[Tried]) -> Diagnosis:
    ascending = sorted(tried, key=attrgetter("waited_ns"))
    after = " to ".join(dict.fromkeys(duration(each.waited_ns) for each in (ascending[0], ascending[-1])))
    attempts, client = counted(sum(each.attempts for each in tried), "attempt"), tried[0].findings[0].client
    verb, hint = LISTENS_LATE if tried[0].findings[0].id == REFUSED else ANSWERS_LATE
    text = f"{_where(tried)} did not {verb} until {after} after {client} began to connect ({attempts})"
    return _diagnosis("listener-late", "note", tried, text, hint)


def in_vain(rule: str, words: InVain) -> Callable[[Knowledge], Iterator[Diagnosis]]:
    """Return the function of a rule that finds endpoints which clients did not reach before the capture ended."""

    def find(knowledge: Knowledge) -> Iterator[Diagnosis]:
        tried = list(tried_in_vain(knowledge, words.id, words.patience))
        for each in tried:
            if not each.was_left and (each.before or is_zeromq(each, knowledge)):
                said = words.serving if each.served else words.nobody
                text = said.text.format(where=address(each.endpoint), others=" and ".join(each.served))
                text += f": {_attempts([each])}"
                severity, front = _severity(knowledge, each), passed_on_in_vain(each, knowledge)
                yield _diagnosis(rule, severity, [each], text + _passed_on(front), said.hint, front)
        for same in grouped((each.endpoint[0], each) for each in tried if each.was_left).values():
            for at_once in divided_at_pauses(same, attrgetter("first_ns"), MIN_LATE):
                yield _left(rule, words.nobody, at_once, knowledge)

    return find


def _passed_on(connections: Sequence[ObservedConnection]) -> str:
    """Describe client connections that a TCP proxy could not pass on to its server, as the end of a sentence, or return
    ""."""
    if not connections:
        return ""
    clients = listed(list(dict.fromkeys(each.client.ip for each in connections)), MAX_CLIENTS)
    several, proxy = counted(len(connections), "connection"), address(connections[0].endpoint)
    return f"; meanwhile {several} of {clients} to {proxy}, which may pass them on, got no greeting"


def _left(rule: str, words: Words, tried: list[Tried], knowledge: Knowledge) -> Diagnosis:
    is_ordered = any(was_told_to_exit(before) for each in tried for before in each.before)
    severity = "note" if is_ordered else min((_severity(knowledge, each) for each in tried), key=SEVERITIES.index)
    text = f"{words.text.format(where=_where(tried))} any more: {_attempts(tried)}"
    return _diagnosis(rule, severity, tried, text, words.hint)


IN_TURN_HINT = (
    "disconnect from it: if one socket connects to both, it sends to them in turn, and every second message waits for "
    "this one; ZMQ_IMMEDIATE leaves out peers that are not connected"
)

NOT_ANSWERED = InVain(
    UNANSWERED,
    Words(
        "Nothing answers at {where}",
        "the host is down, or a firewall drops packets: check routes and firewalls for this port",
    ),
    Words(
        "Nothing answers at {where}, although it serves {others} meanwhile",
        "the host is up, and the port is open: a firewall drops the packets of this client, or a route between the "
        "two is missing, in either direction; compare the network and rules of this client with the clients that are "
        "served",
    ),
    patience=SECOND,
)

BY_FIREWALL = (
    "allow the port in the firewall of that host or on the path: REJECT rules answer like this, and the program may "
    "be running"
)

NOT_ALLOWED = InVain(
    REJECTED,
    Words("A firewall rejects connections to {where} (ICMP destination unreachable)", BY_FIREWALL),
    Words("A firewall rejects connections to {where} (ICMP), although it serves {others} meanwhile", BY_FIREWALL),
    patience=0,
)

NO_HOST_HINT = (
    "the host is down, its address is wrong, or a route on the path is missing or leads in a circle (ICMP time "
    "exceeded)"
)

NOT_REACHED = InVain(
    NO_ROUTE,
    Words("{where} cannot be reached, as a router reports (ICMP)", NO_HOST_HINT),
    Words("{where} cannot be reached, as a router reports (ICMP), although it serves {others} meanwhile", NO_HOST_HINT),
    patience=0,
)

ONE_WAY_HINT = (
    "the server runs: check firewalls on the host of the client and on the path for dropped packets of the server, and "
    "whether its answers take another route"
)

ANSWER_LOST = InVain(
    HALF_OPEN,
    Words("{where} answers connection attempts, but the answers do not reach the client", ONE_WAY_HINT),
    Words(
        "{where} answers connection attempts, but the answers do not reach the client, although it serves {others} "
        "meanwhile",
        ONE_WAY_HINT,
    ),
    patience=SECOND,
)


GIVEN_UP_HINT = (
    "the client closed its sockets before the answers arrived: raise its ZMQ_CONNECT_TIMEOUT above the time that the "
    "path takes there and back"
)

OTHER_ADDRESS_HINT = (
    "the answers leave with another address or port than the client asked: check NAT rules (a port forwarding inside "
    "one network needs masquerading, too), load balancers with direct return, and the routes of a host with several "
    "addresses"
)


def _answer_lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose clients that repeat SYNs although the endpoint, or another address, answered them."""
    lost = {address(each.endpoint): each for each in knowledge.findings if _is_answered(each) and each.endpoint}
    instead = {finding.answered_by for finding in lost.values()}
    for words, id_ in ((ANSWER_LOST, HALF_OPEN), (NOT_ANSWERED, UNANSWERED)):
        for diagnosis in in_vain("answer-lost", words)(knowledge):
            finding = lost.get(diagnosis.subject)
            if finding is not None and finding.id == id_ and diagnosis.subject not in instead:
                yield _explained(diagnosis, finding)


def _is_answered(finding: RunFinding) -> bool:
    return finding.answered_by is not None or finding.answer is not None


def _explained(diagnosis: Diagnosis, finding: RunFinding) -> Diagnosis:
    """Add to a diagnosis why the client does not accept the answers, if it resets them."""
    where, attempts = diagnosis.subject, _attempts([Tried(("", 0), [finding], [])])
    if finding.answered_by is not None:
        text = f"{finding.answered_by} answers connection attempts to {where}, and {finding.client} resets its answers"
        text += f": {attempts}"
        return replace(diagnosis, text=text, hint=OTHER_ADDRESS_HINT)
    if finding.answer == LOST:
        return diagnosis
    text = f"{where} answers connection attempts, but {finding.client} resets the answers: {attempts}"
    if finding.answer != BOTH:
        return replace(diagnosis, text=text, hint=GIVEN_UP_HINT)
    return replace(diagnosis, text=f"{text}, with the same SYN", hint=OTHER_ADDRESS_HINT)


ENDED_EARLY = "the capture has no answer, but each attempt ended before TCP repeats a SYN"
ENDED_EARLY_HINT = (
    "capture both directions: attempts end this soon if nothing listens on the port, which refuses them; only with a "
    "ZMQ_CONNECT_TIMEOUT below a second the host may be down, or a firewall may drop packets"
)


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose endpoints that did not answer; proven if a client repeated a SYN, which shows that it had no answer."""
    repeated = {address(each.endpoint) for each in knowledge.findings if each.endpoint and each.syns > each.times}
    for diagnosis in _with_signs_of_the_host(knowledge, repeated):
        yield diagnosis if diagnosis.subject in repeated else replace(diagnosis, certainty=LIKELY)


def _with_signs_of_the_host(knowledge: Knowledge, repeated: Collection[str]) -> Iterator[Diagnosis]:
    """Diagnose endpoints that did not answer. If anything shows that the host is up, it is part of the evidence.

    `repeated` are the endpoints to which a SYN was repeated.
    """
    first = {address(each.endpoint): each for each in knowledge.findings if each.id == UNANSWERED and each.endpoint}
    beside = in_turn(knowledge, UNANSWERED)
    for diagnosis in in_vain("connection-unanswered", NOT_ANSWERED)(knowledge):
        finding = first.get(diagnosis.subject)
        if finding is not None and finding.answered_by is not None:
            continue
        if finding is None or finding.endpoint is None or diagnosis.hint != NOT_ANSWERED.nobody.hint:
            yield diagnosis
            continue
        waiting = [
            each
            for each in knowledge.by_endpoint.get(finding.endpoint, ())
            if each.is_open and each.server.last_ns is None and each.start.ns < finding.moment.ns
        ]
        others = [
            where
            for where, connections in knowledge.by_endpoint.items()
            if where[0] == finding.endpoint[0] and any(_answers(each, finding.moment.ns) for each in connections)
        ]
        if waiting:
            yield replace(
                diagnosis,
                text=f"{diagnosis.text}; {counted(len(waiting), 'connection')} were established before, but the "
                "program has accepted none of them",
                hint="the queue of the listener is full (ZMQ_BACKLOG): check whether its program hangs or is stopped",
                conn_ids=frozenset(each.conn_id for each in waiting),
            )
        elif others:
            yield replace(
                diagnosis,
                text=f"{diagnosis.text}; {address(others[0])} on the same host answers meanwhile",
                hint="the host is up, and a closed port would be refused: a firewall drops the packets for this "
                "port, or the queue of its listener is full",
            )
        elif diagnosis.subject not in repeated:
            text = f"{_attempts([Tried(finding.endpoint, [finding], [])])}: {ENDED_EARLY}"
            yield replace(diagnosis, text=text, hint=ENDED_EARLY_HINT)
        elif diagnosis.subject in beside:
            yield replace(
                diagnosis,
                text=f"{diagnosis.text}; {beside[diagnosis.subject]} meanwhile",
                hint=f"{diagnosis.hint}, or {IN_TURN_HINT}",
            )
        else:
            yield diagnosis


def _answers(connection: ObservedConnection, ns: int) -> bool:
    """Whether the listener of a connection is alive: it was connected at `ns` or soon after, and sent data later."""
    soon = ns + NOT_ANSWERED.patience
    return connection.start.ns <= soon < (connection.server.last_ns or 0)


BEFORE_A_PROXY = ("handshake-failing", "reconnect-storm")
"""Rules about clients of a proxy that does not reach its server."""

TABLE = (
    Rule(
        "connection-unanswered",
        "error",
        "Connection attempts are not answered",
        "The client sent SYNs, and received neither an answer nor an ICMP message. The host may be down, or a "
        "firewall may drop the SYNs.\n"
        "* If the endpoint serves other clients meanwhile, the diagnosis names them. If another port of the host "
        "answers, it names that port.\n"
        "* If earlier connections were established but received no greeting, the accept queue of the listener is "
        "full.\n"
        "* Not proven if no SYN is repeated. TCP repeats a SYN without an answer after a second, so answers may be "
        "missing from the capture.",
        "* A later attempt of any client succeeds.\n"
        "* Other attempts of the client are rejected by ICMP, or are refused before and after.\n"
        "* The attempts are a port scan.\n"
        "* Only one direction of a connection of the client was captured.",
        _unanswered,
        BEFORE_A_PROXY,
    ),
    Rule(
        "answer-lost",
        "error",
        "The answer to a connection attempt does not reach the client",
        "The listener answered a SYN with SYN and ACK, and the client sent the same SYN again without acknowledging "
        "the answer. So the answers are lost between the capture point and the client: a firewall drops them, or they "
        "take another route.\n"
        "* If the client answers with RST and had given up, the answers arrived too late.\n"
        "* If the client answers with RST but repeats its SYN, it had sent the SYN to another address (NAT).\n"
        "* If the client acknowledges the answer of another address, it had sent the SYN to that address (NAT).",
        "* The client acknowledges the answer, or a later attempt succeeds.\n"
        "* The client sends its SYN only once, as port scanners do.\n"
        "* The client resets only few answers, as health checks do.",
        _answer_lost,
    ),
    Rule(
        "connection-rejected",
        "error",
        "A firewall rejects connections",
        'ICMP messages answered the SYNs of the clients: "administratively prohibited", or "port unreachable", '
        "which no host sends for a closed TCP port. So a firewall sent them. Their source address shows which one.",
        "A later attempt of any client succeeds.",
        in_vain("connection-rejected", NOT_ALLOWED),
        BEFORE_A_PROXY,
    ),
    Rule(
        "host-unreachable",
        "error",
        "A host cannot be reached",
        "ICMP messages answered the SYNs of the clients: host unreachable, network unreachable, or time exceeded. A "
        "router sends them in three cases: the host does not answer ARP, the router has no route, or routes form a "
        "loop.",
        "A later attempt of any client succeeds.",
        in_vain("host-unreachable", NOT_REACHED),
        BEFORE_A_PROXY,
    ),
    Rule(
        "listener-late",
        "note",
        "A client connected long before the listener started",
        "Attempts of a client were refused or not answered for at least a second, and then it connected for the "
        "first time in this capture. Messages published meanwhile were dropped.",
        "The client was connected before in this capture, or waited less than a second.",
        _late,
    ),
)
