"""The view of subscriptions says who subscribed to what, when, and what came of it."""

from __future__ import annotations

import json

import pytest

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, store_of, view_of, view_of_capture


def test_a_late_subscription_stands_out() -> None:
    table = view_of_capture("subscriptions", "patterns/late-subscription.pcap").table()
    assert cells(table, "subscriber", "publisher", "topic", "delay", "messages", "state") == [
        ("SUB 127.0.0.1:5631", "PUB 127.0.0.1", '"\\x00z"', "270 ms", "0", "cancelled"),
        ("SUB 127.0.0.1:5631", "PUB 127.0.0.1", '"\\x01y"', "270 ms", "1", "until the connection ended"),
    ]
    assert [row.style for row in table.rows] == ["warn", "warn"]
    assert table.text[1].startswith("2 of them more than 50 ms after the handshake")


@pytest.mark.parametrize(
    "capture", ["patterns/pubsub", "patterns/late-subscription", "versions/pubsub-bind4.3.5-conn4.3.5"]
)
def test_subscriptions_are_those_that_applications_made(capture: str) -> None:
    truth = json.loads((CAPTURES / f"{capture}.truth.json").read_text())
    table = view_of_capture("subscriptions", f"{capture}.pcap").table()
    expected = {topic or "" for what, topic in truth["subscriptions"] if what == "subscribe"}
    shown = {topic.strip('"').replace("(everything)", "") for (topic,) in cells(table, "topic")}
    assert shown == expected
    cancelled = {topic for what, topic in truth["subscriptions"] if what == "cancel"}
    assert {topic.strip('"') for topic, state in cells(table, "topic", "state") if state == "cancelled"} == cancelled


def test_one_cancel_ends_a_subscription_that_was_made_twice() -> None:
    table = view_of_capture("subscriptions", "faults/subscribe-twice.pcap").table()
    assert cells(table, "topic", "state") == [('"A"', "cancelled")]


def test_what_was_not_subscribed_again_after_a_reconnect_comes_first_and_leads_to_its_record() -> None:
    store = store_of(CAPTURES / "problems/subscription-lost-on-reconnect.pcap")
    table = view_of("subscriptions", store).table()
    assert cells(table, "subscriber", "publisher", "topic", "state")[0] == (
        "SUB 10.0.0.2",
        "PUB 10.0.0.1:5556",
        '"alerts"',
        "not made again after the reconnect",
    )
    assert table.text[0].endswith("1 that was not made again after a reconnect")
    assert table.rows[0].style == "warn"
    assert store.row(table.rows[0].record or 0)["topic"] == "alerts"


def test_what_is_subscribed_again_after_a_reconnect_is_not_missed() -> None:
    table = view_of_capture("subscriptions", "problems/subscriptions-kept-on-reconnect.pcap").table()
    assert not any("not made again" in state for (state,) in cells(table, "state"))


def test_each_leads_to_the_record_that_made_it() -> None:
    store = store_of(CAPTURES / "patterns/pubsub.pcap")
    rows = view_of("subscriptions", store).table().rows
    made = [store.row(row.record or 0) for row in rows]
    assert [(each["name"], each["topic"]) for each in made] == [
        ("SUBSCRIBE", "a"),
        ("SUBSCRIBE", "b"),
        ("SUBSCRIBE", ""),
    ]


def test_a_subscriber_without_subscriptions_is_named() -> None:
    view = view_of_capture("subscriptions", "patterns/pubsub.pcap", filter="not name == SUBSCRIBE")
    table = view.table()
    assert cells(table, "subscriber", "state") == [("SUB 127.0.0.1", "has not subscribed")] * 2
    assert table.text == ("0 subscriptions, 2 subscribers without any",)
