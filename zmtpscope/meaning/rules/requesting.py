"""Requests that hang, are lost or answered too late, and replies to nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from zmtpscope.findings.kinds import Severity
from zmtpscope.meaning.diagnosis import LIKELY, PROVEN, Diagnosis, Evidence, Rule
from zmtpscope.meaning.distribution import Distribution
from zmtpscope.meaning.endings import Ending, ending_of
from zmtpscope.meaning.hops import Asked, answered_later, asked_again, next_hop
from zmtpscope.meaning.knowledge import Endpoint, Knowledge
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observed import ObservedConnection
from zmtpscope.meaning.observed_requests import ObservedRequests
from zmtpscope.meaning.words import duration, name_of, steady
from zmtpscope.records import SECOND

UNANSWERED, LOST, LATE, UNASKED = "request-unanswered", "request-lost", "late-reply", "reply-to-nobody"

LONG_NS = SECOND
"""A request that waits for less may still be answered ..."""
MANY_TIMES = 3
"""... and so it may where it waits for less than so many times the longest that was answered at the endpoint."""

GIVEN_UP_PART = 0.9
"""Of the requests of a client that has a time-out that is too short, so many are given up at least, ..."""
LEAST_PATIENCE_NS = SECOND // 100
"""... each after so long: who closes sooner does not want a reply."""

MOST_EVIDENCE = 3

STUCK = (
    "its REQ may neither send nor receive until then: poll with a time-out and make a new socket (lazy pirate), or set "
    "ZMQ_REQ_RELAXED and ZMQ_REQ_CORRELATE"
)
LOST_HINT = "a request does not survive its connection: " + STUCK
NO_REPLY = "see what the one who is asked does with this request: it hangs, failed, or forgot to reply; for who asks, "
GIVEN_UP_HINT = (
    "the server takes longer than the client waits, or hangs: see how long it works on such a request, and let the "
    "client wait longer than that; what it asks on a new connection waits behind all that it asked before"
)
LATE_HINT = (
    "wait longer than the slowest reply takes, let more workers share the work, and make requests that may be asked "
    "twice; with ZMQ_REQ_RELAXED set ZMQ_REQ_CORRELATE, too, so that late replies are dropped"
)
UNASKED_HINT = "see that the server replies once to each request: a REQ drops every other reply without a word"


class Hanging(NamedTuple):
    """A connection on which requests wait, and until when they did; `ending`: it was closed."""

    connection: ObservedConnection
    requests: ObservedRequests
    until: int
    ending: Ending | None

    @property
    def oldest(self) -> Asked:
        """The one that waits longest."""
        return Asked(self.connection, self.requests.waiting[0])

    @property
    def waited(self) -> int:
        """How long that is (ns)."""
        return self.until - self.oldest.request.moment.ns

    @property
    def asker(self) -> str:
        """Who asks."""
        return name_of(self.connection, self.requests.asker)

    @property
    def asked(self) -> str:
        """Who is asked."""
        return name_of(self.connection, 1 - self.requests.asker)


def _hanging(knowledge: Knowledge) -> list[Hanging]:
    """All connections, captured whole, with requests that wait where they or their capture end."""
    found = []
    for connection in knowledge.connections:
        requests = connection.requests
        if requests is not None and requests.waiting and connection.is_whole:
            ending = ending_of(connection)
            if ending is None and not connection.is_open:
                continue
            until = knowledge.last_ns if ending is None else ending.moment.ns
            found.append(Hanging(connection, requests, until, ending))
    return found


# -- no reply ----------------------------------------------------------------------------------------------------------


def _unanswered(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """One for each endpoint, of those requests that nobody behind a broker has, either."""
    usual = _latencies(knowledge)
    lost_behind = {client.connection.conn_id for clients in _behind_lost(knowledge).values() for client in clients}
    long_ = [
        each
        for each in _hanging(knowledge)
        if each.waited >= max(LONG_NS, MANY_TIMES * (usual[each.connection.endpoint].most or 0))
        and not _was_lost(each)
        and not _was_asked_again(each, knowledge)
        and not _may_be_worker(each, knowledge)
        and each.connection.conn_id not in lost_behind
    ]
    behind: dict[str, list[Hanging]] = {}
    by_connection = {each.connection.conn_id: each for each in long_}
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
        clients = [client for each in same for client in behind.get(each.connection.conn_id, ())]
        yield _no_reply(same, clients, usual[endpoint])
    for client in _given_up(knowledge):
        if not any(each.connection.conn_id in by_connection for each in client.requests):
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
    is_certain = _is_certain(worst)
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
        frozenset(each.connection.conn_id for each in everybody),
        frozenset((each.connection.conn_id, "REQREP-06") for each in everybody),
    )


class GivenUp(NamedTuple):
    """A client that gives its requests up, each on a connection of its own, after the same time (`usual`, ns)."""

    requests: Sequence[Hanging]
    usual: int
    answered: int
    """How many of its others were."""


def _given_up(knowledge: Knowledge) -> list[GivenUp]:
    """Of each REQ at an endpoint that closes nearly all its connections itself while it waits."""
    closed: dict[tuple[Endpoint, str], list[Hanging]] = {}
    for each in _hanging(knowledge):
        is_own = each.ending is not None and each.ending.side == each.requests.asker
        if is_own and each.requests.is_lock_step and each.waited >= LEAST_PATIENCE_NS:
            closed.setdefault(_pair(each.connection, each.requests), []).append(each)
    found = []
    for (endpoint, ip), same in closed.items():
        usual = steady([each.waited for each in same])
        answered = sum(
            other.requests.latency.count
            for other in knowledge.by_endpoint[endpoint]
            if other.requests is not None and other.sides[other.requests.asker].ip == ip
        )
        is_most = len(same) >= max(MANY_TIMES, GIVEN_UP_PART * (len(same) + answered))
        if usual is not None and is_most and not _may_be_worker(same[0], knowledge):
            found.append(GivenUp(same, usual, answered))
    return found


def _too_short(client: GivenUp) -> Diagnosis:
    """Nearly all that a client asks is given up."""
    same = client.requests
    first = same[0]
    is_certain = _is_certain(first)
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
        frozenset(each.connection.conn_id for each in same),
        frozenset((each.connection.conn_id, "REQREP-06") for each in same),
    )


def _latencies(knowledge: Knowledge) -> dict[Endpoint, Distribution]:
    found: dict[Endpoint, Distribution] = {}
    for connection in knowledge.connections:
        if connection.requests is not None:
            found.setdefault(connection.endpoint, Distribution()).merge(connection.requests.latency)
    return found


def _is_certain(hanging: Hanging) -> bool:
    """Whether a reply is owed: a REP gives one, and who has replied to a REQ before does so again."""
    is_rep = hanging.connection.sides[1 - hanging.requests.asker].socket_type == "REP"
    return is_rep or (hanging.requests.is_lock_step and hanging.requests.latency.count > 0)


def _was_lost(hanging: Hanging) -> bool:
    """Whether who was asked has left."""
    return hanging.ending is not None and hanging.ending.side != hanging.requests.asker


def _was_asked_again(hanging: Hanging, knowledge: Knowledge) -> bool:
    again = asked_again(hanging.oldest, hanging.oldest.request.moment.ns, knowledge)
    return hanging.ending is not None and any(_is_answered(each) for each in again)


def _may_be_worker(hanging: Hanging, knowledge: Knowledge) -> bool:
    """Whether the REQ may have said that it is ready, and waits for work: others at its ROUTER do, or none of them all
    has had a reply."""
    connection = hanging.connection
    if hanging.requests.latency.count or connection.sides[1 - hanging.requests.asker].socket_type != "ROUTER":
        return False
    return any(
        other.requests is not None and other.sides[other.requests.asker].socket_type == "ROUTER"
        for other in knowledge.by_endpoint[connection.endpoint]
    )


def _is_answered(asked: Asked) -> bool:
    requests = asked.connection.requests
    return requests is not None and asked.request.ref not in {each.ref for each in requests.waiting}


# -- lost --------------------------------------------------------------------------------------------------------------


def _lost(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Two for each endpoint at most: of requests that nobody made up for, and of those that were."""
    lost: dict[Endpoint, list[Hanging]] = {}
    made_up_for: dict[Endpoint, list[tuple[Hanging, Asked]]] = {}
    behind = _behind_lost(knowledge)
    for each in _hanging(knowledge):
        if not _was_lost(each):
            continue
        again = _made_up_for(each, behind, knowledge)
        if again is not None:
            made_up_for.setdefault(each.connection.endpoint, []).append((each, again))
        elif not asked_again(each.oldest, each.until, knowledge):
            lost.setdefault(each.connection.endpoint, []).append(each)
    for same in lost.values():
        yield _lost_for_ever(same, behind)
    for same_again in made_up_for.values():
        yield _lost_for_a_while(same_again, behind)


