"""Requests that have no reply when their connection or the capture ends, and workers that left meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import Ending, end_of, ending_of
from zmtpscope.diagnosis.across.hops import SentRequest, answered_later, next_hop, relayed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.words import duration, name_of, steady
from zmtpscope.diagnosis.observers.durations import Distribution
from zmtpscope.diagnosis.observers.observed import Endpoint, Ends, ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequest, ObservedRequests
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

LONG_NS = SECOND
"""Age (ns) below which a request may still get a reply."""
MANY_TIMES = 3
"""A request that has waited for less than this multiple of the longest latency at its endpoint may still get a
reply."""

MIN_OTHERS = 3
"""Number of other replies that show the usual latency of an endpoint."""

CLOCK_STEP = 600 * SECOND
"""Minimum latency (ns) that may be a step of the clock."""
MAX_SLOW = 64

GIVEN_UP_PART = 0.9
"""Share of its requests that a client with a short time-out gives up."""
MIN_GIVEN_UP = 3
MIN_PATIENCE_NS = SECOND // 100
"""A client that closes sooner does not want a reply."""
MIN_SILENCE_NS = 3 * SECOND
"""A REP that answers nothing while a client waits for this long in total hangs."""


class Hanging(NamedTuple):
    """A connection with unanswered requests.

    They waited until `until` (ns): the end of the connection, described by `ending`, or of the capture (`ending` is
    None).
    """

    connection: ObservedConnection
    requests: ObservedRequests
    until: int
    ending: Ending | None

    @property
    def conn_id(self) -> str:
        return self.connection.conn_id

    @property
    def oldest(self) -> SentRequest:
        return SentRequest(self.connection, self.requests.waiting[0])

    @property
    def waited(self) -> int:
        """Time (ns) that the oldest request waited."""
        return self.until - self.oldest.ns

    @property
    def client_name(self) -> str:
        return name_of(self.connection, self.requests.asker)

    @property
    def server_name(self) -> str:
        return name_of(self.connection, 1 - self.requests.asker)

    @property
    def client(self) -> Ends:
        return client_of(self.connection, self.requests)

    @property
    def was_left(self) -> bool:
        return self.ending is not None and self.ending.side != self.requests.asker

    @property
    def was_given_up(self) -> bool:
        is_own = self.ending is not None and not self.was_left and self.requests.is_lock_step
        return is_own and not self.is_unacknowledged and self.waited >= MIN_PATIENCE_NS

    @property
    def is_unacknowledged(self) -> bool:
        """Whether TCP repeated the oldest request and got no acknowledgment: the server may not have received it."""
        lost = self.connection.sides[self.requests.asker].last_outage
        if lost is None:
            return False
        end = self.requests.waiting[0].end
        return end < 0 or end > lost.offset

    @property
    def was_cut(self) -> bool:
        return self.ending is not None and self.ending.cause == "middlebox"

    @property
    def is_to_rep(self) -> bool:
        return self.connection.sides[1 - self.requests.asker].socket_type == "REP"

    @property
    def is_owed(self) -> bool:
        """Whether the server must reply by its socket type: it is a REP, or it replied before to a REQ (a client or a
        worker)."""
        if self.requests.is_guessed:
            return False
        server_type = self.connection.sides[1 - self.requests.asker].socket_type
        return self.is_to_rep or (
            self.requests.latency.count > 0 and (self.requests.is_lock_step or server_type == "REQ")
        )


def client_of(connection: ObservedConnection, requests: ObservedRequests) -> Ends:
    return Ends(connection.sides[requests.asker].ip, connection.endpoint)


@once
def hanging(knowledge: Knowledge) -> list[Hanging]:
    """Return all complete connections that have unanswered requests when they or the capture end.

    A connection with a reply that lacks the id of its request is skipped: its requests wait for another reason.
    """
    found = []
    for connection in knowledge.connections:
        requests = connection.requests
        if requests is None or not requests.waiting or requests.without_id is not None:
            continue
        if connection.is_whole or (requests.is_guessed and connection.is_unbroken):
            ending = ending_of(connection)
            if ending is None and not connection.is_open:
                continue
            found.append(Hanging(connection, requests, end_of(connection, knowledge.last_ns), ending))
    return found


@once
def latencies(knowledge: Knowledge) -> dict[Endpoint, Distribution]:
    found: dict[Endpoint, Distribution] = {}
    for connection in knowledge.connections:
        if connection.requests is not None:
            found.setdefault(connection.endpoint, Distribution()).merge(connection.requests.latency)
    return found


class SlowReply(NamedTuple):
    took: int
    connection: ObservedConnection
    request: ObservedRequest

    def overlaps(self, since: int, until: int) -> bool:
        """Whether the client waited for this reply at any time from `since` until `until` (ns)."""
        return self.request.moment.ns < until and self.request.moment.ns + self.took > since


class _Quiet:
    """Finds long times in which no connection of the capture has a message. Results are cached by time range, rounded
    to seconds."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._rhythms = [
            side.rhythm for each in knowledge.connections for side in each.sides if side.rhythm is not None
        ]
        self._found: dict[tuple[int, int], bool] = {}

    def spans(self, reply: SlowReply) -> bool:
        """Whether no connection had a message while this reply was pending: the clock was set forward, or the host
        slept."""
        if reply.took < CLOCK_STEP:
            return False
        since = reply.request.moment.ns // SECOND + 1
        until = (reply.request.moment.ns + reply.took) // SECOND
        if (since, until) not in self._found:
            times = since * SECOND, until * SECOND
            self._found[since, until] = not any(rhythm.has_message(*times) for rhythm in self._rhythms)
        return self._found[since, until]


