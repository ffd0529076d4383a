"""The share of each topic that each subscriber received, compared with other subscribers of the publisher.

Since ZMTP 3.0 a publisher filters, so missed messages were never sent to a subscriber. Only messages that a sibling got
at the same time prove that they were published. All numbers are lower bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from operator import attrgetter, itemgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.disconnects import replaced_ns
from zmtpscope.diagnosis.across.knowledge import Knowledge, once
from zmtpscope.diagnosis.across.outages import first_lost
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publishers
from zmtpscope.diagnosis.observers.observer import derived
from zmtpscope.diagnosis.observers.topics import PublishedTopic, TopicKey
from zmtpscope.dissect import Record
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND, to_text

MAX_SIBLINGS = 4
"""Siblings to compare with: those with most messages."""

MAX_KNOWN = 16
"""Subscribers of a topic to remember as possible siblings: those with most messages."""

MAX_EARLIER = 8
"""Earlier connections of a subscriber to examine."""

MAX_PAIRS = 262_144
"""Pairs (topic, subscriber without a message) to check in a run. If the pairs of a publisher exceed the rest, all of
them are skipped."""

TAKES_EFFECT_NS = SECOND // 10
"""After this time a subscription is certainly in force at the publisher."""

ARRIVES_NS = SECOND // 2
"""A message that another subscriber got has arrived after this time, unless the receiver is blocked."""

QUIET_NS = SECOND // 33
"""After a silence of this length (ns) all messages have arrived, if the last one arrived later than the other
subscriber's."""


class Missed(NamedTuple):
    """A lower bound for the number of messages that the subscriber `sibling` received and another
    subscriber did not."""

    messages: int
    sibling: Subscriber


class Sibling(NamedTuple):
    subscriber: Subscriber
    topic: PublishedTopic
    since_ns: int


class Siblings:
    def __init__(self, each: Sequence[Sibling]) -> None:
        self.each = each
        self.messages = max((topic.timeline.count for _, topic, _ in each), default=0)
        """Largest number of messages that one of them received."""
        self.first_ns = min((topic.first.ns for _, topic, _ in each), default=0)
        """Time of the first message to any of them."""
        self.since_ns = max((since for _, _, since in each), default=0)
        """Time from which all of them were subscribed."""


class Delivery(NamedTuple):
    """The messages of one topic that a subscriber received; `topic` is None if it subscribed and received none.

    `siblings` is the number of other subscribers that received messages of the topic. `early` are messages that another
    subscriber received before this one subscribed, `missed` messages that it received during the subscription; None if
    no other subscriber shows any. If there are early ones, `left_ns` is the end of an earlier connection of this
    subscriber with the topic, or None. `may_be_other`: that connection has no identity and its client closed it, so it
    may belong to another program on the host.
    """

    publisher: Publisher
    subscriber: Subscriber
    key: TopicKey
    topic: PublishedTopic | None
    siblings: int
    early: Missed | None = None
    missed: Missed | None = None
    left_ns: int | None = None
    may_be_other: bool = False

    @property
    def messages(self) -> int:
        return 0 if self.topic is None else self.topic.timeline.count - self.unacknowledged

    @property
    def unacknowledged(self) -> int:
        """Number of further messages that were sent to the subscriber and never acknowledged."""
        lost = first_lost(self.subscriber.connection.sides[1 - self.subscriber.side])
        if lost is None or self.topic is None:
            return 0
        return self.topic.timeline.between(lost.since.ns, self.topic.timeline.last_ns + 1).least


@once
def deliveries(knowledge: Knowledge) -> tuple[Delivery, ...]:
    found: list[Delivery] = []
    room = MAX_PAIRS
    for publisher in publishers(knowledge):
        without = _without(publisher, room)
        room -= sum(map(len, without.values()))
        earlier = _earlier(publisher.subscribers)
        most = got_most(knowledge)[publisher]
        for key, pairs in _by_topic(publisher, without).items():
            found += _of_topic(publisher, key, pairs, most[key], earlier, knowledge.last_ns)
    return tuple(found)


@once
def got_most(knowledge: Knowledge) -> dict[Publisher, dict[TopicKey, list[Subscriber]]]:
    """Return the subscribers with most messages of each topic, most first."""
    return {publisher: _most(publisher) for publisher in publishers(knowledge)}


def _most(publisher: Publisher) -> dict[TopicKey, list[Subscriber]]:
    got = grouped(
        (key, (topic.timeline.count, subscriber))
        for subscriber in publisher.subscribers
        for key, topic in subscriber.topics.items()
    )
    return {key: [each for _, each in nlargest(MAX_KNOWN, some, key=itemgetter(0))] for key, some in got.items()}


