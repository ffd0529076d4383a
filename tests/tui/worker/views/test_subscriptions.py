"""The view of subscriptions: subscribers by topic, and states after a reconnect."""

from __future__ import annotations

import json

import pytest

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cell, cells, opened_whole, store_of, view_of, view_of_capture
from zmtpscope.filter import Filter
from zmtpscope.tui.requests import Sort, Table, TableRow, Wanted
from zmtpscope.tui.worker.views import subscriptions

LOST = "problems/subscription-lost-on-reconnect.pcap"
GROUPS = "problems/groups-joined-in-time.pcap"


def matrix(table: Table, depth: int = 1) -> dict[str, dict[str, str]]:
    """Return the cells of each subscriber by topic, or by publisher (depth 0)."""
    headings = [column.heading for column in table.columns]
    rows = [dict(zip(headings, row.cells, strict=True)) for row in table.rows if row.depth == depth]
    return {row.pop("TOPIC"): row for row in rows}


def looks(table: Table, row: TableRow) -> dict[str, str]:
    """Return the styles of cells that differ from the row's, by subscriber."""
    return {column.heading: look for column, look in zip(table.columns, row.looks, strict=True) if look}


def test_a_subscription_lost_at_a_reconnect_is_first_and_highlighted() -> None:
    table = view_of_capture("subscriptions", LOST).table()
    assert matrix(table, depth=0) == {"PUB 10.0.0.1:5556": {"10.0.0.2": "came back", "10.0.0.3": "came back"}}
    assert matrix(table) == {
        '"alerts"': {"10.0.0.2": "not again, 8 before", "10.0.0.3": "8, again"},
        '"prices"': {"10.0.0.2": "8, again", "10.0.0.3": "8, again"},
    }
    assert looks(table, table.rows[1]) == {"10.0.0.2": "warn"}
    assert table.text[0] == "2 subscribers, 7 subscriptions, 1 not made again after a reconnect"


def test_a_repeated_subscription_is_not_lost() -> None:
    table = view_of_capture("subscriptions", "problems/subscriptions-kept-on-reconnect.pcap").table()
    states = [cell for row in matrix(table).values() for cell in row.values() if cell]
    assert states
    assert all(state.endswith("again") and not state.startswith("not") for state in states)


def test_a_cancelled_subscription_is_not_lost() -> None:
    table = view_of_capture("subscriptions", "problems/cancelled-before-reconnect.pcap").table()
    assert "not again" not in str(matrix(table))
    assert any(cell.endswith("cancelled") for row in matrix(table).values() for cell in row.values())


def test_a_late_subscription_is_highlighted() -> None:
    table = view_of_capture("subscriptions", "patterns/late-subscription.pcap").table()
    assert matrix(table) == {
        '"\\x00z"': {"127.0.0.1:5631": "0, cancelled"},
        '"\\x01y"': {"127.0.0.1:5631": "1, late"},
    }
    assert looks(table, table.rows[2]) == {"127.0.0.1:5631": "warn"}
    assert table.text[2].startswith("late: 2 made over 50 ms after the handshake")


@pytest.mark.parametrize(
    "capture", ["patterns/pubsub", "patterns/late-subscription", "versions/pubsub-bind4.3.5-conn4.3.5"]
)
def test_subscriptions_equal_those_that_applications_made(capture: str) -> None:
    truth = json.loads((CAPTURES / f"{capture}.truth.json").read_text())
    found = matrix(view_of_capture("subscriptions", f"{capture}.pcap").table())
    expected = {topic or "" for what, topic in truth["subscriptions"] if what == "subscribe"}
    assert {topic.strip('"').replace("(everything)", "") for topic in found} == expected
    cancelled = {topic for what, topic in truth["subscriptions"] if what == "cancel"}
    shown = {topic for topic, row in found.items() if any(cell.endswith("cancelled") for cell in row.values())}
    assert {topic.strip('"') for topic in shown} == cancelled


