"""Requests that wait for a reply where their connection or the capture ends."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import NamedTuple

from zmtpscope.meaning.across.endings import Ending, ending_of
from zmtpscope.meaning.across.hops import Asked, answered_later, next_hop
from zmtpscope.meaning.across.knowledge import Endpoint, Knowledge, once
from zmtpscope.meaning.across.words import duration, name_of, steady
from zmtpscope.meaning.observers.distribution import Distribution
from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.observed_requests import ObservedRequest, ObservedRequests
from zmtpscope.records import SECOND

LONG_NS = SECOND
"""A request that waits for less may still be answered ..."""
MANY_TIMES = 3
"""... and so it may where it waits for less than so many times the longest that was answered at the endpoint."""

MOST_SLOW = 64
"""So many replies of an endpoint that took longest are looked at."""

GIVEN_UP_PART = 0.9
"""Of the requests of a client that has a time-out that is too short, so many are given up at least, ..."""
LEAST_GIVEN_UP = 3
"""... and at least so many, ..."""
LEAST_PATIENCE_NS = SECOND // 100
"""... each after so long: who closes sooner does not want a reply."""
LEAST_SILENCE_NS = 3 * SECOND
"""A REP that answers nothing while a client waited for so long, all its waits together, hangs, whatever each was."""


class Hanging(NamedTuple):
    """A connection on which requests wait, and until when they did; `ending`: it was closed."""

    connection: ObservedConnection
    requests: ObservedRequests
    until: int
    ending: Ending | None

    @property
    def conn_id(self) -> str:
        """Of its connection."""
        return self.connection.conn_id

    @property
    def oldest(self) -> Asked:
        """The one that waits longest."""
        return Asked(self.connection, self.requests.waiting[0])

    @property
    def waited(self) -> int:
        """How long that is (ns)."""
        return self.until - self.oldest.ns

    @property
    def asker(self) -> str:
        """Who asks."""
        return name_of(self.connection, self.requests.asker)

    @property
    def asked(self) -> str:
        """Who is asked."""
        return name_of(self.connection, 1 - self.requests.asker)

    @property
    def client(self) -> tuple[Endpoint, str]:
        """Where it is asked, and the address of who asks."""
        return client_of(self.connection, self.requests)

    @property
    def was_left(self) -> bool:
        """Whether who was asked ended the connection."""
        return self.ending is not None and self.ending.side != self.requests.asker

    @property
    def is_unacknowledged(self) -> bool:
        """Whether the oldest request was sent again and again, and never acknowledged: who is asked may not have it."""
        lost = self.connection.sides[self.requests.asker].last_outage
        if lost is None:
            return False
        end = self.requests.waiting[0].end
        return end < 0 or end > lost.offset

    @property
    def was_cut(self) -> bool:
        """Whether something on the way ended the connection."""
        return self.ending is not None and self.ending.cause == "middlebox"

    @property
    def asks_rep(self) -> bool:
        """Whether who is asked is a REP."""
        return self.connection.sides[1 - self.requests.asker].socket_type == "REP"

    @property
    def is_owed(self) -> bool:
        """Whether a reply is owed: a REP gives one, and who has replied to a REQ before does so again, as does a REQ
        that works for a ROUTER."""
        if self.requests.is_guessed:
            return False
        asked = self.connection.sides[1 - self.requests.asker].socket_type
        return self.asks_rep or (self.requests.latency.count > 0 and (self.requests.is_lock_step or asked == "REQ"))


def client_of(connection: ObservedConnection, requests: ObservedRequests) -> tuple[Endpoint, str]:
    """Where requests of a connection are asked, and the address of who asks."""
    return connection.endpoint, connection.sides[requests.asker].ip


@once
def hanging(knowledge: Knowledge) -> list[Hanging]:
    """All connections, captured whole, with requests that wait where they or their capture end; those that got a reply
    without the id that it needs wait for another reason."""
    found = []
    for connection in knowledge.connections:
        requests = connection.requests
        if requests is None or not requests.waiting or requests.without_id is not None:
            continue
        if connection.is_whole or (requests.is_guessed and connection.is_unbroken):
            ending = ending_of(connection)
            if ending is None and not connection.is_open:
                continue
            until = knowledge.last_ns if ending is None else ending.moment.ns
            found.append(Hanging(connection, requests, until, ending))
    return found


@once
def latencies(knowledge: Knowledge) -> dict[Endpoint, Distribution]:
    """How long replies took at each endpoint."""
    found: dict[Endpoint, Distribution] = {}
    for connection in knowledge.connections:
        if connection.requests is not None:
            found.setdefault(connection.endpoint, Distribution()).merge(connection.requests.latency)
    return found


class SlowReply(NamedTuple):
    """A reply that took `took` (ns) on a connection, and the `request`."""

    took: int
    connection: ObservedConnection
    request: ObservedRequest

    def overlaps(self, since: int, until: int) -> bool:
        """Whether it was waited for in a part of that time (ns)."""
        return self.request.moment.ns < until and self.request.moment.ns + self.took > since


@once
def slowest(knowledge: Knowledge) -> dict[Endpoint, list[SlowReply]]:
    """The replies at each endpoint that took longest, the one that took longest of all first."""
    found: dict[Endpoint, list[SlowReply]] = {}
    for connection in knowledge.connections:
        if connection.requests is not None:
            replies = [SlowReply(took, connection, request) for took, request in connection.requests.longest]
            found.setdefault(connection.endpoint, []).extend(replies)
    return {endpoint: nlargest(MOST_SLOW, replies, key=_took) for endpoint, replies in found.items()}


def _took(reply: SlowReply) -> int:
    return reply.took


def longest_beside(endpoint: Endpoint, since: int, until: int, knowledge: Knowledge) -> int:
    """How long a reply took at an endpoint at most (ns), but for replies that were waited for in that time."""
    replies = slowest(knowledge).get(endpoint, [])
    beside = next((each.took for each in replies if not each.overlaps(since, until)), None)
    if beside is None:
        beside = replies[-1].took if len(replies) == MOST_SLOW else 0
    return beside


def is_long(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether it waited for longer than it would for a reply that takes its time. A REP answers one after the other, so
    what it answered late while this request waited is late for the same reason."""
    endpoint = waiting.connection.endpoint
    if waiting.asks_rep:
        most = longest_beside(endpoint, waiting.oldest.ns, waiting.until, knowledge)
    else:
        most = latencies(knowledge)[endpoint].most or 0
    return waiting.waited >= max(LONG_NS, MANY_TIMES * most)


