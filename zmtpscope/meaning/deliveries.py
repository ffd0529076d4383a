"""Who got how much of each topic, beside others who get it from the same publisher.

A publisher filters since ZMTP 3.0, so what a subscriber missed was never sent to it: only what a sibling got at the
same time proves that it was published. All numbers are lower bounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from zmtpscope.dissect import Record
from zmtpscope.meaning.knowledge import Knowledge, once
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observed import ObservedStall
from zmtpscope.meaning.observer import derived_record
from zmtpscope.meaning.publishers import Publisher, Subscriber, publishers
from zmtpscope.meaning.topic_groups import TopicKey
from zmtpscope.meaning.topics import PublishedTopic
from zmtpscope.records import SCHEMA, SECOND, empty, to_text

MOST_SIBLINGS = 4
"""So many siblings are compared with, those that got most."""

MOST_EARLIER = 8
"""So many earlier connections of a subscriber are looked at."""

MOST_PAIRS = 262_144
"""So many pairs of a topic and a subscriber are looked at which got nothing of it."""

TAKES_EFFECT_NS = SECOND // 10
"""So much later a subscription is surely in force at the publisher."""

ARRIVES_NS = SECOND // 2
"""So much later a message has surely come to one who takes what comes, if it came to another ..."""

QUIET_NS = SECOND // 33
"""... and after so long without any, where its last one is later than the last one of the other."""


class Missed(NamedTuple):
    """At least so many messages a sibling got, and another did not."""

    messages: int
    sibling: Subscriber


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """What a subscriber got of a topic; `topic` is None where it subscribed and got nothing.

    `early` is what a sibling got before this one subscribed, `missed` what it got while this one was subscribed. None:
    nothing proves any. `left_ns` is until when it had the topic on an earlier connection; None where it had not.
    `may_be_other` says that this one may have been another program's on the same host: it has no identity, and ended
    the connection by itself.
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
        """How many it got."""
        return 0 if self.topic is None else self.topic.timeline.count


@once
def deliveries(knowledge: Knowledge) -> tuple[Delivery, ...]:
    """All of a run, by publisher and topic."""
    return tuple(delivery for publisher in publishers(knowledge) for delivery in _of_publisher(publisher, knowledge))


def _of_publisher(publisher: Publisher, knowledge: Knowledge) -> Iterator[Delivery]:
    keys, subscribers = publisher.topic_keys(), publisher.subscribers
    has_room = len(keys) * len(subscribers) <= MOST_PAIRS
    earlier = _earlier(subscribers)
    for key in keys:
        got = [(each.topics[key].timeline.count, each) for each in subscribers if key in each.topics]
        most = [_Sibling.of(each, key) for _, each in nlargest(MOST_SIBLINGS + 1, got, key=_count)]
        for subscriber in subscribers:
            topic = subscriber.topics.get(key)
            if topic is None and not (has_room and subscriber.matching(key)):
                continue
            siblings = [each for each in most if each.subscriber is not subscriber][:MOST_SIBLINGS]
            early, missed, left, may_be_other = None, None, None, False
            intervals = subscriber.intervals(key) if siblings and subscriber.is_filtered else []
            if intervals:
                ends = [_left(each, key, siblings) for each in earlier[subscriber]]
                left, may_be_other = max((end for end in ends if end is not None), default=(None, False))
                early = _early(left or 0, intervals[0][0], siblings)
                missed = _missed(subscriber, topic, intervals[-1], siblings, knowledge)
            yield Delivery(
                publisher, subscriber, key, topic, len(got) - (topic is not None), early, missed, left, may_be_other
            )


class _Sibling(NamedTuple):
    """One that got much of a topic, and when it subscribed to it."""

    subscriber: Subscriber
    topic: PublishedTopic
    since_ns: int

    @classmethod
    def of(cls, subscriber: Subscriber, key: TopicKey) -> _Sibling:
        intervals = subscriber.intervals(key)
        return cls(subscriber, subscriber.topics[key], intervals[0][0] if intervals else 0)


def _count(got: tuple[int, Subscriber]) -> int:
    return got[0]


def _earlier(subscribers: Iterable[Subscriber]) -> dict[Subscriber, list[Subscriber]]:
    """Of each subscriber those that may be the same one before it connected again, the last ones."""
    seen: dict[tuple[str, str | None, str | None], deque[Subscriber]] = {}
    found = {}
    for each in subscribers:
        same = seen.setdefault((each.ip, each.identity, each.socket_type), deque(maxlen=MOST_EARLIER))
        start = each.connection.start.ns
        found[each] = [earlier for earlier in same if earlier.ended_ns <= start]
        same.append(each)
    return found


class _Left(NamedTuple):
    """Until when an earlier connection had a topic (ns), and whether that may have been another program's."""

    ns: int
    may_be_other: bool


def _left(earlier: Subscriber, key: TopicKey, siblings: list[_Sibling]) -> _Left | None:
    """Until when an earlier connection had a topic, and what came to others came to it, too: a link that is down ends
    a connection late. None where it never had it."""
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
    is_cut_off = gave_up or any(each.topic.timeline.between(silent, end).least for each in siblings)
    return _Left(min(silent, end), may_be_other=False) if is_cut_off else _Left(end, may_be_other)