def test_one_cancel_ends_a_subscription_that_was_made_twice() -> None:
    table = view_of_capture("subscriptions", "faults/subscribe-twice.pcap").table()
    assert [cell.split(", ")[1] for row in matrix(table).values() for cell in row.values()] == ["cancelled"]


@pytest.mark.parametrize("capture", [LOST, "patterns/pubsub.pcap", "versions/pubsub-bind3.2.5-conn4.3.5.pcap", GROUPS])
def test_a_topic_leads_to_its_subscriptions_and_cancellations(capture: str) -> None:
    store = store_of(CAPTURES / capture)
    table = view_of("subscriptions", store).table()
    changes = store.select(Filter("name in {SUBSCRIBE, CANCEL, JOIN, LEAVE} or kind in {subscribe, cancel}")).tolist()
    assert changes
    found = [store.select(Filter(row.filter)).tolist() for row in table.rows if row.depth == 1]
    assert sorted(number for rows in found for number in rows) == changes
    whole = [number for row in table.rows if not row.depth for number in store.select(Filter(row.filter)).tolist()]
    assert sorted(whole) == changes


def test_below_a_topic_each_subscription_leads_to_its_record() -> None:
    store = store_of(CAPTURES / LOST)
    table = opened_whole(view_of("subscriptions", store))
    below = [row for row in table.rows[2:] if row.depth == 2]
    assert {store.row(row.record or 0)["name"] for row in below} == {"SUBSCRIBE"}
    lost = [row for row in below if row.style == "warn"]
    assert [store.row(row.record or 0)["topic"] for row in lost] == ["alerts"]
    assert lost[0].cells[0].startswith("connection 1 of 10.0.0.2, not made again after it: from 0.001382, 8 messages")


def test_a_publisher_can_be_pinned_and_a_topic_cannot() -> None:
    store = store_of(CAPTURES / LOST)
    table = view_of("subscriptions", store).table()
    assert [row.scope for row in table.rows[1:]] == ["", ""]
    assert view_of("subscriptions", store, filter=table.rows[0].scope).table().rows == table.rows


def test_a_subscriber_that_never_subscribes_is_named() -> None:
    table = view_of_capture("subscriptions", "problems/no-subscription.pcap").table()
    cells = [cell for row in matrix(table, depth=0).values() for cell in row.values()]
    assert "connected, no subscription" in cells
    place = next(place for place, row in enumerate(table.rows) if "connected, no subscription" in row.cells)
    assert "warn" in table.rows[place].looks


def test_groups_are_shown_like_topics() -> None:
    table = view_of_capture("subscriptions", GROUPS).table()
    assert set(matrix(table)) == {'"prices"', '"prices.eu"'}
    assert all(row["10.0.0.3"] for row in matrix(table).values())


def test_more_subscribers_than_there_are_columns_for_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_SUBSCRIBERS", 1)
    table = view_of_capture("subscriptions", LOST).table()
    assert matrix(table) == {
        '"alerts"': {"10.0.0.2": "not again, 8 before", "OTHERS": "1"},
        '"prices"': {"10.0.0.2": "8, again", "OTHERS": "1"},
    }
    assert "1 subscriber without a column: OTHERS says how many of them have a topic" in table.text


def test_topics_can_be_sorted_by_what_a_subscriber_has_of_them() -> None:
    view = view_of_capture("subscriptions", "problems/subscriptions-over-hwm-lost-on-reconnect.pcap")
    first = next(column for column in view.table().columns if column.heading == "10.0.0.2")
    table = view.table(Wanted(Sort(first.name, descending=True)))
    states = [state.split(", ")[0] for state in (cell(table, row, first.name) for row in table.rows[1:]) if state]
    assert states[-1] == "not again"
    assert states[0] != "not again"
    assert cells(table, "topic", depth=0) == [("PUB 10.0.0.1:5556",)]
