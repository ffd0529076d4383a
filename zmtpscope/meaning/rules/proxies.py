"""Proxies that do not pass on what they get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zmtpscope.meaning.deliveries import TAKES_EFFECT_NS, surely_sent
from zmtpscope.meaning.diagnosis import LIKELY, Diagnosis, Evidence, Rule
from zmtpscope.meaning.knowledge import Knowledge
from zmtpscope.meaning.publishers import Publisher, Subscriber, publishers
from zmtpscope.meaning.topic_groups import TopicKey
from zmtpscope.meaning.words import counted, name_of, topic_name

MOST_PAIRS = 65_536
"""So many pairs of a topic and a subscriber behind a proxy are looked at."""


class Proxy(NamedTuple):
    """A host that subscribes, and publishes at one endpoint what it gets."""

    incoming: list[Subscriber]
    outgoing: Publisher


class Dropped(NamedTuple):
    """At least so many messages of a topic went in and did not come out to a subscriber."""

    messages: int
    key: TopicKey
    subscriber: Subscriber


def _proxies(knowledge: Knowledge) -> Iterator[Proxy]:
    """Hosts with an XSUB that connects or listens, and one XPUB that is bound. (Another program on the same host may
    have one of them.)"""
    incoming: dict[str, list[Subscriber]] = {}
    outgoing: dict[str, list[Publisher]] = {}
    for publisher in publishers(knowledge):
        if publisher.endpoint is not None and publisher.socket_type == "XPUB":
            outgoing.setdefault(publisher.ip, []).append(publisher)
        for subscriber in publisher.subscribers:
            if subscriber.socket_type == "XSUB":
                incoming.setdefault(subscriber.ip, []).append(subscriber)
    for ip, bound in outgoing.items():
        if ip in incoming and len(bound) == 1:
            yield Proxy(incoming[ip], bound[0])


def _dropping(knowledge: Knowledge) -> Iterator[Diagnosis]:
    for proxy in _proxies(knowledge):
        found = list(_dropped(proxy, knowledge))
        if found:
            yield _diagnosis(proxy, found)


def _dropped(proxy: Proxy, knowledge: Knowledge) -> Iterator[Dropped]:
    keys = list(dict.fromkeys(key for each in proxy.incoming for key in each.topics if key.topic is not None))
    if len(keys) * len(proxy.outgoing.subscribers) > MOST_PAIRS:
        return
    for subscriber in proxy.outgoing.subscribers:
        if subscriber.is_filtered:
            for key in keys:
                messages = _missing(proxy.incoming, subscriber, key, knowledge)
                if messages > 0:
                    yield Dropped(messages, key, subscriber)


def _missing(incoming: list[Subscriber], subscriber: Subscriber, key: TopicKey, knowledge: Knowledge) -> int:
    """How many went in while a subscriber behind the proxy wanted them, and did not come out to it."""
    intervals = subscriber.intervals(key)
    if not intervals:
        return 0
    since, until = intervals[-1]
    if subscriber.connection.is_open and until == subscriber.connection.last_ns:
        until = knowledge.last_ns
    begin = since + TAKES_EFFECT_NS
    end = surely_sent(subscriber, max(each.latest_ns for each in incoming), until)
    if end is None or end <= begin:
        return 0
    went_in = sum(each.topics[key].timeline.between(begin, end).least for each in incoming if key in each.topics)
    own = subscriber.topics.get(key)
    return went_in - (0 if own is None else own.timeline.count - own.timeline.before(begin).least)


def _diagnosis(proxy: Proxy, found: list[Dropped]) -> Diagnosis:
    worst = max(found, key=_messages)
    source = next(each for each in proxy.incoming if worst.key in each.topics)
    first, subscriber = source.topics[worst.key].first, worst.subscriber
    others = len(found) - 1
    more = f" (and others for {others} more)" if others else ""
    topic = topic_name(worst.key.topic)
    return Diagnosis(
        "proxy-drops",
        "warn",
        f"the proxy at {proxy.outgoing.name}",
        f"The proxy {name_of(subscriber.connection, 1 - subscriber.side)} got {counted(worst.messages, 'message')} of "
        f"{topic} at least that it did not pass on to {name_of(subscriber.connection, subscriber.side)}, "
        f"which was subscribed{more}",
        "raise ZMQ_SNDHWM of its XPUB, or let the subscriber read faster: an XPUB drops what exceeds it "
        "(ZMQ_XPUB_NODROP lets it wait instead)",
        (
            Evidence(first, f"the first message of {topic} into the proxy"),
            Evidence(subscriber.connection.start, "the connection to the subscriber", subscriber.connection.ref),
        ),
        sum(each.messages for each in found),
        certainty=LIKELY,
        conn_ids=frozenset(each.subscriber.connection.conn_id for each in found),
    )


def _messages(dropped: Dropped) -> int:
    return dropped.messages


TABLE = (
    Rule(
        "proxy-drops",
        "warn",
        "A proxy does not pass on what it gets",
        "A host has an XSUB and, at one endpoint, an XPUB. More messages of a topic went in than came out to a "
        "subscriber, while that was subscribed and took what came. It is likely only: that both sockets belong to one "
        "program, and that it passes on everything, no capture shows. Both sides have to be in the capture.",
        _dropping,
    ),
)