def _behind_lost(knowledge: Knowledge) -> dict[str, list[Hanging]]:
    """Those whose request a broker handed on to somebody who left with it, by the connection that was left."""
    hanging = _hanging(knowledge)
    lost = {each.connection.conn_id: each for each in hanging if _was_lost(each)}
    behind: dict[str, list[Hanging]] = {}
    for each in hanging if lost else ():
        hop = None if _was_lost(each) else next_hop(each.oldest, knowledge)
        if hop is not None and hop.connection.conn_id in lost and not _is_answered(hop):
            behind.setdefault(hop.connection.conn_id, []).append(each)
    return behind


def _made_up_for(hanging: Hanging, behind: Mapping[str, Sequence[Hanging]], knowledge: Knowledge) -> Asked | None:
    """What its REQ, or that of a client behind the broker, asked later and got. Who is no REQ may ask anything while
    its request is lost."""
    waiting = [each for each in (*behind.get(hanging.connection.conn_id, ()), hanging) if each.requests.is_lock_step]
    found = (answered_later(each.oldest, hanging.until, knowledge) for each in waiting)
    return next((each for each in found if each is not None), None)


def _lost_for_ever(same: Sequence[Hanging], behind: Mapping[str, Sequence[Hanging]]) -> Diagnosis:
    first = same[0]
    count = sum(each.requests.waiting_count for each in same)
    clients = [client for each in same for client in behind.get(each.connection.conn_id, ())]
    stuck = ": its REQ waits for ever" if first.requests.is_lock_step else ""
    more = f" (and {count - 1} more requests)" if count > 1 else ""
    is_certain = _is_certain(first)
    return Diagnosis(
        LOST,
        "error" if is_certain else "warn",
        first.asked,
        f"{_left(first, clients)}{more}, and nobody asked again: the reply will not come{stuck}",
        LOST_HINT,
        tuple(
            Evidence(each.oldest.request.moment, f"the request of {each.asker}", each.oldest.request.ref)
            for each in (*same, *clients)[:MOST_EVIDENCE]
        ),
        count,
        max(each.until for each in same),
        PROVEN if is_certain else LIKELY,
        frozenset(each.connection.conn_id for each in (*same, *clients)),
        frozenset((each.connection.conn_id, "REQREP-06") for each in (*same, *clients)),
    )


