from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.endings import ending_of, is_agreed
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.observers.observed import Endpoint, ObservedConnection, began
from zmtpscope.diagnosis.observers.observed_facts import ObservedRequest
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

LONGEST_HOP_NS = SECOND
"""Time (ns) within which a broker passes a request on."""

TOGETHER_NS = SECOND // 2
"""A program that ends closes all its connections within this time (ns)."""

SILENT_NS = 3 * SECOND
"""A REQ that waits sends nothing on its new connection for at least this time (ns)."""

RELAYED_NS = SECOND // 20
"""A TCP proxy connects to the server, and passes octets on, within this time (ns)."""

MAX_CONCURRENT = 64
"""Simultaneous equal requests to examine for the next hop."""

MAX_REPETITIONS = 2
"""Repetitions of a request to report."""


class SentRequest(NamedTuple):
    connection: ObservedConnection
    request: ObservedRequest

    @property
    def asker(self) -> int:
        assert self.connection.requests is not None
        return self.connection.requests.asker

    @property
    def asker_ip(self) -> str:
        return self.connection.sides[self.asker].ip

    @property
    def ns(self) -> int:
        return self.request.moment.ns

    @property
    def is_answered(self) -> bool:
        requests = self.connection.requests
        return requests is not None and all(each.ref != self.request.ref for each in requests.waiting)


class Repetitions(NamedTuple):
    """Repetitions of one request on other connections: the first few, their number, and whether any
    received a reply."""

    first: Sequence[SentRequest]
    times: int
    is_answered: bool


def next_hop(sent: SentRequest, knowledge: Knowledge) -> SentRequest | None:
    """Return the request with which a broker passed this request on, or None if it is not remembered.

    The broker sends the same content soon afterwards to another endpoint. If several clients sent equal requests, an
    unanswered one on the next hop belongs to the first client without a reply.
    """
    broker = sent.connection.sides[1 - sent.asker].ip
    same = _by_content(knowledge).get((broker, sent.request.content), [])
    others = islice(_others(same, sent.ns, sent.connection), MAX_CONCURRENT)
    hops = [
        each
        for each in others
        if each.connection.endpoint != sent.connection.endpoint and each.ns - sent.ns <= LONGEST_HOP_NS
    ]
    waits = () if sent.is_answered else (each for each in hops if not each.is_answered)
    return next(iter(waits), hops[0] if hops else None)


def relayed(sent: SentRequest, knowledge: Knowledge) -> SentRequest | None:
    """Return the same unanswered request on the connection from a TCP proxy to the server, or None.

    The proxy connects to the server as soon as the client connects to it, and passes all octets on.
    """
    same = _by_octets(knowledge).get((sent.request.content, sent.request.end), ())
    start, count = sent.connection.start.ns, _replies(sent)
    for other in islice(same, bisect_left(same, sent.ns + 1, key=_time), None):
        if other.ns - sent.ns > RELAYED_NS:
            return None
        is_behind = 0 < other.connection.start.ns - start <= RELAYED_NS and _replies(other) == count
        if is_behind and other.connection.endpoint != sent.connection.endpoint:
            return other
    return None


def _replies(sent: SentRequest) -> int:
    requests = sent.connection.requests
    return 0 if requests is None else requests.latency.count


def repetitions_of(sent: SentRequest, since: int, knowledge: Knowledge) -> Repetitions:
    """Return requests with the same content from the same address to the same endpoint, from the time `since` (ns) on.

    Only the first request of each connection counts.
    """
    key = sent.connection.endpoint, sent.asker_ip, sent.request.content
    same, answered = _first_by_content(knowledge).get(key, ([], []))
    times = len(same) - bisect_left(same, since, key=_time)
    own = first_request(sent.connection)
    if own is not None and own.ns >= since and own.request.content == sent.request.content:
        times -= 1
    again = _others(same, since, sent.connection)
    return Repetitions(list(islice(again, MAX_REPETITIONS)), times, any(_others(answered, since, sent.connection)))


def answered_later(sent: SentRequest, since: int, knowledge: Knowledge) -> SentRequest | None:
    """Return the first request that received a reply on a connection of the client that began after `since` (ns), or
    None.

    Its content does not matter. The client has the same address and socket type. Other clients of that address may have
    lost idle connections at the same time and reconnect, too; so one connection for each of them does not count.
    """
    client = sent.connection.sides[sent.asker]
    later = _replied_to(knowledge).get((sent.connection.endpoint, client.ip, client.socket_type), [])
    begin = bisect_left(later, since, key=_start) + _others_cut_off(sent, since, knowledge)
    return later[begin].first if begin < len(later) else None


def reconnected_silently(sent: SentRequest, since: int, knowledge: Knowledge) -> bool:
    """Whether the client reconnected after `since` and sent no request for `SILENT_NS`, as a REQ that waits does.

    Idle clients of that address, which were cut off at the same time, may be silent, too: one connection for each of
    them does not count.
    """
    same = knowledge.by_ends[sent.connection.ends]
    later = same[bisect_right(same, since, key=began) :]
    silent = [each for each in later if _is_silent(each, sent, knowledge.last_ns)]
    return len(silent) > _others_cut_off(sent, since, knowledge)


