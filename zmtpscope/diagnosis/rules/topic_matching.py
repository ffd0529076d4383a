"""Topics and subscriptions that do not match."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import nlargest
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from zmtpscope.diagnosis.across.deliveries import MAX_SIBLINGS
from zmtpscope.diagnosis.across.elsewhere import Elsewhere, elsewhere
from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.across.nearest_topic import (
    MAX_EXAMINED,
    SHORTEST_WORD,
    Near,
    ends_in_wildcard,
    nearest_subscription,
    nearest_topic,
)
from zmtpscope.diagnosis.across.publishers import Publisher, Subscriber, publisher_name, publishers
from zmtpscope.diagnosis.across.words import duration, name_of, of_topics, topic_name
from zmtpscope.diagnosis.diagnosis import Diagnosis, Evidence, Rule
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.diagnosis.observers.subscriptions import ref_of_subscription
from zmtpscope.diagnosis.observers.timeline import EXACT
from zmtpscope.diagnosis.observers.topics import PublishedTopic, TopicKey
from zmtpscope.grouping import grouped
from zmtpscope.records import SECOND
from zmtpscope.words import counted

PATIENCE_NS = SECOND
"""A subscription active for less time may have had no chance, unless it nearly equals a topic."""

LONG_PATIENCE_NS = 3 * SECOND
"""A publisher that sends nothing for less time may have nothing to publish."""

LONGEST_PATIENCE_NS = 10 * SECOND
"""A publisher that sends nothing for this long is reported even if no other one publishes the topic."""

MAX_REPORTED = 32
"""Topics, and subscriptions, to report for one publisher."""

MAX_REPORTED_TOTAL = 128
"""Subscriptions to report for all publishers together."""


CONFLATED, MIN_CONFLATED = "first-frames-lost", 3

BEGINNING = (
    "a subscription is compared octet by octet with the beginning of the first frame: case, spaces and zero octets "
    "count, and there are no wildcards"
)
WHOLE = "groups must be equal, octet by octet: case, spaces and zero octets count, and there are no wildcards"


class Unanswered(NamedTuple):
    """A subscription without a matching message, and its subscriber."""

    subscriber: Subscriber
    subscription: ObservedSubscription


# -- subscriptions that nothing matches --------------------------------------------------------------------------------


def _without_messages(knowledge: Knowledge) -> Iterator[Diagnosis]:
    room = MAX_REPORTED_TOTAL
    for publisher in publishers(knowledge):
        published = _published(publisher)
        latest = nlargest(MAX_SIBLINGS, publisher.subscribers, key=attrgetter("latest_ns"))
        found = grouped((each.subscription.topic, each) for each in _unanswered(publisher))
        for unanswered in list(found.values())[:MAX_REPORTED]:
            other = elsewhere(publisher, *unanswered[0], knowledge)
            if other is not None and other.is_received:
                continue  # one socket is connected to several publishers, and has its subscriptions at each
            start, end = _in_force(unanswered[0].subscription, knowledge.last_ns)
            got = [each.messages_between(start, end + 1) for each in latest]
            others = max(got)
            if others and room:  # otherwise nothing was published meanwhile
                room -= 1
                diagnosis = _without_messages_diagnosis(
                    publisher, unanswered, published, others, sum(map(bool, got)) > 1, end - start, other
                )
                if diagnosis is not None:
                    yield diagnosis

    yield from islice(_silent_publishers(knowledge), MAX_REPORTED)


def _silent_publishers(knowledge: Knowledge) -> Iterator[Diagnosis]:
    """Diagnose publishers that sent nothing although they have subscribers.

    A subscription is reported if another publisher, to which the client is not connected, publishes its topic.
    Otherwise only the longest subscription is reported, if it has lasted long.
    """
    topics = sorted(
        (
            (key.topic, place)
            for place, each in enumerate(publishers(knowledge))
            for key in each.topic_keys()
            if key.topic
        ),
    )
    for publisher in publishers(knowledge):
        if publisher.topic_keys() or any(each.latest_ns for each in publisher.subscribers):
            continue
        found, longest = False, 0
        alone: Unanswered | None = None
        for unanswered in _unanswered(publisher):
            subscriber, subscription = unanswered
            start, end = _in_force(subscription, knowledge.last_ns)
            if end - start < LONG_PATIENCE_NS:
                continue
            place = bisect_left(topics, (subscription.topic, 0))
            if place < len(topics) and subscription.matches(topics[place][0] or b""):
                other = publishers(knowledge)[topics[place][1]]
                if subscriber.ip not in {each.ip for each in other.subscribers}:
                    found = True
                    yield _silent_diagnosis(publisher, unanswered, end - start, other)
            elif end - start > longest:
                alone, longest = unanswered, end - start
        if alone is not None and not found and longest >= LONGEST_PATIENCE_NS:
            yield _silent_diagnosis(publisher, alone, longest, None)


def _silent_diagnosis(publisher: Publisher, unanswered: Unanswered, lasted: int, other: Publisher | None) -> Diagnosis:
    """Return the diagnosis of a subscription at `publisher`, which sent nothing for `lasted` (ns).

    `other` is another publisher of the topic, or None.
    """
    subscriber, subscription = unanswered
    who, asked = name_of(subscriber.connection, subscriber.side), subscriber.asked_for(subscription.topic)
    text = f"{who} {asked} at {publisher_name(subscriber)}, which sent nothing for {duration(lasted)}"
    if other is None:
        text += " to any subscriber"
        hint = f"it published nothing, or nothing that matches: {WHOLE if subscriber.is_of_groups else BEGINNING}"
    else:
        text += f"; {other.socket_type} {other.name} publishes it"
        hint = f"if the other publisher is meant, connect to {other.name}; otherwise nothing was published for it yet"
    return Diagnosis.of(
        "subscription-without-messages",
        "note",
        f"{topic_name(subscription.topic)} at {publisher.name}",
        text,
        hint,
        evidence=(
            Evidence(
                subscription.moment,
                f"{who} {asked}",
                ref_of_subscription(subscriber.connection, subscriber.side, subscription),
            ),
        ),
        about=(subscriber,),
        proven=other is None,
    )


def _in_force(subscription: ObservedSubscription, now: int) -> tuple[int, int]:
    return subscription.moment.ns, now if subscription.until_ns is None else subscription.until_ns


def _unanswered(publisher: Publisher) -> Iterator[Unanswered]:
    """Yield the subscriptions that match no captured topic of a publisher that filters."""
    unknown = (
        topic.beginning for each in publisher.subscribers for topic in each.topics.values() if not topic.key.topic
    )
    topics = sorted((*(key.topic or b"" for key in publisher.topic_keys()), *unknown))
    for subscriber in publisher.subscribers:
        if subscriber.is_filtered and not any(map(_is_open, subscriber.topics.values())):
            for subscription in subscriber.subscriptions:
                is_idle = subscription.topic and not subscription.messages
                if is_idle and not _matches_any(subscription, topics):
                    yield Unanswered(subscriber, subscription)


def _is_open(topic: PublishedTopic) -> bool:
    """Whether the subscription of a topic may be one that is not known, so that nothing can be concluded from it."""
    return topic.unmatched > 0 or topic.key.topic is None


def _matches_any(subscription: ObservedSubscription, topics: list[bytes]) -> bool:
    place = bisect_left(topics, subscription.topic)
    return place < len(topics) and subscription.matches(topics[place])


def _published(publisher: Publisher) -> dict[bytes, PublishedTopic]:
    """Return the captured topics of a publisher, by their name or its first octets."""
    found: dict[bytes, PublishedTopic] = {}
    for subscriber in publisher.subscribers:
        for key, topic in subscriber.topics.items():
            name = key.topic if key.is_frame else topic.beginning
            if name and (key.topic is not None or topic.unmatched):
                found.setdefault(name, topic)
    return found


def _without_messages_diagnosis(
    publisher: Publisher,
    unanswered: list[Unanswered],
    published: dict[bytes, PublishedTopic],
    others: int,
    are_some: bool,
    lasted: int,
    other: Elsewhere | None,
) -> Diagnosis | None:
    """Diagnose subscriptions of one topic without messages; or return None if they were too short, and resemble no
    topic.

    Another subscriber received `others` messages in the `lasted` ns of the subscription. `are_some`: several
    subscribers received messages. `other` is another publisher of the topic, or None.
    """
    subscriber, subscription = unanswered[0]
    topic = subscription.topic
    is_open = ends_in_wildcard(topic)  # it gets other topics by other subscriptions
    others_published = (name for name, each in published.items() if is_open or not _has(subscriber, each.key))
    near = nearest_topic(topic, others_published, whole=subscriber.is_of_groups)
    if near is None and lasted < PATIENCE_NS:
        return None
    who = name_of(subscriber.connection, subscriber.side)
    more = f" (and {len(unanswered) - 1} more)" if len(unanswered) > 1 else ""
    does, does_not = ("is for", "is not for") if subscriber.is_of_groups else ("begins with", "does not begin with")
    at_least = "at least " if are_some or others > EXACT else ""
    what = f"none of {at_least}{others} messages {does} it"
    if others == 1 and not are_some:
        what = f"the only message {does_not} it"
    evidence = [
        Evidence(
            subscription.moment,
            f"{who} {subscriber.asked_for(topic)}",
            ref_of_subscription(subscriber.connection, subscriber.side, subscription),
        )
    ]
    if near is not None:
        asked = "joined group" if subscriber.is_of_groups else "subscription"
        what += f"; {topic_name(near.name)} is published, the {asked} {near.how}"
        evidence.append(Evidence(published[near.name].first, f"the first message of {topic_name(near.name)}"))
    is_telling = near is not None and near.is_telling
    second = None if is_telling else _in_second_frame(publisher, topic)
    if second is not None:
        is_telling = True
        what += f"; the second frame of messages begins with it, and the first one {_described(second.key.topic)}"
        evidence.append(Evidence(second.first, "the first of these messages"))
    hint = (WHOLE if subscriber.is_of_groups else BEGINNING) + (
        "" if is_telling else ("; or nothing was published for it yet")
    )
    if other is not None and not is_telling:
        what += f"; {other.publisher.socket_type} {other.publisher.name} publishes it"
        hint = (
            f"if the other publisher is meant, connect to {other.publisher.name}; otherwise nothing was published "
            "for it yet"
        )
    return Diagnosis.of(
        "subscription-without-messages",
        "warn" if is_telling else "note",
        f"{topic_name(topic)} at {publisher.name}",
        f"{who}{more} {subscriber.asked_for(topic)} at {publisher_name(subscriber)}: {what}",
        hint,
        evidence=evidence,
        about=(each.subscriber for each in unanswered),
        last_ns=unanswered[-1].subscription.moment.ns,
        proven=near is None and second is None,
    )


def _in_second_frame(publisher: Publisher, topic: bytes) -> PublishedTopic | None:
    """Return a published topic whose first message contains the subscribed topic in its second frame, or None."""
    topics = (each for subscriber in publisher.subscribers for each in subscriber.topics.values())
    found = (each for each in islice(topics, MAX_EXAMINED) if each.key.is_frame and each.second.startswith(topic))
    return next(found, None) if len(topic) >= SHORTEST_WORD else None


def _described(frame: bytes | None) -> str:
    return f"is {topic_name(frame)}" if frame else "is empty"


def _has(subscriber: Subscriber, key: TopicKey) -> bool:
    return bool(subscriber.matching(key))


# -- topics that nothing matches ---------------------------------------------------------------------------------------


def _without_subscriber(knowledge: Knowledge) -> Iterator[Diagnosis]:
    unmatched = (
        (publisher, name, got)
        for publisher in publishers(knowledge)
        for name, got in islice(_unmatched(publisher).items(), MAX_REPORTED)
    )
    for publisher, name, got in islice(unmatched, MAX_REPORTED_TOTAL):
        yield _without_subscriber_diagnosis(publisher, name, got)


def _unmatched(publisher: Publisher) -> dict[bytes, list[tuple[Subscriber, PublishedTopic]]]:
    """Return the topics that matched no subscription of any connection, with the subscribers that received them."""
    found: dict[bytes, list[tuple[Subscriber, PublishedTopic]]] = {}
    matched: set[bytes] = set()
    for subscriber in publisher.subscribers:
        for key, topic in subscriber.topics.items():
            name = key.topic if key.is_frame else topic.beginning
            if not name:
                continue
            if _is_unmatched(subscriber, topic) and _shows_subscriptions(subscriber):
                found.setdefault(name, []).append((subscriber, topic))
            else:
                matched.add(name)
    return {name: got for name, got in found.items() if name not in matched}


def _is_unmatched(subscriber: Subscriber, topic: PublishedTopic) -> bool:
    """Whether a subscriber received messages of a topic that no subscription matched, not even a later one.

    False for an XSUB, which may subscribe to everything for its own subscribers.
    """
    if subscriber.socket_type == "XSUB":
        return False
    if topic.key.topic is None:
        return topic.unmatched > 0
    early = 0 if subscriber.matching(topic.key) else topic.early
    return topic.unmatched + early == topic.timeline.count


def _shows_subscriptions(subscriber: Subscriber) -> bool:
    """Whether all subscriptions of a subscriber are in the capture, and there is at least one."""
    values = subscriber.connection.values or {}
    is_sealed = values.get("sealed_0") or values.get("sealed_1")
    is_known = subscriber.connection.is_whole and subscriber.has_all_subscriptions and not is_sealed
    return is_known and bool(subscriber.subscriptions)


def _without_subscriber_diagnosis(
    publisher: Publisher, name: bytes, got: list[tuple[Subscriber, PublishedTopic]]
) -> Diagnosis:
    subscriber, topic = got[0]
    wanted = (each.topic for subscriber in publisher.subscribers for each in subscriber.subscriptions)
    near: Near | None = nearest_subscription(name, dict.fromkeys(wanted))
    nearly = "" if near is None else f"; the subscription {topic_name(near.name)} {near.how}"
    messages = max(each.timeline.count for _, each in got)
    is_mistake = near is not None and near.is_telling and publisher.socket_type != "XPUB"
    return Diagnosis.of(
        "topic-without-subscriber",
        "warn" if is_mistake else "note",
        f"{topic_name(name)} at {publisher.name}",
        f"{publisher_name(subscriber)} sends {topic_name(name)} to "
        f"{name_of(subscriber.connection, subscriber.side)} in {counted(messages, 'message')} that no subscription "
        f"matches{nearly}",
        "correct the topic on one side, or let the publisher filter: a SUB drops such messages; no action for "
        "ZMQ_INVERT_MATCHING on both sides, a welcome message, or ZMQ_XPUB_MANUAL",
        evidence=(Evidence(topic.first, f"the first message of {topic_name(name)}"),),
        about=(each for each, _ in got),
        count=messages,
        last_ns=max(each.timeline.last_ns for _, each in got),
        proven=near is None,
    )


# -- first frames that are lost ----------------------------------------------------------------------------------------


def _conflated(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for publisher in publishers(knowledge):
        if publisher.socket_type != "PUB" or any(key.is_frame for each in publisher.subscribers for key in each.topics):
            continue
        met = [each for each in publisher.subscribers if _gets_last_frames(each)]
        if met:
            yield _conflated_diagnosis(publisher, met)


def _gets_last_frames(subscriber: Subscriber) -> bool:
    """Whether a subscriber received only messages of one frame, to none of which it subscribed, from a publisher that
    filters."""
    got = subscriber.topics.values()
    return (
        subscriber.socket_type == "SUB"
        and subscriber.is_filtered
        and _shows_subscriptions(subscriber)
        and sum(topic.unmatched for topic in got) >= MIN_CONFLATED
        and all(topic.key.topic is None and not topic.early for topic in got)
    )


def _conflated_diagnosis(publisher: Publisher, met: list[Subscriber]) -> Diagnosis:
    subscriber = met[0]
    (topic,) = subscriber.topics.values()
    asked = dict.fromkeys(each.topic for each in subscriber.subscriptions)
    more = f" and {counted(len(met) - 1, 'subscriber')} more" if len(met) > 1 else ""
    return Diagnosis.of(
        CONFLATED,
        "warn",
        publisher.name,
        f"{publisher_name(subscriber)} sends {counted(topic.unmatched, 'message')} of one frame to "
        f"{name_of(subscriber.connection, subscriber.side)}{more}, none of which begins with "
        f"{of_topics(list(asked))}: their first frames are lost, as with ZMQ_CONFLATE",
        "do not set ZMQ_CONFLATE for messages of several frames: it keeps the last frame only; put the topic and "
        "the body into one frame; no action if ZMQ_INVERT_MATCHING is set on both sides",
        evidence=(Evidence(topic.first, "the first of these messages"),),
        about=met,
        count=topic.unmatched,
        last_ns=topic.timeline.last_ns,
        proven=False,
    )


TABLE = (
    Rule(
        CONFLATED,
        "warn",
        "A publisher loses the first frames of its messages",
        "A PUB that filters sent a SUB at least three messages of one frame each, and none of them begins with a "
        "topic to which the SUB subscribed. So the frame with the topic is missing. ZMQ_CONFLATE drops it, because "
        "that option does not support messages of several frames. Not proven: ZMQ_INVERT_MATCHING on both sides looks "
        "the same.",
        "The PUB sends messages of several frames, or one that a subscription matches.",
        _conflated,
        ("topic-without-subscriber", "subscription-without-messages"),
    ),
    Rule(
        "subscription-without-messages",
        "warn",
        "A subscription matches no published topic, or a group receives no message",
        "A subscription matched no message although the publisher sent others, or a DISH joined a group to which no "
        "RADIO sends. Since ZMTP 3.0, publishers do not send topics without a subscriber, so the right topic may be "
        "missing from the capture.\n"
        "* Severity warning if a captured topic nearly equals the subscription. It may differ in case, quotes, a space "
        "or zero octet at an end, a wildcard, or UTF-16, or be shorter.\n"
        "* Severity note if the publisher sent nothing at all for 3 s, and another publisher, to which the client is "
        "not connected, sends the topic.\n"
        "* Severity note if the publisher sent nothing at all for 10 s.\n"
        "* Otherwise a note: the publisher may have published nothing for this subscription.",
        "* The publisher sends any subscriber a topic that begins with the subscription.\n"
        "* The subscriber's host has the same subscription at another publisher, which sends matching messages.",
        _without_messages,
    ),
    Rule(
        "topic-without-subscriber",
        "warn",
        "A topic is sent that no subscription matches",
        "Subscribers received messages that match none of their subscriptions, although all their subscriptions were "
        "captured. Since ZMTP 3.0 publishers filter, so the publisher is older, or does not filter.\n"
        "* Severity warning if a subscription nearly matches the topic.\n"
        "* Severity note if none does, or if an XPUB publishes, which may map topics (ZMQ_XPUB_MANUAL).",
        "* Subscriptions of the receiver are missing from the capture, or encrypted.\n"
        "* Another subscriber subscribed to the topic.\n"
        "* A later subscription matches, and the messages came before the first subscription.\n"
        "* The receiver is an XSUB.\n"
        "* The capture cuts off the message.",
        _without_subscriber,
    ),
)