def _lost_for_a_while(same: Sequence[tuple[Hanging, Asked]], behind: Mapping[str, Sequence[Hanging]]) -> Diagnosis:
    first, again = same[0]
    clients = [client for each, _ in same for client in behind.get(each.connection.conn_id, ())]
    everybody = [*(each for each, _ in same), *clients]
    later = again.request.moment.ns - first.until
    who = name_of(again.connection, again.asker)
    times = f" (and {len(same) - 1} times more)" if len(same) > 1 else ""
    return Diagnosis(
        LOST,
        "note",
        first.asked,
        f"{_left(first, clients)}; {duration(later)} later {who} asked again and was answered{times}",
        "see why it left: " + LOST_HINT,
        (
            Evidence(first.oldest.request.moment, f"the request of {first.asker}", first.oldest.request.ref),
            Evidence(again.request.moment, "what was asked again, and answered", again.request.ref),
        ),
        len(same),
        max(each.until for each, _ in same),
        PROVEN,
        frozenset(each.connection.conn_id for each in everybody),
        frozenset((each.connection.conn_id, "REQREP-06") for each in everybody),
    )


def _left(hanging: Hanging, clients: Sequence[Hanging]) -> str:
    """Who left with whose request, in words; `clients` wait for the same behind a broker."""
    for_whom = f" (for {clients[0].asker}, which asked {clients[0].asked})" if clients else ""
    return (
        f"{hanging.asked} left {duration(hanging.waited)} after {hanging.asker} had asked it in packet "
        f"{hanging.oldest.request.moment.packet}{for_whom}"
    )


