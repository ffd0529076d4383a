"""Views follow a store, and their common data is derived once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from tests.readings import CAPTURES
from tests.store.stores import opened
from tests.tui.worker.views.fed import store_of
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.observers.observer import DerivedTable
from zmtpscope.diagnosis.rules.catalogue import RULES
from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, TableOf, Wanted
from zmtpscope.tui.worker.counted import CountedViews
from zmtpscope.tui.worker.views.view import Step

LOST = CAPTURES / "problems/subscription-lost-on-reconnect.pcap"
NO_FRAMES = Options()
DERIVED = ("problems", "peers", "requests", "subscriptions")


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of records that each derivation step got."""
    counts: list[int] = []
    whole = Derivation.parts

    def parts(self: Derivation, batch: Batch) -> Iterator[DerivedTable | None]:
        counts.append(len(batch.records) + sum(len(run.first) for run in batch.messages))
        return whole(self, batch)

    monkeypatch.setattr(Derivation, "parts", parts)
    return counts


def counted(views: CountedViews, view: str, filter: str = "") -> Table:
    """Return the contents of a view once everything is counted."""
    views.table(TableOf(view, filter))
    while views.is_behind:
        views.step()
    return views.table(TableOf(view, filter))


def test_views_of_the_same_records_share_derived_data(fed: list[int]) -> None:
    store = opened(LOST, NO_FRAMES).store
    views = CountedViews(store, lambda: True)
    assert all(counted(views, view).rows for view in DERIVED if view != "requests")
    assert sum(fed) == len(store)
    for _ in range(2):
        assert counted(views, "peers", "conn == 1").rows
        assert counted(views, "subscriptions", "conn == 1").rows
    assert sum(fed) == len(store) + len(store.select(Filter("conn == 1")))


def test_only_new_records_are_derived_while_a_capture_grows(fed: list[int]) -> None:
    batches = opened(LOST, NO_FRAMES).batches
    store = Store(NO_FRAMES)
    views = CountedViews(store, lambda: False)
    for batch in batches:
        store.append(batch)
        assert counted(views, "peers").looked_at == len(store)
    assert len(batches) > 1
    assert sum(fed) == len(store)


def test_a_table_of_the_same_records_is_made_once() -> None:
    views = CountedViews(store_of(LOST), lambda: True)
    first = counted(views, "problems")
    assert views.table(TableOf("problems")).rows is first.rows
    assert views.table(TableOf("problems", wanted=Wanted(opened=frozenset({first.rows[0].key})))).rows != first.rows


def test_a_search_runs_one_rule_a_step_and_nothing_is_derived_meanwhile(fed: list[int]) -> None:
    views = CountedViews(store_of(LOST), lambda: True)
    derived = views.derived
    while derived.looked_at < len(store_of(LOST)):
        derived.step()
    while derived.counter.is_busy:
        derived.step()
    steps, records = derived.steps, sum(fed)
    assert views.diagnoses is None
    while derived.is_behind:
        derived.step()
    assert derived.steps - steps == len(RULES) + 1
    assert sum(fed) == records
    assert views.diagnoses == "1 error, 1 note"
    assert [row.style for row in views.causes] == ["error"], "a note is no problem"
    assert views.causes is views.causes


def test_searches_repeat_while_records_arrive() -> None:
    views = CountedViews(store_of(LOST), lambda: False)
    while views.derived.is_behind:
        views.derived.step()
    assert views.diagnoses is None
    views.derived.counter.due = 0.0
    assert views.derived.is_behind


def test_a_search_begins_when_all_arrived_records_are_derived() -> None:
    """The state of the analyser is newer than records that arrived, so a reply among them would seem to be missing."""
    batches = opened(LOST, NO_FRAMES).batches
    store = Store(NO_FRAMES)
    arrived = deque[Step]()
    views = CountedViews(store, lambda: False, lambda: None if arrived else Ongoing(), arrived)
    for batch in batches:
        arrived.append(Step(store, range(len(store), store.append(batch)), batch))
        views.derived.counter.due = 0.0
        while arrived:
            views.derived.step()
            assert not views.derived.counter.is_searching
    assert views.derived.looked_at == len(store)
    while views.diagnoses is None:
        views.derived.step()
