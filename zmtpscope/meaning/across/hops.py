"""Requests over several connections: what a broker made of one, and the same request asked again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from zmtpscope.meaning.across.knowledge import Endpoint, Knowledge, once
from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.observed_requests import ObservedRequest
from zmtpscope.records import SECOND

LONGEST_HOP_NS = SECOND
"""A broker hands a request on sooner."""

MOST_AT_ONCE = 64
"""So many others that ask the same at once are looked at for the hop of a request."""

MOST_REPETITIONS = 2
"""So many repetitions of a request are told."""


class Asked(NamedTuple):
    """A request, and the connection on which it was sent."""

    connection: ObservedConnection
    request: ObservedRequest

    @property
    def asker(self) -> int:
        """The side that asks."""
        assert self.connection.requests is not None
        return self.connection.requests.asker

    @property
    def asker_ip(self) -> str:
        """Its address."""
        return self.connection.sides[self.asker].ip

    @property
    def ns(self) -> int:
        """When it was sent."""
        return self.request.moment.ns

    @property
    def is_answered(self) -> bool:
        """Whether it does not wait."""
        requests = self.connection.requests
        return requests is not None and all(each.ref != self.request.ref for each in requests.waiting)


class Repetitions(NamedTuple):
    """How often a request was asked again: the first few, how many there are, and whether any of them was answered."""

    first: Sequence[Asked]
    times: int
    is_answered: bool


def next_hop(asked: Asked, knowledge: Knowledge) -> Asked | None:
    """The request that a broker made of one: who was asked has asked the same of somebody else, soon after, at another
    endpoint. Where several clients ask the same, one that waits is the first that waits, too. None where none of those
    that are remembered is it."""
    broker = asked.connection.sides[1 - asked.asker].ip
    same = _by_content(knowledge).get((broker, asked.request.content), [])
    others = islice(_others(same, asked.ns, asked.connection), MOST_AT_ONCE)
    hops = [
        each
        for each in others
        if each.connection.endpoint != asked.connection.endpoint and each.ns - asked.ns <= LONGEST_HOP_NS
    ]
    waits = () if asked.is_answered else (each for each in hops if not each.is_answered)
    return next(iter(waits), hops[0] if hops else None)


def asked_again(asked: Asked, since: int, knowledge: Knowledge) -> Repetitions:
    """The same request of the same client at the same endpoint, first of all on new connections, not before `since`."""
    key = asked.connection.endpoint, asked.asker_ip, asked.request.content
    same, answered = _first_by_content(knowledge).get(key, ([], []))
    times = len(same) - bisect_left(same, since, key=_time)
    own = first_request(asked.connection)
    if own is not None and own.ns >= since and own.request.content == asked.request.content:
        times -= 1
    again = _others(same, since, asked.connection)
    return Repetitions(list(islice(again, MOST_REPETITIONS)), times, any(_others(answered, since, asked.connection)))


def answered_later(asked: Asked, since: int, knowledge: Knowledge) -> Asked | None:
    """The first request, whatever it asks, of a client of the same address and socket type at the same endpoint on a
    connection that began at `since` or later, and has had a reply."""
    client = asked.connection.sides[asked.asker]
    later = _replied_to(knowledge).get((asked.connection.endpoint, client.ip, client.socket_type), [])
    begin = bisect_left(later, since, key=_start)
    return later[begin].first if begin < len(later) else None


def first_request(connection: ObservedConnection) -> Asked | None:
    """What was asked first on a connection, as far as it is known who asks."""
    requests = connection.requests
    return None if requests is None or requests.first is None else Asked(connection, requests.first)


# -- where to look -----------------------------------------------------------------------------------------------------


@once
def _by_content(knowledge: Knowledge) -> dict[tuple[str, int], list[Asked]]:
    """The requests that are remembered, by the address of who asks and by what is asked, the oldest first."""
    found: dict[tuple[str, int], list[Asked]] = {}
    for connection in knowledge.connections:
        seen = connection.requests
        if seen is not None:
            longest = [each.request for each in seen.longest]
            first = [] if seen.first is None else [seen.first]
            for request in (*seen.waiting, *longest, *first):
                if request.content:
                    asked = Asked(connection, request)
                    found.setdefault((asked.asker_ip, request.content), []).append(asked)
    for same in found.values():
        same.sort(key=_time)
    return found


@once
def _first_by_content(knowledge: Knowledge) -> dict[tuple[Endpoint, str, int], tuple[list[Asked], list[Asked]]]:
    """What was asked first on each connection, by the endpoint, the address of who asks and by what is asked, the
    oldest first; and those that were answered."""
    found: dict[tuple[Endpoint, str, int], tuple[list[Asked], list[Asked]]] = {}
    for asked in sorted(filter(None, map(first_request, knowledge.connections)), key=_time):
        if asked.request.content:
            key = asked.connection.endpoint, asked.asker_ip, asked.request.content
            same, answered = found.setdefault(key, ([], []))
            same.append(asked)
            if asked.is_answered:
                answered.append(asked)
    return found


class _Later(NamedTuple):
    """A connection that began at `start` (ns), and the first request on it or on one that began later."""

    start: int
    first: Asked


@once
def _replied_to(knowledge: Knowledge) -> dict[tuple[Endpoint, str, str | None], list[_Later]]:
    """The connections on which there was a reply, by the endpoint and the address and socket type of who asks, in the
    order in which they began."""
    found: dict[tuple[Endpoint, str, str | None], list[_Later]] = {}
    for connection in sorted(knowledge.connections, key=_began, reverse=True):
        first = first_request(connection)
        if first is not None and connection.requests is not None and connection.requests.latency.count:
            client = connection.sides[first.asker]
            later = found.setdefault((connection.endpoint, client.ip, client.socket_type), [])
            if later:
                first = min(first, later[-1].first, key=_time)
            later.append(_Later(connection.start.ns, first))
    for later in found.values():
        later.reverse()
    return found


def _others(sorted_: Sequence[Asked], since: int, connection: ObservedConnection) -> Iterator[Asked]:
    """Those of other connections, not before `since`."""
    later = range(bisect_left(sorted_, since, key=_time), len(sorted_))
    return (sorted_[place] for place in later if sorted_[place].connection is not connection)


def _time(asked: Asked) -> int:
    return asked.ns


def _began(connection: ObservedConnection) -> int:
    return connection.start.ns


def _start(later: _Later) -> int:
    return later.start
