"""Findings by kind below the problems, the worst first, with links to their records."""

from __future__ import annotations

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, opened_whole, store_of, view_of, view_of_capture
from zmtpscope.filter import Filter
from zmtpscope.tui.requests import Wanted


def test_the_worst_findings_are_first_with_count_and_remedy() -> None:
    table = view_of_capture("problems", "damage/holes.pcap").table(Wanted(opened=frozenset({"findings"})))
    assert cells(table, "severity", "rule", "times", depth=1) == [
        ("warn", "ZMTP-CONN-05", "13"),
        ("note", "ZMTP-CONN-14", "6"),
        ("chat", "ZMTP-GREETING-03", "2"),
        ("chat", "ZMTP-CONN-06", "1"),
    ]
    kinds = [row for row in table.rows if row.depth]
    assert kinds[0].cells[-1].startswith("capture with a larger buffer")
    assert [row.style for row in kinds] == ["warn", "note", "chat", "chat"]


def test_below_causes_the_findings_are_one_line_until_they_are_opened_or_searched() -> None:
    view = view_of_capture("problems", "problems/login-refused.pcap")
    assert cells(view.table(), "cause")[-1][0].startswith("all findings in the traffic: warn: 6, note")
    assert any(row.key == "warn PLAIN-06" for row in view.table(Wanted(containing="refused the client")).rows)


def test_a_kind_leads_to_its_findings() -> None:
    store = store_of(CAPTURES / "damage/holes.pcap")
    table = view_of("problems", store).table(Wanted(opened=frozenset({"findings"})))
    found = [len(store.select(Filter(row.filter))) for row in table.rows if row.depth]
    assert found == [11, 1, 2, 1]


def test_single_findings_lead_to_the_record_that_they_are_about() -> None:
    store = store_of(CAPTURES / "security/incompatible-socket-types.pcap")
    table = opened_whole(view_of("problems", store))
    single = [row for row in table.rows if row.key.startswith("record ")]
    assert single
    for row in single:
        assert row.record is not None
        number = int(row.key.removeprefix("record "))
        references = store.row(number)["refs"]
        assert row.record == (store.find(references[0]) if references else number)
    assert any(store.row(row.record or 0)["record"] == "command" for row in single)


def test_a_view_without_findings_reports_it() -> None:
    view = view_of_capture("problems", "patterns/pubsub.pcap", filter="record == message")
    assert view.table().text == ("no problem found",)
    assert view.table().rows == ()
