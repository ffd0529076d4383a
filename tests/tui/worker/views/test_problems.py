"""The view of problems: causes with links to their evidence."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.readings import CAPTURES
from tests.tui.worker.views.fed import cells, opened_whole, store_of, view_of, view_of_capture
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.filter import Filter
from zmtpscope.records import SECOND
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.derived import Derived
from zmtpscope.tui.worker.views.view import Step


def test_a_cause_leads_to_the_record_that_shows_it() -> None:
    store = store_of(CAPTURES / "problems/login-refused.pcap")
    table = opened_whole(view_of("problems", store))
    assert cells(table, "severity", "times", "rule", depth=0)[0] == ("error", "6", "login-refused")
    causes = [place for place, row in enumerate(table.rows) if not row.depth]
    evidence = table.rows[1 : [*causes, len(table.rows)][1]]
    assert {store.row(row.record)["record"] for row in evidence if row.record is not None} == {"finding"}
    assert all(row.record is not None for row in evidence)


@pytest.mark.parametrize(
    "capture", ["disconnects-without-period", "connection-refused", "authentication-missing", "late-subscriber"]
)
def test_every_cause_and_all_its_evidence_lead_to_records(capture: str) -> None:
    """Each leads to its moment among the records of its connections."""
    store = store_of(CAPTURES / f"problems/{capture}.pcap")
    table = opened_whole(view_of("problems", store))
    assert table.rows
    for row in table.rows:
        if row.key == "findings":
            break
        found = store.select(Filter(row.filter)) if row.filter else np.arange(len(store))
        assert len(found)
        assert row.record is not None or row.time is not None


def test_messages_that_a_late_subscriber_missed_can_be_opened() -> None:
    store = store_of(CAPTURES / "problems/late-subscriber.pcap")
    table = opened_whole(view_of("problems", store))
    row = next(row for row in table.rows if "that it missed" in row.cells[1])
    stated = re.search(r"missed at least (\d+) messages", table.rows[0].cells[1])
    assert stated is not None
    assert len(store.select(Filter(row.filter))) == int(stated[1])


def test_a_view_without_problems_reports_it() -> None:
    table = view_of_capture("problems", "problems/right-server-key.pcap").table()
    assert table.text == ("no problem found",)
    assert table.rows[0].key == "findings"


def test_a_pending_request_is_shown_before_the_capture_ends() -> None:
    """No packet follows the request: only time shows that its reply is missing."""
    captures = open_captures([str(CAPTURES / "problems/reported/rep-hangs-quiet.pcapng")])
    analyser, store = Analyser(Options(bodies="none")), Store(Options(bodies="none"))
    analyser.begin(captures.files)
    for batch in (batch for block in captures for batch in analyser.feed(block)):
        store.append(batch)
    derived = Derived(store, lambda: Ongoing(analyser.latest + waited))
    waited = 0
    assert _causes(derived, range(len(store))) == []
    waited = 5 * SECOND
    assert _causes(derived, range(0)) == ["request-unanswered"]


def _causes(derived: Derived, rows: range) -> list[str]:
    if rows:
        derived.feed(Step(derived.store, rows))
    derived.due = 0
    while derived.has_work(is_last=False):
        derived.work()
    return [each.diagnosis.rule for each in derived.diagnoses or () if each.diagnosis.severity != "note"]
