"""The view of connections: peers, traffic and ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.store.stores import FILES
from tests.tui.worker.views.fed import cell, cells, opened_whole, store_of, view_of, view_of_capture
from zmtpscope.export.top.table import scaled
from zmtpscope.tui.requests import Sort, Wanted


def test_each_line_is_a_connection_with_client_and_server() -> None:
    table = view_of_capture("connections", "patterns/broker-mixed-versions.pcap").table()
    assert cells(table, "from", "to", "version", "mechanism", "messages_0", "messages_1", "ended") == [
        ("REP 10.77.0.2", "DEALER 10.77.0.1:5591", "3.0", "NULL", "6", "6", "closed by REP"),
        ('"client-one" REQ 10.77.0.2', "ROUTER 10.77.0.1:5590", "3.0", "NULL", "3", "3", 'closed by "client-one"'),
        ("REQ 10.77.0.2", "ROUTER 10.77.0.1:5590", "3.0", "NULL", "3", "3", "closed by REQ"),
    ]
    assert cells(table, "finding") == [("note ZMTP-DOWNGRADE-02",), ("",), ("",)]


def test_handshake_and_end_are_below_a_connection() -> None:
    table = opened_whole(view_of_capture("connections", "patterns/late-subscription.pcap"))
    assert [(text, row.record) for row, (text,) in zip(table.rows, cells(table, "from"), strict=True)] == [
        ("PUB 127.0.0.1", None),
        ("PUB 127.0.0.1: GREETING 3.1 NULL, after 155 us", 0),
        ("SUB 127.0.0.1:5631: GREETING 3.1 NULL, after 457 us", 3),
        ("PUB 127.0.0.1: READY PUB, after 559 us", 5),
        ("SUB 127.0.0.1:5631: READY SUB, after 578 us", 6),
        ("PUB 127.0.0.1 sent 1 message, 8 octets", None),
        ("SUB 127.0.0.1:5631 sent 0 messages, 0 octets", None),
        ("closed by SUB:5631 after 5.797 s, 3.1 NULL, 1 message from PUB", 13),
    ]


def test_a_failed_handshake_is_shown_in_the_line() -> None:
    table = view_of_capture("connections", "security/incompatible-socket-types.pcap").table()
    assert "handshake incomplete" in cells(table, "ended")[0][0]
    assert "handshake incomplete" in table.text[0]


def test_attempts_that_never_connected_have_a_line() -> None:
    table = view_of_capture("connections", "patterns/reconnect-after-restart.pcap").table()
    assert cells(table, "from", "to", "ended")[-1] == ("10.77.0.2", "10.77.0.1:5561", "refused (3 attempts)")
    assert table.text == ("2 connections, 3 attempts without success",)


def test_rows_with_an_empty_cell_are_sorted_last() -> None:
    view = view_of_capture("connections", "patterns/reconnect-after-restart.pcap")
    assert cells(view.table(Wanted(Sort("lasted", descending=True))), "lasted") == [("217 ms",), ("6.33 ms",), ("",)]
    assert cells(view.table(Wanted(Sort("lasted"))), "lasted") == [("6.33 ms",), ("217 ms",), ("",)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_counts_equal_the_records_of_connections(path: Path) -> None:
    store = store_of(path)
    table = view_of("connections", store).table(Wanted(most=10_000))
    by_conn = {cell(table, row, "conn"): row for row in table.rows}
    for _, record in store.others(range(len(store)), ("connection",)):
        values = record.values
        row = by_conn[str(values["conn"])]
        for column, field in (("messages", "messages"), ("octets", "bytes")):
            sent = [scaled(values[f"{field}_{side}"]) for side in (0, 1)]
            shown = [cell(table, row, f"{column}_{side}") for side in (0, 1)]
            assert shown == sent or (values["opened_by"] is None and shown == sent[::-1])
