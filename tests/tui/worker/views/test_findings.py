"""The view of findings groups them, the worst first, and leads to the records that show them."""

from __future__ import annotations

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, opened_whole, store_of, view_of, view_of_capture
from zmtpscope.findings import SEVERITIES


def test_the_worst_come_first_with_how_often_and_what_to_do() -> None:
    table = view_of_capture("findings", "damage/holes.pcap").table()
    assert cells(table, "severity", "id", "findings", "times", "connections") == [
        ("warn", "ZMTP-CONN-05", "11", "13", "1"),
        ("note", "ZMTP-CONN-14", "1", "6", "1"),
        ("chat", "ZMTP-GREETING-03", "2", "2", "1"),
        ("chat", "ZMTP-CONN-06", "1", "1", "1"),
    ]
    assert table.rows[0].cells[-1].startswith("capture with a larger buffer")
    assert [row.style for row in table.rows] == ["warn", "note", "chat", "chat"]
    assert list(SEVERITIES).index("warn") < list(SEVERITIES).index("note")


def test_single_findings_lead_to_the_record_that_they_are_about() -> None:
    path = CAPTURES / "security/incompatible-socket-types.pcap"
    store = store_of(path)
    table = opened_whole(view_of("findings", store))
    single = [row for row in table.rows if row.depth == 1]
    assert single
    for row in single:
        assert row.record is not None
        number = int(row.key.removeprefix("record "))
        references = store.row(number)["refs"]
        assert row.record == (store.find(references[0]) if references else number)
    assert any(store.row(row.record or 0)["record"] == "command" for row in single)


def test_where_nothing_was_found_the_view_says_so() -> None:
    view = view_of_capture("findings", "patterns/pubsub.pcap", filter="record == message")
    assert view.table().text == ("nothing was found",)
    assert view.table().rows == ()
