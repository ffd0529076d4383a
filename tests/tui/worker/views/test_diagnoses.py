"""The view of diagnoses says causes, and leads to the records that they stand on."""

from __future__ import annotations

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, opened_whole, store_of, view_of, view_of_capture


def test_a_cause_leads_to_the_record_that_shows_it() -> None:
    store = store_of(CAPTURES / "problems/login-refused.pcap")
    table = opened_whole(view_of("diagnoses", store))
    assert cells(table, "severity", "times", "rule", depth=0)[0] == ("error", "6", "login-refused")
    causes = [place for place, row in enumerate(table.rows) if not row.depth]
    evidence = table.rows[1 : causes[1]]
    assert {store.row(row.record)["record"] for row in evidence if row.record is not None} == {"finding"}
    assert all(row.record is not None for row in evidence)


def test_where_nothing_is_wrong_the_view_says_so() -> None:
    table = view_of_capture("diagnoses", "problems/right-server-key.pcap").table()
    assert (table.rows, table.text) == ((), ("nothing wrong was found",))
