"""Subscriptions that a subscriber has not repeated after a reconnect."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND

RECONNECT_NS = 60 * SECOND
"""A client that reconnects after this time may be another program."""

PATIENCE_NS = SECOND
"""A program that subscribes has done so within this time after the handshake."""


class NotMadeAgain(NamedTuple):
    """Subscriptions that were active when the publisher ended connection `before`, and that the client did not repeat
    on its next one, `after`."""

    publisher: Publisher
    before: Subscriber
    after: Subscriber
    subscriptions: list[ObservedSubscription]


def not_made_again(knowledge: Knowledge) -> Iterator[NotMadeAgain]:
    """Yield the subscriptions that clients did not repeat after they reconnected.

    The order is that of publishers and clients, then of time.
    """
    for publisher in publishers(knowledge):
        for own in _apart(publisher):
            for before, after in pairwise(own):
                lost = _not_again(before, after, knowledge)
                if lost:
                    yield NotMadeAgain(publisher, before, after, lost)


def may_be_another_program(before: Subscriber, after: Subscriber) -> bool:
    """Whether two connections may belong to different programs of a host: only the address shows that they have one
    client."""
    topics = {each.topic for each in before.subscriptions}
    return before.identity is None and topics.isdisjoint(each.topic for each in after.subscriptions)


def had_time_to_subscribe(subscriber: Subscriber, knowledge: Knowledge) -> bool:
    """Whether the connection lasted long enough after its handshake for a program to subscribe."""
    connection = subscriber.connection
    ready = [side.ready.ns for side in connection.sides if side.ready is not None]
    end = knowledge.last_ns if connection.is_open else connection.last_ns
    return len(ready) == 2 and end - max(ready) >= PATIENCE_NS


def _apart(publisher: Publisher) -> list[list[Subscriber]]:
    """Return the connections of each client of a publisher, in order of time.

    Clients with overlapping connections are skipped, since it is unknown which connection replaced which.
    """
    return [
        own
        for own in grouped((each.client, each) for each in publisher.subscribers).values()
        if all(one.connection.last_ns <= other.connection.start.ns for one, other in pairwise(own))
    ]


def _not_again(before: Subscriber, after: Subscriber, knowledge: Knowledge) -> list[ObservedSubscription]:
    values = before.connection.values
    was_left = values is not None and values["closed_by"] == 1 - before.side
    is_soon = after.connection.start.ns - before.connection.last_ns <= RECONNECT_NS
    is_known = before.is_filtered and after.is_filtered
    if not (was_left and is_soon and is_known and (after.subscriptions or had_time_to_subscribe(after, knowledge))):
        return []
    again = {each.topic for each in after.subscriptions}
    return [each for each in before.subscriptions if each.ended_by != "cancel" and each.topic not in again]