# -- late --------------------------------------------------------------------------------------------------------------


def _late(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """One for each endpoint and who asks there."""
    found: dict[tuple[Endpoint, str], list[Diagnosis]] = {}
    for connection in knowledge.connections:
        requests = connection.requests
        if requests is not None and requests.late is not None and connection.is_whole:
            found.setdefault(_pair(connection, requests), []).append(_late_on(connection, requests))
    given_up = {each.connection.conn_id for client in _given_up(knowledge) for each in client.requests}
    for each in _hanging(knowledge):
        is_told = _was_lost(each) or each.connection.conn_id in given_up
        diagnosis = None if is_told else _late_for(each, knowledge)
        if diagnosis is not None:
            found.setdefault(_pair(each.connection, each.requests), []).append(diagnosis)
    for same in found.values():
        first = same[0]
        more = f" (and {len(same) - 1} times more)" if len(same) > 1 else ""
        yield Diagnosis(
            LATE,
            "warn",
            first.subject,
            first.text + more,
            LATE_HINT,
            first.evidence,
            sum(each.count for each in same),
            max(each.last_ns or 0 for each in same),
            conn_ids=frozenset().union(*(each.conn_ids for each in same)),
            explains=frozenset().union(*(each.explains for each in same)),
        )


def _late_on(connection: ObservedConnection, requests: ObservedRequests) -> Diagnosis:
    """Replies came when a REQ had asked anew on the same connection."""
    assert requests.late is not None
    asker, asked = name_of(connection, requests.asker), name_of(connection, 1 - requests.asker)
    count = requests.counts["late"]
    times = f", {count} times" if count > 1 else ""
    text = f"{asked} answers late: {asker} had asked anew before the reply to its request in packet "
    evidence = (Evidence(requests.late.moment, "the request that was answered late", requests.late.ref),)
    return _late_reply(connection, asked, f"{text}{requests.late.moment.packet} came{times}", evidence, count)


def _late_for(hanging: Hanging, knowledge: Knowledge) -> Diagnosis | None:
    """A client closed its socket while it waited, and asked the same on a new one."""
    if hanging.ending is None:
        return None
    again = asked_again(hanging.oldest, hanging.oldest.request.moment.ns, knowledge)
    if not any(_is_answered(each) for each in again):
        return None
    oldest = hanging.oldest.request
    hop = next_hop(hanging.oldest, knowledge)
    took = ""
    if hop is not None and hop.connection.requests is not None and hop.connection.requests.longest is not None:
        latency, longest = hop.connection.requests.longest
        if longest.ref == hop.request.ref:
            worker = name_of(hop.connection, 1 - hop.asker)
            took = f"; {worker} took {duration(latency)}, and its reply found nobody"
    times = "" if len(again) == 1 else f" {len(again)} times"
    text = (
        f"{hanging.asker} gives up {duration(hanging.waited)} after its request in packet {oldest.moment.packet}, and "
        f"asks {hanging.asked} the same again{times} with a new socket: the reply would have come later{took}"
    )
    evidence = (
        Evidence(oldest.moment, "the request", oldest.ref),
        *(Evidence(each.request.moment, "the same again", each.request.ref) for each in again[: MOST_EVIDENCE - 1]),
    )
    return _late_reply(hanging.connection, hanging.asked, text, evidence, len(again))


def _late_reply(
    connection: ObservedConnection, asked: str, text: str, evidence: tuple[Evidence, ...], count: int
) -> Diagnosis:
    explained = frozenset((connection.conn_id, id_) for id_ in ("REQREP-02", "REQREP-06"))
    conn_ids = frozenset({connection.conn_id})
    last = evidence[-1].moment.ns
    return Diagnosis(LATE, "warn", asked, text, LATE_HINT, evidence, count, last, PROVEN, conn_ids, explained)


def _pair(connection: ObservedConnection, requests: ObservedRequests) -> tuple[Endpoint, str]:
    return connection.endpoint, connection.sides[requests.asker].ip


# -- to nobody ---------------------------------------------------------------------------------------------------------


def _unasked(knowledge: Knowledge) -> Iterator[Diagnosis]:
    by_endpoint: dict[Endpoint, list[ObservedConnection]] = {}
    for connection in knowledge.connections:
        if connection.requests is not None and connection.requests.unasked is not None and connection.is_whole:
            by_endpoint.setdefault(connection.endpoint, []).append(connection)
    for same in by_endpoint.values():
        first = same[0]
        requests = first.requests
        assert requests is not None
        assert requests.unasked is not None
        count = sum(each.requests.counts["unasked"] for each in same if each.requests is not None)
        asked, asker = name_of(first, 1 - requests.asker), name_of(first, requests.asker)
        times = f", {count} times" if count > 1 else ""
        moment: Moment = requests.unasked.moment
        yield Diagnosis(
            UNASKED,
            "warn",
            asked,
            f"{asked} replies to {asker} in packet {moment.packet} though no request of it is open{times}: the reply "
            "is dropped",
            UNASKED_HINT,
            (Evidence(moment, "the reply", requests.unasked.ref),),
            count,
            conn_ids=frozenset(each.conn_id for each in same),
            explains=frozenset((each.conn_id, "REQREP-04") for each in same),
        )


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
    Rule(
        LOST,
        "error",
        "A server leaves with a request open",
        "The side that was asked closed the connection first, before it replied, and the client did not send the same "
        "again on a new connection. libzmq does not repeat requests: a REQ that is not relaxed waits for ever. A note "
        "where a REQ of the same address asked anything at the endpoint on a later connection and was answered. Where "
        "a broker handed the request on, the client that waits for it is named.",
        _lost,
        consequences=(UNANSWERED, "peer-departed"),
    ),
    Rule(
        LATE,
        "warn",
        "A reply comes when the client has given up",
        "A client closed its connection with a request open, sent the same on a new one and was answered there; or a "
        "REQ asked anew on the same connection before the reply came (ZMQ_REQ_RELAXED). That it is the same request is "
        "told by its octets, as far as these are kept, and sizes. A reply to a connection that is gone is dropped by "
        "libzmq before it is sent, so mostly only the second request is seen.",
        _late,
        consequences=(UNANSWERED,),
    ),
    Rule(
        UNASKED,
        "warn",
        "A reply goes to nobody",
        "A REP, or who answers a REQ, sent a message with an envelope for which no request was open on a connection "
        "that was captured whole. A REQ drops such replies. Plain messages between ROUTER and DEALER are no replies.",
        _unasked,
    ),
)