def _without(publisher: Publisher, room: int) -> dict[Subscriber, list[TopicKey]]:
    """Return, by subscriber, the topics to which it subscribed without receiving a message.

    Empty if there are more than `room` pairs of subscriber and topic, to limit memory.
    """
    keys, topics = publisher.ascending
    found: dict[Subscriber, list[TopicKey]] = {}
    for subscriber in publisher.subscribers:
        matching = (key for places in subscriber.places(topics) for key in keys[places.start : places.stop])
        missing = dict.fromkeys(key for key in matching if key not in subscriber.topics)
        found[subscriber] = [key for key in missing if not subscriber.mixes(key)]
        room -= len(found[subscriber])
        if room < 0:
            return {}
    return found


Pairs = Sequence[tuple[Subscriber, PublishedTopic | None]]
"""Subscribers of a topic, in order, each with its messages or None."""


def _by_topic(publisher: Publisher, without: Mapping[Subscriber, Sequence[TopicKey]]) -> dict[TopicKey, Pairs]:
    found: dict[TopicKey, list[tuple[Subscriber, PublishedTopic | None]]]
    found = {key: [] for key in publisher.topic_keys()}
    for subscriber in publisher.subscribers:
        for key, topic in subscriber.topics.items():
            if key.topic is not None:
                found[key].append((subscriber, topic))
        for key in without.get(subscriber, ()):
            found[key].append((subscriber, None))
    return dict(found)


def _of_topic(
    publisher: Publisher,
    key: TopicKey,
    pairs: Pairs,
    got_most: Sequence[Subscriber],
    earlier: Mapping[Subscriber, Sequence[Subscriber]],
    now: int,
) -> Iterator[Delivery]:
    got = sum(topic is not None for _, topic in pairs)
    most = [_sibling(each, key) for each in got_most[: MAX_SIBLINGS + 1]]
    of_others = Siblings(most[:MAX_SIBLINGS])
    of_most = {each.subscriber: Siblings([other for other in most if other is not each]) for each in most}
    for subscriber, topic in pairs:
        siblings = of_most.get(subscriber, of_others)
        early, missed, left, may_be_other = None, None, None, False
        intervals = subscriber.intervals(key) if siblings.each and subscriber.is_filtered else ()
        if intervals:
            since = intervals[0][0]
            early = _early(0, since, siblings)
            if early is not None and early.messages:
                left, may_be_other = _last_left(earlier[subscriber], key, siblings) or (None, False)
                early = _early(left or 0, since, siblings)
            if not subscriber.mixes(key):
                missed = _missed(subscriber, topic, intervals[-1], siblings, now)
        count = got - (topic is not None)
        yield Delivery(publisher, subscriber, key, topic, count, early, missed, left, may_be_other)


def _sibling(subscriber: Subscriber, key: TopicKey) -> Sibling:
    intervals = subscriber.intervals(key)
    return Sibling(subscriber, subscriber.topics[key], intervals[0][0] if intervals else 0)


def _earlier(subscribers: Iterable[Subscriber]) -> dict[Subscriber, list[Subscriber]]:
    """Return, for each subscriber, earlier connections that may belong to the same program, latest end first."""
    seen: dict[tuple[str, str | None, str | None], deque[Subscriber]] = {}
    found = {}
    for each in subscribers:
        same = seen.setdefault(each.client, deque(maxlen=MAX_EARLIER))
        start = each.connection.start.ns
        ended = [
            earlier
            for earlier in same
            if earlier.ended_ns <= start or replaced_ns(earlier.connection, [each.connection]) is not None
        ]
        found[each] = sorted(ended, key=attrgetter("ended_ns"), reverse=True)
        same.append(each)
    return found


class _Left(NamedTuple):
    """The time (ns) until which an earlier connection was subscribed to a topic.

    `may_be_other`: that connection may belong to another program.
    """

    ns: int
    may_be_other: bool


def _last_left(earlier: Iterable[Subscriber], key: TopicKey, siblings: Siblings) -> _Left | None:
    """Return when the last subscription to a topic ended on `earlier` connections, or None.

    `earlier` is sorted, the latest end first; `siblings` are other subscribers that received messages of the topic.
    """
    last: _Left | None = None
    for each in earlier:
        if last is not None and each.ended_ns < last.ns:
            break  # no earlier one had it for longer
        left = _left(each, key, siblings)
        if left is not None:
            last = left if last is None else max(last, left)
    return last


def _left(earlier: Subscriber, key: TopicKey, siblings: Siblings) -> _Left | None:
    """Return the time until which an earlier connection was subscribed to a topic and got its messages, or None."""
    intervals = earlier.intervals(key)
    if not intervals:
        return None
    end = min(intervals[-1][1], earlier.ended_ns)
    may_be_other = earlier.identity is None and _ended_by_itself(earlier)
    topic = earlier.topics.get(key)
    if topic is None:
        return _Left(end, may_be_other)
    silent = topic.timeline.last_ns + TAKES_EFFECT_NS
    gave_up = earlier.ending is not None and earlier.ending.cause == "heartbeat"
    is_cut_off = gave_up or any(each.topic.timeline.between(silent, end).least for each in siblings.each)
    return _Left(min(silent, end), may_be_other=False) if is_cut_off else _Left(end, may_be_other)