@once
def slowest(knowledge: Knowledge) -> dict[Endpoint, list[SlowReply]]:
    quiet = _Quiet(knowledge)
    found = grouped(
        (connection.endpoint, reply)
        for connection in knowledge.connections
        if connection.requests is not None
        for took, request in connection.requests.longest
        if not quiet.spans(reply := SlowReply(took, connection, request))
    )
    return {endpoint: nlargest(MAX_SLOW, replies, key=attrgetter("took")) for endpoint, replies in found.items()}


def longest_beside(endpoint: Endpoint, since: int, until: int, knowledge: Knowledge) -> int:
    """Return the longest time (ns) from a request to its reply at an endpoint.

    Requests that were pending between `since` and `until` (ns) do not count.
    """
    replies = slowest(knowledge).get(endpoint, [])
    beside = next((each.took for each in replies if not each.overlaps(since, until)), None)
    if beside is None:
        beside = replies[-1].took if len(replies) == MAX_SLOW else 0
    return beside


def is_long(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether a request has waited so long that a slow reply does not explain it, by earlier replies at the endpoint.

    A REP answers in order, so replies that were late during this wait do not count. With fewer than three replies, the
    slowest one may be usual.
    """
    endpoint = waiting.connection.endpoint
    usual = latencies(knowledge)[endpoint]
    if waiting.is_to_rep and usual.count >= MIN_OTHERS:
        most = longest_beside(endpoint, waiting.oldest.ns, waiting.until, knowledge)
    else:
        most = usual.most or 0
    return waiting.waited >= max(LONG_NS, MANY_TIMES * most)


def is_lost(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether the request was lost because the server left."""
    if not waiting.was_left or not is_long(waiting, knowledge):
        return waiting.was_left
    return waiting.requests.is_lock_step and answered_later(waiting.oldest, waiting.until, knowledge) is not None


@once
def behind_brokers(knowledge: Knowledge) -> dict[str, list[Hanging]]:
    """Return requests of clients without a reply, by the conn_id of the server connection that causes it; oldest first.

    A broker or TCP proxy passed these requests on to the server, or would have if its workers were not all busy.
    """
    waiting = sorted(hanging(knowledge), key=sent_at)
    by_conn_id = {each.conn_id: each for each in waiting}
    hops = ((each, _hop(each, knowledge)) for each in waiting)
    passed_on = [(hop.connection, each) for each, hop in hops if hop is not None and not hop.is_answered]
    behind = [(server.conn_id, each) for server, each in passed_on if server.conn_id in by_conn_id]
    clients = {each.conn_id for _, each in passed_on}
    busy = dict[Endpoint, Hanging | None]()
    """The request that made the last free worker of a broker busy, by the broker's endpoint for clients; None if a
    worker is free."""
    for server, each in passed_on:
        if each.connection.endpoint not in busy:
            busy[each.connection.endpoint] = _last_busy(server, by_conn_id, knowledge)
    for each in waiting:
        last = busy.get(each.connection.endpoint)
        if last is not None and each.conn_id not in clients and each.oldest.ns >= last.oldest.ns:
            behind.append((last.conn_id, each))
    return grouped(behind)


def _last_busy(server: ObservedConnection, waiting: Mapping[str, Hanging], knowledge: Knowledge) -> Hanging | None:
    """Return the pending request that made the last free worker of a broker busy, or None if a worker is free."""
    workers = [
        each
        for each in knowledge.by_endpoint[server.endpoint]
        if each.is_open and each.requests is not None and each.requests.asker == each.listener
    ]
    busy = [waiting[each.conn_id] for each in workers if each.conn_id in waiting]
    return max(busy, key=sent_at) if busy and len(busy) == len(workers) else None


def _hop(waiting: Hanging, knowledge: Knowledge) -> SentRequest | None:
    """Return the request that a proxy or broker sent to a server for the oldest request of `waiting`, or None.

    A broker that left may not have sent one.
    """
    hop = relayed(waiting.oldest, knowledge)
    return next_hop(waiting.oldest, knowledge) if hop is None and not waiting.was_left else hop


sent_at = attrgetter("oldest.ns")
"""Sort key: the time of the oldest request."""


class GivenUp(NamedTuple):
    """A client that repeatedly closes its connection without a reply to its request.

    It waits `usual` ns each time; the last time may be shorter, because programs end. `usual` is None if the times
    differ, at a REP that replies to none of its requests. `answered` is the number of its requests that received a
    reply.
    """

    requests: Sequence[Hanging]
    usual: int | None
    answered: int

    @property
    def patience(self) -> str:
        """Describe how long the client waits: `each after about 300 ms` or `after 310 ms to 2.1 s`."""
        waits = [each.waited for each in self.requests]
        if self.usual is None:
            return f"after {duration(min(waits))} to {duration(max(waits))}"
        last = "" if steady(waits) is not None else f", but the last after {duration(waits[-1])}"
        return f"each after about {duration(self.usual)}{last}"


@once
def given_up(knowledge: Knowledge) -> list[GivenUp]:
    """Return each REQ that closes nearly all its connections to an endpoint before it receives a reply.

    It waits an equal time on each, or sends its requests to a REP that never replies.
    """
    closed = grouped((each.client, each) for each in hanging(knowledge) if each.was_given_up)
    answered = dict.fromkeys(closed, 0)
    for connection in knowledge.connections if closed else ():
        if connection.requests is not None:
            client = client_of(connection, connection.requests)
            if client in answered:
                answered[client] += connection.requests.latency.count
    found = []
    for client, same in closed.items():
        waits = [each.waited for each in same]
        usual = steady(waits)
        if usual is None and len(waits) > MIN_GIVEN_UP:
            others = steady(waits[:-1])
            usual = others if others is not None and waits[-1] < others else None
        is_hung = same[0].is_to_rep and not answered[client] and sum(waits) >= MIN_SILENCE_NS
        is_most = len(same) >= max(MIN_GIVEN_UP, GIVEN_UP_PART * (len(same) + answered[client]))
        if (usual is not None or is_hung) and is_most and not may_be_worker(same[0], knowledge):
            found.append(GivenUp(same, usual, answered[client]))
    return found


def may_be_worker(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether the REQ may be a worker that sent a "ready" message and waits for work, like other REQs at its ROUTER.

    A REQ that has received a reply is no worker.
    """
    if waiting.requests.latency.count:
        return False
    is_router = waiting.connection.sides[1 - waiting.requests.asker].socket_type == "ROUTER"
    return is_router and waiting.connection.endpoint in _giving_work(knowledge)


@once
def _giving_work(knowledge: Knowledge) -> set[Endpoint]:
    """Return the endpoints at which a ROUTER sends requests to its REQs, as to workers."""
    return {
        connection.endpoint
        for connection in knowledge.connections
        if connection.requests is not None and connection.sides[connection.requests.asker].socket_type == "ROUTER"
    }
