"""Find publishers of a topic that a subscriber requested from another publisher, where it received nothing."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription

MAX_PUBLISHERS = 16
"""Publishers to examine for the topic of a subscription."""


class Topics(NamedTuple):
    ascending: list[tuple[bytes, int]]
    """Topics, or beginnings of messages without a known topic, each with the index of its publisher."""
    subscribed: set[tuple[str, bytes, int]]
    """Subscriptions, each with the subscriber's address and the index of the publisher."""


class Elsewhere(NamedTuple):
    """Another publisher of a topic. `is_received`: the subscriber's host has subscribed at that publisher, too."""

    publisher: Publisher
    is_received: bool


@once
def _topics(knowledge: Knowledge) -> Topics:
    found: set[tuple[bytes, int]] = set()
    subscribed: set[tuple[str, bytes, int]] = set()
    for place, publisher in enumerate(publishers(knowledge)):
        for subscriber in publisher.subscribers:
            for key, topic in subscriber.topics.items():
                name = key.topic if key.is_frame or key.topic else topic.beginning
                if name:
                    found.add((name, place))
            subscribed.update((subscriber.ip, each.topic, place) for each in subscriber.subscriptions)
    return Topics(sorted(found), subscribed)


def elsewhere(
    publisher: Publisher, subscriber: Subscriber, subscription: ObservedSubscription, knowledge: Knowledge
) -> Elsewhere | None:
    """Return another publisher that sends topics which the subscription matches, or None.

    A publisher at which the subscriber's host has the same subscription has priority.
    """
    topics, own = _topics(knowledge), publishers(knowledge)
    first = bisect_left(topics.ascending, (subscription.topic, 0))
    other: Elsewhere | None = None
    for topic, place in islice(topics.ascending, first, first + MAX_PUBLISHERS):
        if not subscription.matches(topic):
            break
        if own[place] is not publisher:
            is_received = (subscriber.ip, subscription.topic, place) in topics.subscribed
            if is_received or other is None:
                other = Elsewhere(own[place], is_received)
            if is_received:
                break
    return other
