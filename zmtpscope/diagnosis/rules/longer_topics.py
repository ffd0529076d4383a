"""Subscriptions that also match longer topics, which the subscriber may not expect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.publishers import Subscriber, publishers
from zmtpscope.diagnosis.across.words import name_of, of_topics, topic_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.topics import GOES_ON, KINDS
from zmtpscope.grouping import grouped
from zmtpscope.words import counted

LONGER_TOPIC = "longer-topic"

MAX_REPORTED = 3


class Longer(NamedTuple):
    """A topic that begins with a subscribed topic and is longer, with its first message and number of messages."""

    name: bytes
    first: Moment
    messages: int


class Overlap(NamedTuple):
    """A subscriber that receives the topic of its subscription, and longer topics."""

    subscriber: Subscriber
    topic: bytes
    longer: Sequence[Longer]


def _longer_topics(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher in publishers(knowledge):
        overlaps = (each for subscriber in publisher.subscribers for each in _overlaps(subscriber))
        for same in grouped((each.topic, each) for each in overlaps).values():
            yield _diagnosis(same)


def _overlaps(subscriber: Subscriber) -> Iterator[Overlap]:
    if subscriber.is_of_groups or not subscriber.is_filtered:
        return
    longer: dict[bytes, list[Longer]] = {}
    frames = {key.topic: topic for key, topic in subscriber.topics.items() if key.is_frame and key.topic}
    asked = {each.topic for each in subscriber.subscriptions if each.topic in frames}
    for name, topic in frames.items() if asked else ():
        longest = max((each.topic for each in subscriber.matching(topic.key)), key=len, default=name)
        if longest in asked and longest != name and KINDS[name[len(longest)]] == GOES_ON:
            longer.setdefault(longest, []).append(Longer(name, topic.first, topic.timeline.count))
    for key, topic in subscriber.topics.items():
        if topic.is_text and topic.longer_first is not None and 0 < topic.longer < topic.timeline.count:
            found = Longer(topic.longer_name, topic.longer_first, topic.longer)
            longer.setdefault(key.topic or b"", []).append(found)
    for name, each in longer.items():
        yield Overlap(subscriber, name, each)


def _diagnosis(same: Sequence[Overlap]) -> Diagnosis:
    subscriber, topic, longer = same[0]
    names = sorted(each.name for each in longer)
    more = f" and {counted(len(names) - MAX_REPORTED, 'topic')} more" if len(names) > MAX_REPORTED else ""
    others = f" (and {len(same) - 1} more)" if len(same) > 1 else ""
    messages = sum(each.messages for each in longer)
    first = min(longer, key=attrgetter("first.ns"))
    return Diagnosis.of(
        LONGER_TOPIC,
        "note",
        f"{topic_name(topic)} at {name_of(subscriber.connection, 1 - subscriber.side)}",
        f"{name_of(subscriber.connection, subscriber.side)}{others} subscribed to {topic_name(topic)} and also gets "
        f"{of_topics(names[:MAX_REPORTED])}{more} ({counted(messages, 'message')}): a subscription matches every topic "
        "that begins with it",
        "end topics with a separator and subscribe with it, or compare the whole topic in the receiver",
        evidence=(Evidence(first.first, f"the first message of {topic_name(first.name)}"),),
        about=(each.subscriber for each in same),
        count=messages,
    )


TABLE = (
    Rule(
        LONGER_TOPIC,
        "note",
        "A subscription also matches longer topics",
        "A subscriber receives the topic that it subscribed to, and also longer topics that begin with it. The longer "
        'name continues with a letter, a digit, "_" or "-": a subscription to "tx" also receives "tx_trytes". '
        "The topic is a frame of its own, or the start of a text before a separator. A note, because a program may "
        "want both topics.",
        'The longer topic continues with a separator such as "." or "/", or another subscription requests it.',
        _longer_topics,
    ),
)