def _is_silent(connection: ObservedConnection, sent: SentRequest, now: int) -> bool:
    side = connection.sides[sent.asker]
    is_alike = is_agreed(connection) and side.socket_type == sent.connection.sides[sent.asker].socket_type
    is_kept = connection.is_open and now - connection.start.ns >= SILENT_NS
    return is_alike and is_kept and connection.is_whole and side.rhythm is None


def _others_cut_off(sent: SentRequest, since: int, knowledge: Knowledge) -> int:
    """Return the number of idle clients of the same address and socket type that were cut off at about `since`."""
    client = sent.connection.sides[sent.asker]
    ends = _ended_idle(knowledge).get((sent.connection.endpoint, client.ip, client.socket_type), [])
    return bisect_left(ends, since + TOGETHER_NS) - bisect_left(ends, since - TOGETHER_NS)


def last_answered(sent: SentRequest, knowledge: Knowledge) -> int:
    """Return the start (ns) of the client's last earlier connection with a reply, or 0.

    A client is identified by address and socket type.
    """
    client, start = sent.connection.sides[sent.asker], sent.connection.start.ns
    sooner = _replied_to(knowledge).get((sent.connection.endpoint, client.ip, client.socket_type), [])
    place = bisect_left(sooner, start, key=_start)
    return _start(sooner[place - 1]) if place else 0


def first_request(connection: ObservedConnection) -> SentRequest | None:
    requests = connection.requests
    return None if requests is None or requests.first is None else SentRequest(connection, requests.first)


# -- where to look -----------------------------------------------------------------------------------------------------


@once
def _by_content(knowledge: Knowledge) -> dict[tuple[str, int], list[SentRequest]]:
    remembered = (sent for connection in knowledge.connections for sent in _remembered(connection))
    with_content = sorted((sent for sent in remembered if sent.request.content), key=_time)
    return grouped(((sent.asker_ip, sent.request.content), sent) for sent in with_content)


@once
def _by_octets(knowledge: Knowledge) -> dict[tuple[int, int], list[SentRequest]]:
    """Return the oldest unanswered request of each connection, oldest first, by its content and its offset in the
    stream."""
    oldest = (
        SentRequest(each, each.requests.waiting[0])
        for each in knowledge.connections
        if each.requests is not None and each.requests.waiting
    )
    with_content = sorted((sent for sent in oldest if sent.request.content and sent.request.end >= 0), key=_time)
    return grouped(((sent.request.content, sent.request.end), sent) for sent in with_content)


def _remembered(connection: ObservedConnection) -> Iterator[SentRequest]:
    """Yield the requests of a connection whose content and packet are stored; others are only counted."""
    requests = connection.requests
    if requests is not None:
        first = () if requests.first is None else (requests.first,)
        for request in (*requests.waiting, *(each.request for each in requests.longest), *first):
            yield SentRequest(connection, request)


@once
def _first_by_content(
    knowledge: Knowledge,
) -> dict[tuple[Endpoint, str, int], tuple[list[SentRequest], list[SentRequest]]]:
    """Return the first request of each connection, and the first of these with a reply, oldest first.

    The keys are endpoint, client address and content.
    """
    found: dict[tuple[Endpoint, str, int], tuple[list[SentRequest], list[SentRequest]]] = {}
    for sent in sorted(filter(None, map(first_request, knowledge.connections)), key=_time):
        if sent.request.content:
            key = sent.connection.endpoint, sent.asker_ip, sent.request.content
            same, answered = found.setdefault(key, ([], []))
            same.append(sent)
            if sent.is_answered:
                answered.append(sent)
    return found


class _SinceConnection(NamedTuple):
    """The start (ns) of a connection, and the first request on this connection or on any that began after it."""

    start: int
    first: SentRequest


@once
def _replied_to(knowledge: Knowledge) -> dict[tuple[Endpoint, str, str | None], list[_SinceConnection]]:
    """Return the start of each connection with a reply, in order, by endpoint, client address and socket type."""
    found: dict[tuple[Endpoint, str, str | None], list[_SinceConnection]] = {}
    for connection in sorted(knowledge.connections, key=began, reverse=True):
        first = first_request(connection)
        if first is not None and connection.requests is not None and connection.requests.latency.count:
            client = connection.sides[first.asker]
            later = found.setdefault((connection.endpoint, client.ip, client.socket_type), [])
            if later:
                first = min(first, later[-1].first, key=_time)
            later.append(_SinceConnection(connection.start.ns, first))
    for later in found.values():
        later.reverse()
    return found


@once
def _ended_idle(knowledge: Knowledge) -> dict[tuple[Endpoint, str, str | None], list[int]]:
    """Return the ends (ns) of connections without a pending request, by endpoint, client address and socket type, in
    order."""
    found = grouped(
        ((each.endpoint, client.ip, client.socket_type), ending.moment.ns)
        for each in knowledge.connections
        if (requests := each.requests) is not None and requests.latency.count and not requests.waiting
        if (ending := ending_of(each)) is not None and ending.side != requests.asker
        for client in (each.sides[requests.asker],)
    )
    return {key: sorted(times) for key, times in found.items()}


def _others(sorted_: Sequence[SentRequest], since: int, connection: ObservedConnection) -> Iterator[SentRequest]:
    """Yield the requests on other connections than `connection`, from the time `since` (ns) on. `sorted_` is in order
    of time."""
    later = range(bisect_left(sorted_, since, key=_time), len(sorted_))
    return (sorted_[place] for place in later if sorted_[place].connection is not connection)


_time, _start = attrgetter("ns"), attrgetter("start")
