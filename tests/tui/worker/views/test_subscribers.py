"""The state of each subscription, over all connections of a subscriber to a publisher."""

from __future__ import annotations

from tests.diagnosis.publishing_traffic import Subscriber, derivation_of
from zmtpscope.tui.worker.views.subscribers import subscribers_of


def cells(*connections: Subscriber) -> dict[str, dict[str, str]]:
    """Return the cell of each topic and subscriber, for the only publisher."""
    found = subscribers_of(derivation_of(*connections).knowledge())
    (publisher,) = found.publishers
    return {
        topic.decode(): {
            found.names[key]: cell.text
            for key, subscriber in publisher.subscribers.items()
            if (cell := subscriber.cell(topic, found.lost)) is not None
        }
        for topic in publisher.topics
    }


def left(*topics: str, by: int = 1, host: int = 2) -> Subscriber:
    """A connection that a side ends."""
    subscriber = Subscriber(host, 0, *topics)
    subscriber.reset(by)
    return subscriber


def test_before_and_after_a_reconnect_are_compared() -> None:
    after = Subscriber(2, 500, "kept", "added")
    after.at(600)
    after.publish(b"added", times=3)
    assert cells(left("gone", "kept"), after) == {
        "gone": {"10.0.0.2": "not again, 0 before"},
        "added": {"10.0.0.2": "3, new"},
        "kept": {"10.0.0.2": "0, again"},
    }


def test_a_subscription_dropped_by_a_subscriber_that_left_is_no_alarm() -> None:
    assert cells(left("gone", "kept", by=0), Subscriber(2, 500, "kept")) == {
        "gone": {"10.0.0.2": "not since, 0 before"},
        "kept": {"10.0.0.2": "0, again"},
    }


def test_a_cancelled_subscription_is_new_on_the_next_connection() -> None:
    before = Subscriber(2, 0, "a", "b")
    before.cancel("a")
    before.reset(1)
    assert cells(before, Subscriber(2, 500, "a", "b"))["a"] == {"10.0.0.2": "0, new"}
    assert cells(before, Subscriber(2, 500, "b"))["a"] == {"10.0.0.2": "0, cancelled"}


def test_connections_of_one_address_at_a_time_are_subscribers_of_their_own() -> None:
    """Nothing shows which of them reconnects."""
    assert cells(Subscriber(2, 0, "a"), Subscriber(2, 100, "a"), Subscriber(3, 200, "a")) == {
        "a": {"conn 1 SUB 10.0.0.2": "0", "conn 2 SUB 10.0.0.2": "0", "SUB 10.0.0.3": "0"}
    }


def test_a_subscriber_of_two_publishers_is_one_subscriber() -> None:
    found = subscribers_of(derivation_of(Subscriber(2, 0, "a"), Subscriber(2, 10, "b", port=5557)).knowledge())
    assert list(found.names.values()) == ["10.0.0.2"]
    assert [publisher.topics for publisher in found.publishers] == [[b"a"], [b"b"]]


def test_subscribers_with_lost_subscriptions_are_first() -> None:
    found = subscribers_of(
        derivation_of(
            Subscriber(3, 0, "a"), left("a", "b"), Subscriber(2, 500, "a"), Subscriber(4, 50, "a")
        ).knowledge()
    )
    assert list(found.names.values()) == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