def _ended_by_itself(earlier: Subscriber) -> bool:
    ending = earlier.ending
    return ending is not None and ending.side == earlier.side and ending.cause in ("closed", "reset")


def _early(floor: int, since: int, siblings: list[_Sibling]) -> Missed | None:
    """What siblings that were connected then got before somebody subscribed, but for what came before `floor`."""
    found = []
    for subscriber, topic, _ in siblings:
        if topic.first.ns >= since:
            found.append(Missed(0, subscriber))
        elif subscriber.connection.is_open or subscriber.connection.last_ns >= since:
            found.append(Missed(topic.timeline.between(floor, since).least, subscriber))
    return max(found, key=_messages, default=None)


def _missed(
    slow: Subscriber,
    topic: PublishedTopic | None,
    interval: tuple[int, int],
    siblings: list[_Sibling],
    knowledge: Knowledge,
) -> Missed | None:
    """What siblings got while it was subscribed, so long ago that it had come if it had been sent."""
    since, until = interval
    if slow.connection.is_open and until == slow.connection.last_ns:
        until = knowledge.last_ns
    found = []
    for sibling in siblings:
        begin = max(since, sibling.since_ns) + TAKES_EFFECT_NS
        end = surely_sent(slow, sibling.subscriber.latest_ns, until)
        if end is not None and begin < end:
            got = 0 if topic is None else topic.timeline.count - topic.timeline.before(begin).least
            published = sibling.topic.timeline.between(begin, end).least
            found.append(Missed(max(0, published - got), sibling.subscriber))
    return max(found, key=_messages, default=None)


def surely_sent(slow: Subscriber, latest_ns: int, until: int) -> int | None:
    """What was published before this time (ns) has come to a subscriber by `until`, or never will: what came to it
    later came behind it. None where that is not known. `latest_ns` is when the last message was published."""
    if any(end_of_stall(stall) > until - ARRIVES_NS for stall in stalls_of(slow)):
        return None  # it may all be on its way
    is_drained = slow.latest_ns >= latest_ns and until - slow.latest_ns >= QUIET_NS
    return until if is_drained else min(slow.latest_ns, until) - ARRIVES_NS


def _messages(missed: Missed) -> int:
    return missed.messages


def stalls_of(subscriber: Subscriber) -> list[ObservedStall]:
    """The stretches in which the publisher could not send to it."""
    return subscriber.connection.sides[1 - subscriber.side].stalls


def end_of_stall(stall: ObservedStall) -> int:
    """When it was over, or seen last (ns)."""
    until: int | None = stall.values["until_ns"]
    return stall.moment.ns + stall.duration_ns if until is None else until


# -- records -----------------------------------------------------------------------------------------------------------


def topic_and_delivery_records(knowledge: Knowledge, ordinal: int) -> Iterator[Record]:
    """What each publisher published under each topic, and behind it who got how much; `ordinal` is that of the end."""
    by_topic: dict[tuple[Publisher, TopicKey], list[Delivery]] = {}
    for delivery in deliveries(knowledge):
        by_topic.setdefault((delivery.publisher, delivery.key), []).append(delivery)
    for (publisher, key), each in by_topic.items():
        yield _topic_record(publisher, key, each, ordinal)
    for each in by_topic.values():
        for delivery in each:
            yield _delivery_record(delivery, ordinal)


def _topic_record(publisher: Publisher, key: TopicKey, given: list[Delivery], ordinal: int) -> Record:
    got = [delivery.topic for delivery in given if delivery.topic is not None]
    most, first = max(got, key=_size), min(got, key=_first)
    values = empty("topic")
    values.update(
        schema=SCHEMA,
        record="topic",
        **_where(first.first),
        topic=to_text(key.topic or b""),
        publisher=publisher.name,
        messages=most.timeline.count,
        bytes=most.octets,
        first_ns=first.first.ns,
        last_ns=max(topic.timeline.last_ns for topic in got),
        subscribers=len(got),
    )
    return derived_record("topic", values, ordinal)


def _delivery_record(delivery: Delivery, ordinal: int) -> Record:
    subscriber, topic = delivery.subscriber, delivery.topic
    connection, early, missed = subscriber.connection, delivery.early, delivery.missed
    own, peer = connection.sides[subscriber.side], connection.sides[1 - subscriber.side]
    values = empty("delivery")
    values.update(
        schema=SCHEMA,
        record="delivery",
        conn=connection.stream.conn,
        conn_id=connection.conn_id,
        side=1 - subscriber.side,
        **_where(connection.start if topic is None else topic.first),
        src_ip=peer.ip,
        src_port=peer.port,
        dst_ip=own.ip,
        dst_port=own.port,
        topic=to_text(delivery.key.topic or b""),
        publisher=delivery.publisher.name,
        subscriber=subscriber.name,
        messages=delivery.messages,
        siblings=delivery.siblings,
        missed_early=early.messages if early is not None else None,
        missed=missed.messages if missed is not None else None,
        first_ns=None if topic is None else topic.first.ns,
        last_ns=None if topic is None else topic.timeline.last_ns,
    )
    return derived_record("delivery", values, ordinal)


def _where(moment: Moment) -> dict[str, object]:
    return {"ts_ns": moment.ns, "file": moment.file, "packet": moment.packet}


def _size(topic: PublishedTopic) -> int:
    return topic.timeline.count


def _first(topic: PublishedTopic) -> int:
    return topic.first.ns