def is_lost(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether the request was lost since who was asked left. Who had not replied for long hangs, and that it left then
    is no cause, but for a REQ that got on with a later connection."""
    if not waiting.was_left or not is_long(waiting, knowledge):
        return waiting.was_left
    return waiting.requests.is_lock_step and answered_later(waiting.oldest, waiting.until, knowledge) is not None


@once
def behind_brokers(knowledge: Knowledge) -> dict[str, list[Hanging]]:
    """Those whose request a broker handed on to somebody who has not replied to it, either, by the connection to that
    one; the oldest first."""
    waiting = hanging(knowledge)
    hops = {each.conn_id for each in waiting}
    behind: dict[str, list[Hanging]] = {}
    for each in waiting:
        hop = None if each.was_left else next_hop(each.oldest, knowledge)
        if hop is not None and hop.connection.conn_id in hops and not hop.is_answered:
            behind.setdefault(hop.connection.conn_id, []).append(each)
    for same in behind.values():
        same.sort(key=asked_at)
    return behind


def asked_at(waiting: Hanging) -> int:
    """When the oldest was asked (ns)."""
    return waiting.oldest.ns


class GivenUp(NamedTuple):
    """A client that gives its requests up, each on a connection of its own, after the same time (`usual`, ns; the last
    one may be shorter, since programs end), or after any time (None) where a REP answers none of them."""

    requests: Sequence[Hanging]
    usual: int | None
    answered: int
    """How many of its others were."""

    @property
    def patience(self) -> str:
        """`each after about 300 ms`, `each after about 300 ms, but the last after 120 ms`, `after 310 ms to 2.1 s`."""
        waits = [each.waited for each in self.requests]
        if self.usual is None:
            return f"after {duration(min(waits))} to {duration(max(waits))}"
        last = "" if steady(waits) is not None else f", but the last after {duration(waits[-1])}"
        return f"each after about {duration(self.usual)}{last}"


@once
def given_up(knowledge: Knowledge) -> list[GivenUp]:
    """Of each REQ at an endpoint that closes nearly all its connections itself while it waits, with a time-out, or
    where it is a REP that never answers."""
    closed: dict[tuple[Endpoint, str], list[Hanging]] = {}
    for each in hanging(knowledge):
        is_own = each.ending is not None and not each.was_left
        if is_own and not each.is_unacknowledged and each.requests.is_lock_step and each.waited >= LEAST_PATIENCE_NS:
            closed.setdefault(each.client, []).append(each)
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
        if usual is None and len(waits) > LEAST_GIVEN_UP:
            others = steady(waits[:-1])
            usual = others if others is not None and waits[-1] < others else None
        is_hung = same[0].asks_rep and not answered[client] and sum(waits) >= LEAST_SILENCE_NS
        is_most = len(same) >= max(LEAST_GIVEN_UP, GIVEN_UP_PART * (len(same) + answered[client]))
        if (usual is not None or is_hung) and is_most and not may_be_worker(same[0], knowledge):
            found.append(GivenUp(same, usual, answered[client]))
    return found


def may_be_worker(waiting: Hanging, knowledge: Knowledge) -> bool:
    """Whether the REQ may have said that it is ready, and waits for work: others at its ROUTER do, or none of them all
    has had a reply."""
    if waiting.requests.latency.count:
        return False
    is_router = waiting.connection.sides[1 - waiting.requests.asker].socket_type == "ROUTER"
    return is_router and waiting.connection.endpoint in _giving_work(knowledge)


@once
def _giving_work(knowledge: Knowledge) -> set[Endpoint]:
    """Endpoints at which a ROUTER asks."""
    return {
        connection.endpoint
        for connection in knowledge.connections
        if connection.requests is not None and connection.sides[connection.requests.asker].socket_type == "ROUTER"
    }
