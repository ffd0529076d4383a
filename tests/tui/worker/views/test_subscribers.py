"""What became of each subscription, over all connections of a subscriber with a publisher."""

from __future__ import annotations

from tests.diagnosis.publishing_traffic import Subscriber, derivation_of
from zmtpscope.tui.worker.views.subscribers import subscribers_of


def cells(*connections: Subscriber) -> dict[str, dict[str, str]]:
    """What stands where a topic and a subscriber meet, at the only publisher."""
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


def test_what_a_subscriber_that_went_by_itself_does_not_make_again_is_no_alarm() -> None:
    assert cells(left("gone", "kept", by=0), Subscriber(2, 500, "kept")) == {
        "gone": {"10.0.0.2": "not since, 0 before"},
        "kept": {"10.0.0.2": "0, again"},
    }


def test_what_was_cancelled_is_new_when_it_is_made_on_the_next_connection() -> None:
    before = Subscriber(2, 0, "a", "b")
    before.cancel("a")
    before.reset(1)
    assert cells(before, Subscriber(2, 500, "a", "b"))["a"] == {"10.0.0.2": "0, new"}
    assert cells(before, Subscriber(2, 500, "b"))["a"] == {"10.0.0.2": "0, cancelled"}


def test_connections_of_one_address_at_a_time_are_subscribers_of_their_own() -> None:
    """Nothing tells which of them comes back."""
    assert cells(Subscriber(2, 0, "a"), Subscriber(2, 100, "a"), Subscriber(3, 200, "a")) == {
        "a": {"conn 1 SUB 10.0.0.2": "0", "conn 2 SUB 10.0.0.2": "0", "SUB 10.0.0.3": "0"}
    }


def test_a_subscriber_of_two_publishers_is_one_subscriber() -> None:
    found = subscribers_of(derivation_of(Subscriber(2, 0, "a"), Subscriber(2, 10, "b", port=5557)).knowledge())
    assert list(found.names.values()) == ["10.0.0.2"]
    assert [publisher.topics for publisher in found.publishers] == [[b"a"], [b"b"]]


def test_who_lacks_something_since_a_reconnect_comes_first() -> None:
    found = subscribers_of(
        derivation_of(
            Subscriber(3, 0, "a"), left("a", "b"), Subscriber(2, 500, "a"), Subscriber(4, 50, "a")
        ).knowledge()
    )
    assert list(found.names.values()) == ["10.0.0.2", "10.0.0.3", "10.0.0.4"]
