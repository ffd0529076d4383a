"""Subscriptions with their duration and result, and published messages: of all versions, from real captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.publishing_traffic import Subscriber, derivation_of
from tests.diagnosis.reading import derive
from tests.export.test_json_lines import message_runs
from tests.readings import CAPTURES
from tests.suites import examples
from tests.traffic import Capture
from tests.twins import twins
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.observers import subscriptions, topics
from zmtpscope.diagnosis.observers.observed_facts import ObservedSubscriptions
from zmtpscope.diagnosis.observers.topics import PublishedTopics, TopicKey
from zmtpscope.dissect import Analyser, MessageTable, Options
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC
from zmtpscope.dissect.records.topics import LARGEST_TOPIC

PROBLEMS = "problems"


def _subscriptions(path: Path) -> list[dict[str, Any]]:
    return [record.values for record in derive(path)[1] if record.type == "subscription"]


def _published(derivation: Derivation) -> list[PublishedTopics]:
    sides = (side for connection in derivation.knowledge().connections for side in connection.sides)
    return [side.published for side in sides if side.published is not None]


# -- subscriptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("form", "name"), [("command", "pubsub-bind4.3.5-conn4.3.5.pcap"), ("message", "pubsub-bind3.2.5-conn3.2.5.pcap")]
)
def test_a_subscription_has_its_messages_in_all_versions(captures: Path, form: str, name: str) -> None:
    found = _subscriptions(captures / "versions" / name)
    assert found
    assert {each["form"] for each in found} == {form}
    assert sum(each["messages"] for each in found) > 0
    for each in found:
        assert each["delay_ns"] is not None
        assert (each["first_ns"] is None) == (each["messages"] == 0)


def test_a_subscription_that_is_cancelled_ends_then_and_others_with_their_connection(captures: Path) -> None:
    found = _subscriptions(captures / PROBLEMS / "cancelled-before-reconnect.pcap")
    ends = [(each["topic"], each["ended_by"], each["messages"]) for each in found]
    assert ends == [("alerts", "cancel", 8), ("prices", "close", 8), ("prices", None, 8)]


def test_messages_of_a_subscription_arrived_while_it_was_in_force(captures: Path) -> None:
    early, late = _subscriptions(captures / PROBLEMS / "late-subscriber.pcap")
    assert (early["messages"], late["messages"]) == (40, 19)
    assert early["ts_ns"] < early["first_ns"] < late["ts_ns"] < late["first_ns"]
    assert early["until_ns"] is None
    assert early["ended_by"] is None


@pytest.mark.parametrize("size", [1, 3, 100])
def test_it_does_not_matter_in_which_blocks_changes_and_messages_arrive(size: int) -> None:
    subscriber = Subscriber(2, 0, "a", "")
    subscriber.publish(b"a", b"body", times=3)
    subscriber.cancel("")
    subscriber.publish(b"b", b"body", times=5)
    subscriber.subscribe("a")
    subscriber.publish(b"a1", b"body", times=2)
    subscriber.cancel("a")
    subscriber.publish(b"a", b"body", times=7)
    (connection,) = derivation_of(subscriber, size=size).knowledge().connections
    known = connection.sides[0].subscriptions
    assert known is not None
    assert [(each.topic, each.messages, each.times) for each in known.ended] == [(b"", 3, 1), (b"a", 5, 2)]


def test_groups_are_subscriptions_that_match_as_a_whole() -> None:
    found = _subscriptions(CAPTURES / "patterns/radio-dish.pcap")
    ends = [(each["topic"], each["form"], each["ended_by"], each["messages"]) for each in found]
    assert ends == [("news", "join", "cancel", 3), ("wx", "join", "close", 4)]
    dish = Subscriber(2, 0, types=("DISH", "RADIO"))
    dish.join("new")
    dish.publish(b"news", b"body", times=3)
    dish.publish(b"new", b"body")
    (connection,) = derivation_of(dish).knowledge().connections
    known, published = connection.sides[0].subscriptions, connection.sides[1].published
    assert known is not None
    assert published is not None
    assert [(each.topic, each.messages) for each in known.all()] == [(b"new", 1)]
    assert {key.topic: topic.unmatched for key, topic in published.by_key.items()} == {b"news": 3, b"new": 0}


def test_each_leave_ends_one_join() -> None:
    dish = Subscriber(2, 0, types=("DISH", "RADIO"))
    dish.join("news")
    dish.join("news")
    dish.leave("news")
    dish.publish(b"news", b"body", times=3)
    dish.leave("news")
    dish.publish(b"news", b"body")
    (connection,) = derivation_of(dish).knowledge().connections
    known = connection.sides[0].subscriptions
    assert known is not None
    assert [(each.topic, each.messages, each.times, each.ended_by) for each in known.ended] == [
        (b"news", 3, 2, "cancel")
    ]


def test_subscriptions_that_have_ended_are_forgotten_when_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_ENDED", 3)
    monkeypatch.setattr(subscriptions, "MAX_OPEN", 2)
    subscriber = Subscriber()
    for topic in range(6):
        subscriber.old_style(b"\1%d" % topic)
        subscriber.old_style(b"\0%d" % topic)
    for mark in "abc":
        subscriber.subscribe(mark)
    derivation = derivation_of(subscriber)
    (connection,) = derivation.knowledge().connections
    (known,) = (side.subscriptions for side in connection.sides if side.subscriptions is not None)
    assert isinstance(known, ObservedSubscriptions)
    assert [each.topic for each in known.ended] == [b"3", b"4", b"5"]
    assert (known.forgotten, known.left_out, list(known.open)) == (3, 1, [b"a", b"b"])
    assert connection.remembered == sum(subscriptions.SUBSCRIPTION_COST + len(each.topic) for each in known.all())


class Counting(dict[bytes, Any]):
    """Counts how often something is looked up."""

    lookups = 0

    def __getitem__(self, topic: bytes) -> Any:
        self.lookups += 1
        return super().__getitem__(topic)

    def get(self, topic: bytes, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(topic, default)


def test_a_topic_is_not_compared_with_each_length_of_a_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[ObservedSubscriptions] = []

    def remembered() -> ObservedSubscriptions:
        known.append(ObservedSubscriptions(open=Counting()))
        return known[-1]

    monkeypatch.setattr(subscriptions, "ObservedSubscriptions", remembered)
    names = ["aa", *("a" * size + "!" for size in range(200))]
    subscriber = Subscriber(2, 0, *names)
    for number in range(50):
        subscriber.publish(b"a" * 200 + b"%d" % number, b"")
    derivation_of(subscriber)
    (own,) = known
    assert own.open[b"aa"].messages == 50
    assert own.open.lookups <= len(names) + 50 + 1


# -- topics ----------------------------------------------------------------------------------------------------------


def test_topics_count_what_was_published_on_each_connection(captures: Path) -> None:
    derivation, _ = derive(captures / PROBLEMS / "subscription-without-messages.pcap")
    (logger,) = _published(derivation)
    assert {key: topic.timeline.count for key, topic in logger.by_key.items()} == {
        TopicKey(b"prices", True): 10,
        TopicKey(b"alerts", True): 10,
    }
    assert {topic.octets for topic in logger.by_key.values()} == {70}
    assert not any(topic.unmatched for topic in logger.by_key.values())


names = st.lists(
    st.binary(max_size=40) | st.sampled_from([b"", b"a", b"a\0", b"t" * 256, b"t" * 300]), min_size=1, max_size=30
)


def _run_of(messages: list[tuple[bytes, ...]]) -> MessageTable:
    subscriber = Subscriber(2, 0, "")
    for frames in messages:
        subscriber.publish(*frames)
    batches = Analyser(Options(bodies="none")).run(Capture(subscriber.packets))
    return next(run for batch in batches for run in batch.by_sender() if run.socket_type == "PUB")


@given(names)
def test_messages_are_grouped_by_topic_in_the_order_in_which_topics_appear(names: list[bytes]) -> None:
    run = _run_of([(name, b"body") for name in names])
    expected: dict[TopicKey, list[int]] = {}
    for row, name in enumerate(names):
        topic = name[:LONGEST_TOPIC] if len(name) <= LARGEST_TOPIC else None
        expected.setdefault(TopicKey(topic, topic is not None), []).append(row)
    for by_topic in twins("zmtpscope.diagnosis.observers.topics.by_topic"):
        found = by_topic(run, 0)
        assert [(each.key, each.times.tolist()) for each in found] == [
            (key, run.times[rows].tolist()) for key, rows in expected.items()
        ]
        assert [(each.rows.tolist(), each.octets) for each in found] == [
            (rows, sum(len(names[row]) + len(b"body") for row in rows)) for rows in expected.values()
        ]


@examples(300, least=300)
@given(message_runs(), st.integers(0, 4))
def test_topics_and_summaries_of_any_run_are_the_same_for_every_caller(run: MessageTable, latest: int) -> None:
    groups = [
        [each._replace(rows=each.rows.tolist(), times=each.times.tolist()) for each in by_topic(run, latest)]
        for by_topic in twins("zmtpscope.diagnosis.observers.topics.by_topic")
    ]
    assert groups[0] == groups[-1]
    summaries = [make(run) for make in twins("zmtpscope.diagnosis.observers.run_summaries.summaries_of")]
    assert summaries[0] == summaries[-1]


def test_a_single_frame_has_the_subscription_as_its_topic_and_keeps_its_beginning() -> None:
    subscriber = Subscriber(2, 0, "price")
    subscriber.publish(b"prices 12.5", times=3)
    subscriber.cancel("price")
    subscriber.publish(b"price", b"12.5", times=2)
    (found,) = _published(derivation_of(subscriber))
    single, framed = found.by_key[TopicKey(b"price", False)], found.by_key[TopicKey(b"price", True)]
    assert (single.timeline.count, single.unmatched, single.beginning) == (3, 0, b"prices 12.5")
    assert (framed.timeline.count, framed.unmatched, framed.beginning) == (2, 2, b"")


@pytest.mark.parametrize("size", [1, 100])
def test_the_first_message_of_a_subscription_is_the_earliest_of_all_topics(size: int) -> None:
    subscriber = Subscriber(2, 0, "")
    for topic in b"abcdefghij":
        subscriber.publish(bytes([topic]), b"body")
    (connection,) = derivation_of(subscriber, size=size).knowledge().connections
    side = connection.sides[0]
    assert side.subscriptions is not None
    (every,) = side.subscriptions.all()
    (published,) = (each.published for each in connection.sides if each.published is not None)
    assert [key.topic for key in published.by_key] == [b"%c" % topic for topic in b"abcdefghij"]
    assert every.first_ns == min(topic.first.ns for topic in published.by_key.values())


def test_messages_of_too_many_topics_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_TOPICS", 2)
    subscriber = Subscriber(2, 0, "")
    for number in range(10):
        subscriber.publish(b"%d" % (number % 5), b"body")
    (found,) = _published(derivation_of(subscriber))
    assert (len(found.by_key), found.left_out) == (2, 6)
