"""Subscribers find matching topics without examining all subscriptions, with the same result."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.diagnosis.publishing_traffic import Subscriber as Traffic
from tests.diagnosis.publishing_traffic import derivation_of
from zmtpscope.diagnosis.across import deliveries
from zmtpscope.diagnosis.across.publishers import Subscriber
from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.observed_facts import JOIN, ObservedSubscription, ObservedSubscriptions
from zmtpscope.diagnosis.observers.topics import TopicKey
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.topic_words import LONGEST_TOPIC

END = 100

topics = st.binary(max_size=4).map(lambda octets: octets.translate(bytes([0x61, 0x62, 0xFF, 0x00]) * 64))
long_topics = topics | st.builds(lambda topic: topic + b"\xff" * (LONGEST_TOPIC - len(topic)), topics)
times = st.integers(0, END - 1)
forms = st.sampled_from(["command", "message", JOIN])
subscriptions = st.lists(st.tuples(long_topics, forms, times, times | st.none()), max_size=12)
Made = list[tuple[bytes, str, int, int | None]]


def _subscriber(made: Made) -> Subscriber:
    connection = ObservedConnection.of(Stream(0, "c", 0, "10.0.0.2", 1, "10.0.0.1", 2), Moment(0, None, 1))
    connection.last_ns = END
    ended = [
        ObservedSubscription(topic, form, Moment(since, None, 1), 0, 0, 0, until_ns=until)
        for topic, form, since, until in made
        if until is None or until > since
    ]
    connection.sides[0].subscriptions = ObservedSubscriptions()
    connection.sides[0].subscriptions.ended.extend(ended)
    return Subscriber(connection, 0)


@given(subscriptions, long_topics)
@example([(b"a", "command", 0, None), (b"ab", "command", 1, None)], b"abc")
def test_what_asks_for_a_topic_matches_while_it_was_in_force(made: Made, topic: bytes) -> None:
    subscriber, key = _subscriber(made), TopicKey(topic, True)
    matching = [each for each in subscriber.subscriptions if each.matches(topic)]
    assert set(subscriber.matching(key)) == set(matching)
    for _ in range(2):  # what is remembered of the first time is the same
        intervals = subscriber.intervals(key)
        assert all(one[1] < other[0] for one, other in itertools.pairwise(intervals))
        for time in range(END):
            is_in_force = any(each.moment.ns <= time < (each.until_ns or END) for each in matching)
            assert is_in_force == any(since <= time < until for since, until in intervals)


@given(subscriptions, st.lists(long_topics, max_size=12).map(sorted))
def test_topics_that_match_are_together(made: Made, ascending: list[bytes]) -> None:
    subscriber = _subscriber(made)
    found = [place for places in subscriber.places(ascending) for place in places]
    assert set(found) == {
        place for place, topic in enumerate(ascending) if any(each.matches(topic) for each in subscriber.subscriptions)
    }


def test_subscribers_without_messages_are_left_out_if_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Traffic(2, 0, "a", "b"), Traffic(3, 0, "a", "b")
    one.publish(b"a", b"body")
    other.publish(b"b", b"body")

    def topics_of(room: int) -> list[bool]:
        monkeypatch.setattr(deliveries, "MAX_PAIRS", room)
        found = deliveries.deliveries(derivation_of(one, other).knowledge())
        return [delivery.topic is not None for delivery in found]

    assert topics_of(2) == [True, False, False, True]
    assert topics_of(1) == [True, True]
