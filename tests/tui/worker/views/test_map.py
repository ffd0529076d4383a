"""The map: bound endpoints, their clients, and the traffic between them."""

from __future__ import annotations

from tests.tui.worker.views.fed import cells, opened_whole, view_of_capture
from zmtpscope.tui.worker.views.map import percent


def test_clients_are_below_the_endpoint_and_connections_below_them() -> None:
    table = opened_whole(view_of_capture("map", "patterns/pubsub.pcap"))
    assert [
        (row.depth, *shown) for row, shown in zip(table.rows, cells(table, "who", "flow", "connections"), strict=True)
    ] == [
        (0, "PUB 127.0.0.1:5630", "PUB ──→ 2 SUB", "2"),
        (1, "SUB 127.0.0.1", "──→", "2"),
        (2, "connection 1", "──→", "1"),
        (2, "connection 2", "──→", "1"),
    ]
    assert cells(table, "topics", depth=2) == [('"a", "b"',), ("(everything)",)]


def test_a_subscriber_may_be_bound() -> None:
    table = view_of_capture("map", "patterns/late-subscription.pcap").table()
    assert cells(table, "who", "flow", "messages_1", "messages_0") == [("SUB 127.0.0.1:5631", "SUB ←── PUB", "0", "1")]


def test_the_endpoint_with_most_octets_is_first_and_the_top_sender_is_named() -> None:
    table = view_of_capture("map", "implementations/jupyter.pcap").table()
    assert cells(table, "who", "share")[0] == ("XPUB 127.0.0.1:45571", "█████████   88%")
    assert table.text == ("5 endpoints, 7 connections", "XPUB 127.0.0.1:45571 sends the most: 88% of 98.4 kB")


def test_shares_near_0_and_100_percent_are_distinguished() -> None:
    assert [percent(part) for part in (0, 0.001, 0.01, 0.61, 0.999, 1)] == ["0%", "<1%", "1%", "61%", ">99%", "100%"]


def test_both_directions_are_separate() -> None:
    table = opened_whole(view_of_capture("map", "patterns/broker-mixed-versions.pcap"))
    assert cells(table, "who", "flow", depth=0) == [
        ("DEALER 10.77.0.1:5591", "DEALER ←─→ REP"),
        ("ROUTER 10.77.0.1:5590", "ROUTER ←─→ 2 REQ"),
    ]
    assert cells(table, "who", depth=1)[1:] == [('"client-one" REQ 10.77.0.2',), ("REQ 10.77.0.2",)]
