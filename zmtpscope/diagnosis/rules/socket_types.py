"""Incompatible peers: socket types that do not fit, duplicate identities, an occupied PAIR."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of
from zmtpscope.diagnosis.across.handshakes import closes_before_ready, rejects_type
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import address, duration, name_of, repeated, server_name, shown
from zmtpscope.diagnosis.diagnosis import MAX_EVIDENCE, Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.durations import median
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, ObservedFinding, ObservedSide
from zmtpscope.diagnosis.rules.from_findings import Met, OfFindings, closed_at_once, diagnoses_of, with_finding
from zmtpscope.grouping import grouped
from zmtpscope.records import MILLISECOND
from zmtpscope.words import listed
from zmtpscope.zmtp.socket_types import may_meet

TOLD = ("ZMTP3X-META-08", "ZMTP20-GREETING-04")
"""Findings in which both sides announced their socket types."""
ONLY_CLOSED = ("NULL-08", "PLAIN-09")
"""Findings in which one side closed without announcing its type."""
HINT = (
    "connect compatible types: PUB with SUB, PUSH with PULL, REQ with REP or ROUTER, DEALER with ROUTER or REP, "
    "PAIR with PAIR; check that the port is the intended one"
)


def _wrong_pairing(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (
        Met(each, finding)
        for each in knowledge.having(*TOLD, *ONLY_CLOSED)
        if (finding := each.finding(*TOLD) or each.finding(*ONLY_CLOSED)) is not None
    )
    for ends, met in grouped((each.connection.ends, each) for each in found).items():
        connection, finding = next((each for each in met if each.finding.id in TOLD), met[0])
        types = [_type_of(knowledge, met, listens) for listens in (True, False)]
        if finding.id not in TOLD and _fit(types) and all(rejects_type(each.connection) for each in met):
            types[1] = None  # the types that fit belong to another program at that address
        if finding.id not in TOLD and (_fit(types) or not _is_closed_by_types(knowledge, met)):
            continue  # it closed for another reason, or its ZAP handler is slow
        yield Diagnosis.of(
            "wrong-pairing",
            "error",
            ends.name,
            _sentence(connection, finding, types) + _repeated(met) + _tenant_before(knowledge, connection, types),
            HINT + _fitting(knowledge, connection, types),
            evidence=(Evidence.of(each) for _, each in met[:MAX_EVIDENCE]),
            about=met,
            explains=(*TOLD, *ONLY_CLOSED, "ZMTP-CONN-08"),
            last_ns=max(each.finding.last_ns for each in met),
            proven=finding.id in TOLD,
        )


AT_ONCE = 10 * MILLISECOND
"""libzmq closes within this time plus the handshake time after an incompatible type."""


def _is_closed_by_types(knowledge: Knowledge, met: list[Met]) -> bool:
    """Whether the side without a known type always closed right after the READY of the other side."""
    late = []
    for connection, finding in met:
        ready = connection.sides[1 - (finding.side or 0)].ready
        if ready is not None:
            late.append(finding.moment.ns - ready.ns - (ready.ns - connection.start.ns))
    could_reject = not any(closes_before_ready(each.connection) for each in met)
    return could_reject and closed_at_once(knowledge, met) and (not late or median(late) <= AT_ONCE)


def _fit(types: list[str | None]) -> bool:
    one, other = types
    return one is not None and other is not None and may_meet(one, other)


def _type_of(knowledge: Knowledge, met: list[Met], listens: bool) -> str | None:
    """Return the socket type of the listener (`listens`) or the client, from these or other connections of the two.

    For a listener, the type at that time counts, because another program may use its port later.
    """
    own = _first_type(each.connection.server if listens else each.connection.client for each in met)
    if own is None and not listens and met[0].finding.id not in TOLD:  # other connections of the client may show it
        return _first_type(each.client for each in knowledge.by_ends[met[0].connection.ends])
    if own is not None or not listens:
        return own
    known = _listening(knowledge)[met[0].connection.endpoint]
    place = bisect_right(known, met[0].connection.start.ns, key=attrgetter("since_ns"))
    return known[max(place - 1, 0)].socket_type if known else None


class Listening(NamedTuple):
    """The socket type of a listener, which a connection shows from `since_ns` on."""

    since_ns: int
    socket_type: str


@once
def _listening(knowledge: Knowledge) -> dict[Endpoint, list[Listening]]:
    """Return the socket types of listeners over time, by endpoint."""
    return {
        endpoint: [
            Listening(each.start.ns, socket_type) for each in connections if (socket_type := each.server.socket_type)
        ]
        for endpoint, connections in knowledge.by_endpoint.items()
    }


def _tenant_before(knowledge: Knowledge, connection: ObservedConnection, types: list[str | None]) -> str:
    """Describe an earlier listener on the port whose type fits the client, or return ""."""
    listening, client = types
    before = next(
        (
            each.socket_type
            for each in reversed(_listening(knowledge)[connection.endpoint])
            if each.since_ns < connection.start.ns and each.socket_type != listening
        ),
        None,
    )
    fits = before is not None and client is not None and may_meet(before, client)
    return f"; {before} listened there before, so another program took the port" if fits else ""


MAX_FITTING = 2


def _fitting(knowledge: Knowledge, connection: ObservedConnection, types: list[str | None]) -> str:
    """Name the other listeners of the host that fit the client, or return ""."""
    _, client = types
    latest = ((endpoint, known[-1].socket_type) for endpoint, known in _listening(knowledge).items() if known)
    found = [
        f"{socket_type} {address(endpoint)}"
        for endpoint, socket_type in latest
        if endpoint[0] == connection.endpoint[0] and client is not None and may_meet(socket_type, client)
    ]
    return f": {listed(found, MAX_FITTING)} would fit" if found else ""


def _first_type(sides: Iterable[ObservedSide]) -> str | None:
    return next((side.socket_type for side in sides if side.socket_type), None)


def _sentence(connection: ObservedConnection, finding: ObservedFinding, types: list[str | None]) -> str:
    if all(types):
        client = connection.client.ip
        return (
            f"{types[1]} of {client} connects to {types[0]} at {address(connection.endpoint)}, and these are "
            "incompatible"
        )
    silent = finding.side or 0
    return (
        f"{name_of(connection, silent)} closes when {name_of(connection, 1 - silent)} announces its type: their "
        "socket types are incompatible"
    )


def _repeated(met: list[Met]) -> str:
    return repeated([each.finding.moment.ns for each in met])


IDENTITY = "ZMTP3X-META-15"


def _identity_collision(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = grouped((_named_client(each.connection), each) for each in with_finding(knowledge, IDENTITY))
    by_identity = grouped((_named_client(each), each) for each in (knowledge.connections if found else ()))
    for (endpoint, identity), met in found.items():
        same = by_identity[endpoint, identity]
        are_both_used = any(sooner.last_ns > later.start.ns for sooner, later in pairwise(same))
        if knowledge.lost_ns and not are_both_used:
            continue  # the capture may have lost the end of each
        ignored, replaced, dead = _ignored(same), _replaced(same), _dead(same)
        text = _who_has(same) + (_who_gets_what(same, ignored) if replaced is None else _who_took_over(replaced))
        hint = "give each client a routing id of its own, or none"
        if dead is not None:
            text, hint = _whose_end_was_missed(dead, ignored), TAKEN_ID
        elif replaced is None:
            hint += "; ZMQ_ROUTER_HANDOVER lets the newer one take over"
        yield Diagnosis.of(
            "identity-collision",
            "error" if ignored else "note" if replaced is not None and _left_for_good(replaced, same) else "warn",
            f"{identity} at {address(endpoint)}",
            text + _repeated(met),
            hint,
            evidence=(Evidence.of(each) for _, each in met[:MAX_EVIDENCE]),
            about=same,
            explains=(IDENTITY,),
            count=len(met),
            last_ns=max(each.finding.last_ns for each in met),
            proven=are_both_used,
        )


def _named_client(connection: ObservedConnection) -> tuple[Endpoint, str]:
    return connection.endpoint, connection.client.identity or ""


TAKEN_ID = (
    "set ZMQ_ROUTER_HANDOVER on the ROUTER, so that a new connection takes over an identity, and ZMQ_HEARTBEAT_IVL, so "
    "that it notices dead connections"
)


def _dead(same: list[ObservedConnection]) -> ObservedConnection | None:
    """Return the first connection that acknowledges no more data while a newer one with the same identity is open, or
    None."""
    for before, after in pairwise(same):
        outage = before.server.last_outage
        if outage is not None and (before.client.last_ns or 0) < after.start.ns < outage.end_ns:
            return before
    return None


def _whose_end_was_missed(dead: ObservedConnection, ignored: list[ObservedConnection]) -> str:
    """Describe a dead connection: `ROUTER 10.0.0.1:5555 still has the connection of "a" from 10.0.0.2:40000, which
    is dead ...`."""
    outage = dead.server.last_outage
    assert outage is not None
    text = (
        f'{server_name(dead)} still has the connection of "{shown(dead.client.identity or "")}" from '
        f"{_host_and_port(dead)}, although its data was not acknowledged for {duration(outage.duration_ns)}"
    )
    if not ignored:
        return f"{text}, and the client has connected again"
    sent = sum(_sent_and_got(each)[0] for each in ignored)
    return (
        f"{text}, and ignores the new one from {_host_and_port(ignored[0])}: it sent {sent} messages and received none"
    )


def _who_has(same: list[ObservedConnection]) -> str:
    hosts = sorted({each.client.ip for each in same})
    first = same[0]
    return (
        f'Two clients are "{shown(first.client.identity or "")}" at {server_name(first)} at the same time, from '
        f"{' and '.join(hosts)}: "
    )


FEW = 2
"""Connections with one identity, if the client was replaced once."""

MIN_ASKED = 3
"""A client that sent fewer messages may still get an answer."""


def _ignored(same: list[ObservedConnection]) -> list[ObservedConnection]:
    """Return the connections whose client sent messages and received none, while another client with the same identity
    did."""
    answered = [each for each in same if _sent_and_got(each)[1]]
    starts = [each.start.ns for each in answered]
    ends = list(accumulate((each.last_ns for each in answered), max))

    def is_beside_answered(connection: ObservedConnection) -> bool:
        begun = bisect_left(starts, connection.last_ns)
        return begun > 0 and ends[begun - 1] > connection.start.ns

    ignored = []
    for each in same:
        sent, got = _sent_and_got(each)
        if sent >= MIN_ASKED and not got and is_beside_answered(each):
            ignored.append(each)
    return ignored


def _replaced(same: list[ObservedConnection]) -> ObservedConnection | None:
    """Return the first connection on which the ROUTER stopped sending when a newer one with the same identity began, or
    None.

    Both must have received messages.
    """
    for before, after in pairwise(same):
        last = before.server.last_ns or 0
        if _sent_and_got(before)[1] and _sent_and_got(after)[1] and last <= after.start.ns < before.last_ns:
            return before
    return None


def _who_took_over(replaced: ObservedConnection) -> str:
    return f"the newer one took over (ZMQ_ROUTER_HANDOVER), and {_host_and_port(replaced)} gets nothing since"


def _left_for_good(replaced: ObservedConnection, same: list[ObservedConnection]) -> bool:
    """Whether a replaced client sent nothing more, closed its connection and did not return: the newer one was started
    to replace it."""
    ending, sent = ending_of(replaced), replaced.client.rhythm
    if ending is None or ending.side == replaced.listener or sent is None or len(same) != FEW:
        return False
    return sent.last.ns < same[-1].start.ns < ending.moment.ns


def _sent_and_got(connection: ObservedConnection) -> tuple[int, int]:
    """Return how many messages the client sent and received on an ended connection; zeros while it is open."""
    if connection.values is None:
        return 0, 0
    client = 1 - connection.listener
    return connection.values[f"messages_{client}"] or 0, connection.values[f"messages_{1 - client}"] or 0


def _who_gets_what(same: list[ObservedConnection], ignored: list[ObservedConnection]) -> str:
    """Describe which client receives messages: `it sends to one of them only: 10.0.0.3 sent 20 messages and got none,
    10.0.0.2 sent 24 and got 24`."""
    told = "it sends to only one of them"
    if not ignored:
        return told
    served = next(each for each in same if _sent_and_got(each)[1])
    sent, got = _sent_and_got(served)
    none = [
        f"{_host_and_port(each)} sent {_sent_and_got(each)[0]} messages and received none"
        for each in ignored[:MAX_EVIDENCE]
    ]
    return f"{told}: {', '.join(none)}, {_host_and_port(served)} sent {sent} and got {got}"


def _host_and_port(connection: ObservedConnection) -> str:
    """Return the client's address, with the port that distinguishes two clients of one host."""
    side = connection.client
    return address((side.ip, side.port))