def _ended_by_itself(earlier: Subscriber) -> bool:
    ending = earlier.ending
    return ending is not None and ending.side == earlier.side and ending.cause in ("closed", "reset")


def _early(floor: int, since: int, siblings: Siblings) -> Missed | None:
    """Return the largest number of messages that a connected sibling got between the times `floor` and `since` (ns),
    with that sibling."""
    if siblings.first_ns >= since:
        return Missed(0, siblings.each[0].subscriber)
    most: Missed | None = None
    for subscriber, topic, _ in siblings.each:
        messages = 0
        if topic.first.ns < since:
            if not subscriber.is_open and subscriber.last_ns < since:
                continue
            messages = topic.timeline.between(floor, since).least
        if most is None or messages > most.messages:
            most = Missed(messages, subscriber)
    return most


def _missed(
    slow: Subscriber, topic: PublishedTopic | None, interval: tuple[int, int], siblings: Siblings, now: int
) -> Missed | None:
    """Return the messages that other subscribers received during the subscription of `slow`, and `slow` did not.

    `interval` is the start and end (ns) of that subscription. Messages that were sent too late to arrive by its end, or
    by `now`, do not count.
    """
    since, until = interval
    if slow.is_open and until == slow.last_ns:
        until = now
    count, first = (0, 0) if topic is None else (topic.timeline.count, topic.first.ns)
    # the usual case: as many as any other, all of them after the start of the comparison
    has_all = count >= siblings.messages and first >= max(since, siblings.since_ns) + TAKES_EFFECT_NS
    most: Missed | None = None
    for sibling, published, sibling_since in siblings.each:
        begin = max(since, sibling_since) + TAKES_EFFECT_NS
        got = count if topic is None or has_all else count - topic.timeline.before(begin).least
        if most is not None and published.timeline.count - got <= most.messages:
            continue  # another sibling shows as much
        end = surely_sent(slow, sibling.latest_ns, until)
        if end is not None and begin < end:
            if has_all:
                return Missed(0, sibling)
            messages = published.timeline.between(begin, end).least - got
            if most is None or messages > most.messages:
                most = Missed(max(0, messages), sibling)
    return most


def surely_sent(slow: Subscriber, latest_ns: int, until: int) -> int | None:
    """Return the time (ns) up to which sent messages must have arrived by the time `until`, or are lost; None if
    unknown.

    `latest_ns` is the time of the last published message.
    """
    if slow.stalled_ns > until - ARRIVES_NS:
        return None  # all of it may be in transit
    is_drained = slow.latest_ns >= latest_ns and until - slow.latest_ns >= QUIET_NS
    return until if is_drained else min(slow.latest_ns, until) - ARRIVES_NS


# -- records -----------------------------------------------------------------------------------------------------------


def topic_and_delivery_records(knowledge: Knowledge, ordinal: int) -> Iterator[Record]:
    """Yield the derived records `topic`, then `delivery`; `ordinal` is the position of the end of the capture."""
    by_topic = grouped(((each.publisher, each.key), each) for each in deliveries(knowledge))
    for (publisher, key), each in by_topic.items():
        yield _topic_record(publisher, key, each, ordinal)
    for each in by_topic.values():
        for delivery in each:
            yield _delivery_record(delivery, ordinal)


def _topic_record(publisher: Publisher, key: TopicKey, given: list[Delivery], ordinal: int) -> Record:
    got = [delivery.topic for delivery in given if delivery.topic is not None]
    most, first = max(got, key=attrgetter("timeline.count")), min(got, key=attrgetter("first.ns"))
    return derived(
        "topic",
        ordinal,
        first.first,
        topic=to_text(key.topic or b""),
        publisher=publisher.name,
        messages=most.timeline.count,
        bytes=most.octets,
        first_ns=first.first.ns,
        last_ns=max(topic.timeline.last_ns for topic in got),
        subscribers=len(got),
    )


def _delivery_record(delivery: Delivery, ordinal: int) -> Record:
    subscriber, topic = delivery.subscriber, delivery.topic
    connection, early, missed = subscriber.connection, delivery.early, delivery.missed
    return derived(
        "delivery",
        ordinal,
        connection.start if topic is None else topic.first,
        connection.stream_of(1 - subscriber.side),
        topic=to_text(delivery.key.topic or b""),
        publisher=delivery.publisher.name,
        subscriber=subscriber.name,
        messages=delivery.messages,
        unacknowledged=delivery.unacknowledged,
        siblings=delivery.siblings,
        missed_early=early.messages if early is not None else None,
        missed=missed.messages if missed is not None else None,
        first_ns=None if topic is None else topic.first.ns,
        last_ns=None if topic is None else topic.timeline.last_ns,
    )
