"""Replies that are late, or sent without a request."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from zmtpscope.diagnosis.across.hanging import MIN_PATIENCE_NS, Hanging, client_of, given_up, hanging
from zmtpscope.diagnosis.across.hops import Repetitions, last_answered, next_hop, repetitions_of
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.words import duration, name_of
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed import Ends, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequest, ObservedRequests
from zmtpscope.grouping import grouped

LATE, UNASKED = "late-reply", "reply-to-nobody"

LATE_HINT = (
    "wait longer than the slowest reply takes, add workers, and make requests that can be repeated safely; with "
    "ZMQ_REQ_RELAXED also set ZMQ_REQ_CORRELATE, so that late replies are dropped"
)
UNASKED_HINT = "make the server reply exactly once to each request: a REQ drops every other reply silently"


def _late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for same in grouped(_late_replies(knowledge)).values():
        first = same[0]
        more = f" (and {len(same) - 1} times more)" if len(same) > 1 else ""
        yield replace(
            first,
            text=first.text + more,
            conn_ids=frozenset().union(*(each.conn_ids for each in same)),
            explains=frozenset().union(*(each.explains for each in same)),
            count=sum(each.count for each in same),
            last_ns=max(each.last_ns or 0 for each in same),
        )


def _late_replies(knowledge: Knowledge) -> Iterator[tuple[Ends, Diagnosis]]:
    """Yield a diagnosis for each connection with late replies, with its client address and endpoint."""
    for connection in knowledge.connections:
        requests = connection.requests
        is_late = requests is not None and (requests.late is not None or requests.are_displaced)
        if requests is not None and is_late and connection.is_whole:
            yield client_of(connection, requests), _late_on(connection, requests)
    told = {each.conn_id for client in given_up(knowledge) for each in client.requests}
    for each in hanging(knowledge):
        is_told = each.was_left or each.conn_id in told
        diagnosis = None if is_told else _late_for(each, knowledge)
        if diagnosis is not None:
            yield each.client, diagnosis


def _late_on(connection: ObservedConnection, requests: ObservedRequests) -> Diagnosis:
    """Return the diagnosis of replies that arrived after a REQ had repeated its request on the same connection."""
    late, takes_late = requests.late or requests.abandoned, requests.takes_late or requests.are_displaced
    assert late is not None
    asker, asked = name_of(connection, requests.asker), name_of(connection, 1 - requests.asker)
    count = requests.counts["unasked"] if requests.late is None else requests.late_count
    times = f", {count} times" if count > 1 else ""
    text = f"{asked} answers late: {asker} had repeated its request before the reply to the one in packet "
    taken = f"; {asker} reads each late reply as the answer to its next request" if takes_late else ""
    evidence = (Evidence(late.moment, "the request that was answered late", late.ref),)
    return _late_reply(connection, asked, f"{text}{late.moment.packet} came{times}{taken}", evidence, count)


def _late_for(waiting: Hanging, knowledge: Knowledge) -> Diagnosis | None:
    """Diagnose a client that closed its connection with a pending request, and repeated the request on a new one; or
    return None.

    None also if the repeated request has no reply, if a broker passed it on without a reply, or if the client may have
    sent it before it was connected.
    """
    if waiting.ending is None or waiting.waited < MIN_PATIENCE_NS:
        return None
    again = repetitions_of(waiting.oldest, waiting.oldest.ns, knowledge)
    if not again.is_answered or _may_have_waited(waiting, again, knowledge):
        return None
    oldest = waiting.oldest.request
    hop = next_hop(waiting.oldest, knowledge)
    if hop is not None and not hop.is_answered:
        return None
    took = ""
    if hop is not None and hop.connection.requests is not None and hop.connection.requests.longest:
        latency, longest = hop.connection.requests.longest[0]
        if longest.ref == hop.request.ref:
            worker = name_of(hop.connection, 1 - hop.asker)
            took = f"; {worker} took {duration(latency)}, and its reply had no receiver"
    times = "" if again.times == 1 else f" {again.times} times"
    or_lost = "" if hop is not None or _answers_in_turn(waiting) else "it was lost, or "
    text = (
        f"{waiting.client_name} gives up {duration(waiting.waited)} after its request in packet "
        f"{oldest.moment.packet}, and asks {waiting.server_name} the same again{times} with a new "
        f"socket: {or_lost}the reply takes longer{took}"
    )
    evidence = (
        Evidence(oldest.moment, "the request", oldest.ref),
        *(Evidence(each.request.moment, "the same again", each.request.ref) for each in again.first),
    )
    return _late_reply(waiting.connection, waiting.server_name, text, evidence, again.times)


def _answers_in_turn(waiting: Hanging) -> bool:
    """Whether the server had to reply to the request before a later one, as a REP does."""
    return waiting.connection.sides[1 - waiting.requests.asker].socket_type == "REP"


def _may_have_waited(waiting: Hanging, again: Repetitions, knowledge: Knowledge) -> bool:
    """Whether the request may have waited in the client until a connection attempt succeeded, for as long as the reply
    took."""
    connection, asker = waiting.connection, waiting.requests.asker
    ready = connection.sides[1 - asker].ready
    if ready is None or waiting.oldest.ns - ready.ns > MIN_PATIENCE_NS:
        return False
    before, start = last_answered(waiting.oldest, knowledge), connection.start.ns
    ends = Ends(connection.sides[asker].ip, connection.endpoint)
    attempts = sorted(each.moment.ns for each in knowledge.findings_by_ends.get(ends, ()))
    place = bisect_right(attempts, before)
    first = attempts[place] if place < len(attempts) and attempts[place] < start else None
    requests = (each.connection.requests for each in again.first)
    took = max((each.latency.most or 0 for each in requests if each is not None), default=0)
    return first is not None and waiting.until - first >= took


def _late_reply(
    connection: ObservedConnection, asked: str, text: str, evidence: tuple[Evidence, ...], count: int
) -> Diagnosis:
    return Diagnosis.of(
        LATE,
        "warn",
        asked,
        text,
        LATE_HINT,
        evidence=evidence,
        about=(connection,),
        explains=("REQREP-02", "REQREP-06"),
        count=count,
        last_ns=evidence[-1].moment.ns,
    )


# -- unrequested replies -----------------------------------------------------------------------------------------------


class Unasked(NamedTuple):
    """A connection with replies that belong to no request; `reply` is the first."""

    connection: ObservedConnection
    requests: ObservedRequests
    reply: ObservedRequest


def _unasked(knowledge: Knowledge) -> Iterator[Diagnosis]:
    found = (
        Unasked(each, requests, requests.unasked)
        for each in knowledge.connections
        if (requests := each.requests) is not None
        and requests.unasked is not None
        and not requests.are_displaced
        and each.is_whole
    )
    for same in grouped((each.connection.endpoint, each) for each in found).values():
        first, requests, reply = same[0]
        count = sum(each.requests.counts["unasked"] for each in same)
        asked, asker = name_of(first, 1 - requests.asker), name_of(first, requests.asker)
        times = f", {count} times" if count > 1 else ""
        yield Diagnosis.of(
            UNASKED,
            "warn",
            asked,
            f"{asked} replies to {asker} in packet {reply.moment.packet} although it has no pending request{times}: "
            "the reply is dropped",
            UNASKED_HINT,
            evidence=(Evidence(reply.moment, "the reply", reply.ref),),
            about=same,
            explains=("REQREP-04",),
            count=count,
        )


TABLE = (
    Rule(
        LATE,
        "warn",
        "A reply arrives after the client gave up",
        "A client gave up a request too early: the server replied later, or replied when the request was repeated. "
        "Two cases are reported:\n"
        "* The client closed its connection with a pending request, sent the same request on a new connection, and "
        "received a reply there. libzmq drops a reply to a closed connection, so usually only the second request is "
        "visible.\n"
        "* A REQ repeated its request on the same connection before the reply arrived (ZMQ_REQ_RELAXED).\n"
        "Requests are compared by size, and by their content as far as it is kept.",
        "* The repeated request has no reply either.\n"
        "* The connection was not captured completely.\n"
        "* The client may have had to wait for its connection: it sent the request when it connected after failed "
        "attempts, or sent both requests within 10 ms.",
        _late,
        consequences=("request-unanswered",),
    ),
    Rule(
        UNASKED,
        "warn",
        "A reply has no request",
        "A REP, or a peer of a REQ, sent a reply although no request was pending on the connection. A REQ drops such "
        "a reply. Messages without an envelope between ROUTER and DEALER are no replies.",
        "* A request is pending on the connection.\n"
        "* The REQ had repeated its request before the reply came.\n"
        "* The connection was not captured completely.",
        _unasked,
    ),
)
