"""The view of subscriptions, by topic and subscriber, with their state after reconnects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from operator import attrgetter

from zmtpscope.diagnosis.across.publishers import Subscriber
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscription
from zmtpscope.diagnosis.observers.subscriptions import delay_of, ref_of_subscription
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.export.preview import quoted
from zmtpscope.filter.writing import begins_with, equals, every, one_of
from zmtpscope.records import to_text
from zmtpscope.tui.requests import Table, Wanted
from zmtpscope.tui.worker.views.derived import DerivedView
from zmtpscope.tui.worker.views.subscribers import (
    LATE_NS,
    LostTopic,
    SubscribedPublisher,
    Subscribers,
    is_late,
    name_of_subscriber,
    subscribers_of,
)
from zmtpscope.tui.worker.views.tables import Column, Line, seconds, shown_times, table_of
from zmtpscope.tui.worker.views.view import AS_IT_IS
from zmtpscope.words import counted

MAX_SUBSCRIBERS = 32
"""Maximum subscribers with a column; the others share one."""

MAX_TOPICS = 4096

MAX_BELOW = 100
"""Maximum subscriptions listed below a topic."""

LONGEST_NAME = 80

WIDEST_TOPIC = 30
"""Maximum cells of the topic column, for 80-column terminals."""

EVERYTHING = "(everything)"

TEXT, ORDER, LOOK = attrgetter("text"), attrgetter("order"), attrgetter("look")
"""Parts of a `Cell`."""

CHANGES = "name in {SUBSCRIBE, CANCEL, JOIN, LEAVE} or kind in {subscribe, cancel}"
"""Commands of ZMTP 3.1, and messages of earlier versions."""


class SubscriptionsView(DerivedView):
    """A row per publisher with its topics below, and a column per subscriber. Rows below a topic link to
    subscriptions."""

    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        """Return the publishers with their topics, sorted, topics with lost subscriptions first."""
        self._shown_time = shown_times(self.store, wanted.time)
        found = subscribers_of(self.derived.knowledge)
        shown = dict(islice(found.names.items(), MAX_SUBSCRIBERS))
        others = len(found.names) - len(shown)
        columns = [
            Column("topic", "TOPIC", is_name=True, widest=WIDEST_TOPIC),
            *(Column(key, name, TEXT, order=ORDER, rank=1, look=LOOK) for key, name in shown.items()),
            *([Column("others", "OTHERS", str, is_number=True)] if others else []),
        ]
        lines = (self._publisher(each, found, shown) for each in found.publishers)
        return table_of(columns, lines, wanted, list(_summary(found, others)))

    def _publisher(self, publisher: SubscribedPublisher, found: Subscribers, shown: Collection[str]) -> Line:
        key = f"publisher {publisher.endpoint} {publisher.conn}"
        knowledge = self.derived.knowledge
        subscribers = publisher.subscribers
        cells = {each: subscribers[each].presence(knowledge) for each in shown if each in subscribers}
        topics = publisher.topics[:MAX_TOPICS]
        return Line(
            key,
            {"topic": publisher.name, **cells, "others": sum(each not in shown for each in subscribers)},
            every(_to(publisher), CHANGES),
            children=lambda: [self._topic(key, publisher, topic, found.lost, shown) for topic in topics],
            is_open=True,
            is_sorted=True,
            scope=one_of("conn", publisher.conns),
        )

    def _topic(
        self,
        key: str,
        publisher: SubscribedPublisher,
        topic: bytes,
        lost: frozenset[LostTopic],
        shown: Collection[str],
    ) -> Line:
        subscribers, text = publisher.subscribers, to_text(topic)
        cells = {each: subscribers[each].cell(topic, lost) for each in shown if each in subscribers}
        without = (own for each, own in subscribers.items() if each not in shown)
        having = sum(any(topic in of for of in own.by_topic) for own in without)
        name = quoted(text, LONGEST_NAME) if topic or publisher.has_groups else EVERYTHING
        field = "group" if publisher.has_groups else "topic"
        is_topic = begins_with(field, text) if len(topic) == LONGEST_TOPIC else equals(field, text)
        return Line(
            f"{key} {text}",
            {"topic": name, **cells, "others": having or None},
            every(_to(publisher), is_topic, CHANGES),
            children=lambda: self._single(f"{key} {text}", publisher, topic, lost),
            scope="",
        )

    # -- single subscriptions ------------------------------------------------------------------------------------------

    def _single(
        self, key: str, publisher: SubscribedPublisher, topic: bytes, lost: frozenset[LostTopic]
    ) -> Sequence[Line]:
        """Return a row for each subscription to a topic, by subscriber and time."""
        made = [
            (of, subscription)
            for own in publisher.subscribers.values()
            for of in own.connections
            for subscription in of.subscriptions
            if subscription.topic == topic
        ]
        lines = []
        for subscriber, subscription in made[:MAX_BELOW]:
            conn_id = subscriber.connection.conn_id
            is_lost = (conn_id, topic) in lost and subscription.ended_by != "cancel"
            ref = ref_of_subscription(subscriber.connection, subscriber.side, subscription)
            values = {"topic": self._sentence(subscriber, subscription, is_lost=is_lost)}
            record = partial(self.derived.find, ref)
            lines.append(Line(f"{key} {ref}", values, style="warn" if is_lost else "", record=record))
        if len(made) > MAX_BELOW:
            more = f"{counted(len(made) - MAX_BELOW, 'subscription')} more"
            lines.append(Line(f"{key} more", {"topic": more}))
        return lines

    def _sentence(self, subscriber: Subscriber, subscription: ObservedSubscription, *, is_lost: bool) -> str:
        shown_time, connection = self._shown_time, subscriber.connection
        who = f"connection {connection.stream.conn} of {name_of_subscriber(subscriber)}"
        who += ", not made again after it" if is_lost else ""
        words = [f"{who}: from {shown_time(subscription.moment.ns)}"]
        delay = delay_of(connection, subscription)
        if delay is not None and is_late(subscriber, subscription):
            words.append(f"{seconds(delay)} after the handshake")
        words.append(f"{counted(subscription.messages, 'message')} matched")
        if subscription.ended_by == "cancel" and subscription.until_ns is not None:
            words.append(f"cancelled at {shown_time(subscription.until_ns)}")
        elif not connection.is_open:
            words.append(f"until it ended at {shown_time(connection.last_ns)}")
        return ", ".join(words)


def _to(publisher: SubscribedPublisher) -> str:
    if publisher.conn is not None:
        return f"conn == {publisher.conn}"
    ip, port = publisher.endpoint
    return every(f"dst_ip == {ip}", f"dst_port == {port}")


def _summary(found: Subscribers, others: int) -> Iterator[str]:
    """Yield the lines above the table: a summary, and the meaning of the words in its cells."""
    if not found.publishers:
        yield "no subscriber was seen"
        return
    subscribing = [each for publisher in found.publishers for each in publisher.subscribers.values()]
    made = [(of, each) for own in subscribing for of in own.connections for each in of.subscriptions]
    words = [counted(len(found.names), "subscriber"), counted(len(made), "subscription")]
    if found.lost:
        words.append(f"{len(found.lost)} not made again after a reconnect")
    unmatched = sum(not each.messages for _, each in made)
    if unmatched:
        words.append(f"{unmatched} without messages")
    yield ", ".join(words)
    legend = "numbers: messages that matched"
    if any(len(own.connections) > 1 for own in subscribing):
        legend += "; again, new, not again: after a reconnect"
    yield legend
    late = sum(is_late(of, each) for of, each in made)
    if late:
        yield f"late: {late} made over {LATE_NS // 1_000_000} ms after the handshake, and missed what came until then"
    if others:
        yield f"{counted(others, 'subscriber')} without a column: OTHERS says how many of them have a topic"
    topics = sum(max(0, len(publisher.topics) - MAX_TOPICS) for publisher in found.publishers)
    if topics:
        yield f"{counted(topics, 'topic')} more than the {MAX_TOPICS} that are listed of a publisher"
    left_out = sum(not each.last.has_all_subscriptions for each in subscribing)
    if left_out:
        yield f"{counted(left_out, 'subscriber')} with more subscriptions than are remembered"