PAIR_OCCUPIED = OfFindings(
    "pair-occupied",
    "warn",
    ("EXPAIR-01",),
    "{client} connects to {server}, which already has a peer: a PAIR accepts only one, and ignores the second",
    "PAIR connects exactly two peers; use DEALER and ROUTER for more, or close the first connection first",
    is_final=True,
)

TABLE = (
    Rule(
        "wrong-pairing",
        "error",
        "Socket types do not fit",
        "The two sides announced socket types that do not fit together (wire.md 10.6). libzmq closes without ERROR "
        "then, often before it has announced its own type. In this case the diagnosis is only likely, unless another "
        "connection of the two shows both types.",
        "* The types that both sides announce on any connection of the two fit.\n"
        "* The close comes late, or, over a long path, before the type can reach the client.",
        _wrong_pairing,
        ("reconnect-storm", "peer-departed"),
    ),
    Rule(
        "identity-collision",
        "warn",
        "Two clients use one identity",
        "Two clients announced the same identity to one ROUTER, on two connections that were open at the same time.\n"
        "* Severity error if one client sent at least three messages and received none, while the other received "
        "some.\n"
        "* Severity note if the newer client took over, and the older one sent nothing more and left for good.\n"
        "* Not proven if the earlier connection has no packets since the later one opened: it may have ended.\n"
        "A client that reconnects before its old connection is closed looks the same. If data on the old connection "
        "is no longer acknowledged, it is certain: the ROUTER has not noticed that the connection ended.",
        "* The two connections were not open at the same time.\n"
        "* They are one connection that was captured in two places.\n"
        "* The earlier connection is silent, and the capture lost packets.",
        _identity_collision,
        ("client-unanswered", "not-acknowledged"),
    ),
    Rule(
        "pair-occupied",
        "warn",
        "A second peer connects to PAIR",
        "A client connected to a PAIR socket while another connection to it was open.",
        "The first connection to the PAIR ended before the second one began.",
        diagnoses_of((PAIR_OCCUPIED,)),
        ("call-unanswered",),
    ),
)
