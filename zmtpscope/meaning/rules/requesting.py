"""Requests that have no reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zmtpscope.findings.kinds import Severity
from zmtpscope.meaning.diagnosis import LIKELY, PROVEN, Diagnosis, Evidence, Rule
from zmtpscope.meaning.distribution import Distribution
from zmtpscope.meaning.hanging import GivenUp, Hanging, behind_lost, given_up, hanging, may_be_worker
from zmtpscope.meaning.hops import asked_again, next_hop
from zmtpscope.meaning.knowledge import Endpoint, Knowledge
from zmtpscope.meaning.words import duration
from zmtpscope.records import SECOND

UNANSWERED = "request-unanswered"

LONG_NS = SECOND
"""A request that waits for less may still be answered ..."""
MANY_TIMES = 3
"""... and so it may where it waits for less than so many times the longest that was answered at the endpoint."""

MOST_EVIDENCE = 3

STUCK = (
    "its REQ may neither send nor receive until then: poll with a time-out and make a new socket (lazy pirate), or set "
    "ZMQ_REQ_RELAXED and ZMQ_REQ_CORRELATE"
)
NO_REPLY = "see what the one who is asked does with this request: it hangs, failed, or forgot to reply; for who asks, "
GIVEN_UP_HINT = (
    "the server takes longer than the client waits, or hangs: see how long it works on such a request, and let the "
    "client wait longer than that; what it asks on a new connection waits behind all that it asked before"
)


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """One for each endpoint, of those requests that nobody behind a broker has, either."""
    usual = _latencies(knowledge)
    lost_behind = {client.conn_id for clients in behind_lost(knowledge).values() for client in clients}
    long_ = [
        each
        for each in hanging(knowledge)
        if each.waited >= max(LONG_NS, MANY_TIMES * (usual[each.connection.endpoint].most or 0))
        and not each.was_left
        and not _was_asked_again(each, knowledge)
        and not may_be_worker(each, knowledge)
        and each.conn_id not in lost_behind
    ]
    behind: dict[str, list[Hanging]] = {}
    by_connection = {each.conn_id: each for each in long_}
    causes = []
    for each in long_:
        hop = next_hop(each.oldest, knowledge)
        if hop is not None and hop.connection.conn_id in by_connection:
            behind.setdefault(hop.connection.conn_id, []).append(each)
        else:
            causes.append(each)
    by_endpoint: dict[Endpoint, list[Hanging]] = {}
    for each in causes:
        by_endpoint.setdefault(each.connection.endpoint, []).append(each)
    for endpoint, same in by_endpoint.items():
        clients = [client for each in same for client in behind.get(each.conn_id, ())]
        yield _no_reply(same, clients, usual[endpoint])
    for client in given_up(knowledge):
        if not any(each.conn_id in by_connection for each in client.requests):
            yield _too_short(client)


def _no_reply(same: Sequence[Hanging], clients: Sequence[Hanging], usual: Distribution) -> Diagnosis:
    """Requests at one endpoint that wait; `clients` wait for the same behind a broker."""
    worst = max(same, key=lambda each: each.waited)
    oldest = worst.oldest.request
    count = sum(each.requests.waiting_count for each in same)
    for_whom = f" (for {clients[0].asker}, which asked {clients[0].asked})" if clients else ""
    state = "waits for" if worst.ending is None else "waited in vain for"
    left = "" if worst.ending is None else f", until {worst.asker} closed the connection"
    more = f"; {count - 1} more wait" if count > 1 else ""
    if usual.median is None:
        before = "; it answered none"
    else:
        before = f"; {usual.count} before were answered, median {duration(usual.median)}"
    is_certain = worst.is_owed
    severity: Severity = "error" if is_certain else "warn"
    everybody = [*same, *clients]
    return Diagnosis(
        UNANSWERED,
        severity,
        worst.asked,
        f"{worst.asked} does not reply to {worst.asker}{for_whom}: the request in packet {oldest.moment.packet} "
        f"{state} {duration(worst.waited)}{left}{more}{before}",
        NO_REPLY + STUCK,
        tuple(
            Evidence(each.oldest.request.moment, f"the request of {each.asker}", each.oldest.request.ref)
            for each in everybody[:MOST_EVIDENCE]
        ),
        count,
        max(each.until for each in same),
        PROVEN if is_certain else LIKELY,
        frozenset(each.conn_id for each in everybody),
        frozenset((each.conn_id, "REQREP-06") for each in everybody),
    )


def _too_short(client: GivenUp) -> Diagnosis:
    """Nearly all that a client asks is given up."""
    same = client.requests
    first = same[0]
    is_certain = first.is_owed
    answered = f"only {client.answered} answered" if client.answered else "none was answered"
    return Diagnosis(
        UNANSWERED,
        "error" if is_certain else "warn",
        first.asked,
        f"{first.asker} gives up {len(same)} of {len(same) + client.answered} requests to {first.asked}, each after "
        f"{duration(client.usual)} (usual): {answered}",
        GIVEN_UP_HINT,
        tuple(
            Evidence(
                each.oldest.request.moment,
                f"a request of {each.asker}, given up after {duration(each.waited)}",
                each.oldest.request.ref,
            )
            for each in same[:MOST_EVIDENCE]
        ),
        len(same),
        max(each.until for each in same),
        PROVEN if is_certain else LIKELY,
        frozenset(each.conn_id for each in same),
        frozenset((each.conn_id, "REQREP-06") for each in same),
    )


def _latencies(knowledge: Knowledge) -> dict[Endpoint, Distribution]:
    found: dict[Endpoint, Distribution] = {}
    for connection in knowledge.connections:
        if connection.requests is not None:
            found.setdefault(connection.endpoint, Distribution()).merge(connection.requests.latency)
    return found


def _was_asked_again(waiting: Hanging, knowledge: Knowledge) -> bool:
    return waiting.ending is not None and asked_again(waiting.oldest, waiting.oldest.ns, knowledge).is_answered


TABLE = (
    Rule(
        UNANSWERED,
        "error",
        "A request has no reply",
        "A REQ, or who speaks to a REP or sends envelopes, asked and got no reply until the capture or its connection "
        "ended, for a second at least and three times as long as any reply at this endpoint took. Proven where a REP "
        "is asked, or a REQ that was answered before; else likely. Where a broker handed the request on, the one "
        "behind it is named. Also where a REQ closes its connection itself with the request open, after the same time "
        "at least three times, and a tenth of its requests at most was answered: its time-out is too short, or the "
        "server hangs. What the program does with the request, and whether the reply would have come later, no "
        "capture shows. A REQ that waits for work of its broker is no hanging request.",
        _unanswered,
    ),
)
