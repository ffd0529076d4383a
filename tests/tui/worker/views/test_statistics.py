"""The view of statistics divides messages by time, size and connection, and records by type."""

from __future__ import annotations

import json

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cell, opened_whole, view_of_capture


def test_sizes_equal_those_that_applications_sent() -> None:
    truth = json.loads((CAPTURES / "patterns/pubsub.truth.json").read_text())
    sizes = [sum(len(frame) for frame in message) for message in truth["received"]]
    table = opened_whole(view_of_capture("statistics", "patterns/pubsub.pcap"))
    shown = {cell(table, row, "what"): row for row in table.rows}
    assert cell(table, shown["all messages"], "messages") == str(len(sizes))
    assert cell(table, shown["all messages"], "octets") == str(sum(sizes))
    assert cell(table, shown["8 to 15 octets"], "messages") == str(sum(8 <= size < 16 for size in sizes))
    assert cell(table, shown["16 to 31 octets"], "messages") == str(sum(16 <= size < 32 for size in sizes))


def test_periods_sizes_and_connections_each_add_up_to_all_messages() -> None:
    table = opened_whole(view_of_capture("statistics", "implementations/jupyter.pcap"))
    for key in ("from ", "size ", "conn "):
        rows = [row for row in table.rows if row.key.startswith(key) and row.depth == 1]
        assert sum(int(cell(table, row, "messages")) for row in rows) == 66


def test_records_are_counted_by_type_and_commands_by_name() -> None:
    table = view_of_capture("statistics", "patterns/late-subscription.pcap").table()
    shown = {cell(table, row, "what"): cell(table, row, "records") for row in table.rows if row.key.startswith("type ")}
    assert shown == {
        "finding": "3",
        "command READY": "2",
        "command SUBSCRIBE": "2",
        "greeting": "2",
        "command CANCEL": "1",
        "connection": "1",
        "message": "1",
    }


def test_a_plot_over_the_capture_is_above() -> None:
    table = view_of_capture("statistics", "patterns/pubsub.pcap").table()
    assert table.text == (
        "19 messages in 522 ms, 36 a second, at most 19 in 1 s",
        "················█···············▃  16 ms each",
    )


def test_a_view_without_records_reports_it() -> None:
    assert view_of_capture("statistics", "negative/port-scan.pcap").table().text == ("no messages",)
