"""Requests over several connections: what a broker made of one, and the same request asked again."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.meaning.knowledge import Knowledge
from zmtpscope.meaning.observed import ObservedConnection
from zmtpscope.meaning.observed_requests import ObservedRequest
from zmtpscope.records import SECOND

LONGEST_HOP_NS = SECOND
"""A broker hands a request on sooner."""


class Asked(NamedTuple):
    """A request, and the connection on which it was sent."""

    connection: ObservedConnection
    request: ObservedRequest

    @property
    def asker(self) -> int:
        """The side that asks."""
        assert self.connection.requests is not None
        return self.connection.requests.asker


def next_hop(asked: Asked, knowledge: Knowledge) -> Asked | None:
    """The request that a broker made of one: who was asked has asked the same of somebody else, soon after. None where
    none of those that are remembered is it."""
    broker = asked.connection.sides[1 - asked.asker].ip
    since = asked.request.moment.ns
    found = [
        other
        for other in _same_content(asked, knowledge)
        if other.connection.sides[other.asker].ip == broker and 0 <= other.request.moment.ns - since <= LONGEST_HOP_NS
    ]
    return min(found, key=_time, default=None)


def asked_again(asked: Asked, since: int, knowledge: Knowledge) -> list[Asked]:
    """The same request of the same client at the same endpoint, first of all on new connections, not before `since`."""
    connection = asked.connection
    ip = connection.sides[asked.asker].ip
    return [
        Asked(other, other.requests.first)
        for other in knowledge.by_endpoint[connection.endpoint]
        if other is not connection
        and other.requests is not None
        and other.requests.first is not None
        and other.sides[other.requests.asker].ip == ip
        and other.requests.first.content == asked.request.content != 0
        and other.requests.first.moment.ns >= since
    ]


def answered_later(asked: Asked, since: int, knowledge: Knowledge) -> Asked | None:
    """The first request, whatever it asks, of a client of the same address and socket type at the same endpoint on a
    connection that began at `since` or later, and has had a reply."""
    client = asked.connection.sides[asked.asker]
    found = [
        Asked(other, other.requests.first)
        for other in knowledge.by_endpoint[asked.connection.endpoint]
        if other.requests is not None
        and other.requests.first is not None
        and other.requests.latency.count
        and other.start.ns >= since
        and other.sides[other.requests.asker].ip == client.ip
        and other.sides[other.requests.asker].socket_type == client.socket_type
    ]
    return min(found, key=_time, default=None)


def _same_content(asked: Asked, knowledge: Knowledge) -> list[Asked]:
    found = []
    for connection in knowledge.connections:
        seen = connection.requests
        if seen is None or connection is asked.connection:
            continue
        longest = [] if seen.longest is None else [seen.longest[1]]
        first = [] if seen.first is None else [seen.first]
        for request in (*seen.waiting, *longest, *first):
            if request.content == asked.request.content != 0:
                found.append(Asked(connection, request))
    return found


def _time(asked: Asked) -> int:
    return asked.request.moment.ns
