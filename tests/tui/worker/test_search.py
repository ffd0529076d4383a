"""A search finds the next or previous row with a text, and can be cancelled."""

from __future__ import annotations

import numpy as np
import pytest

from tests.readings import CAPTURES, PUBSUB
from tests.store.stores import opened, options_for
from tests.tui.workers import worker_of
from zmtpscope.filter import FilterError
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import Find, ListSpec, OpenList, Rows
from zmtpscope.tui.worker import search as module
from zmtpscope.tui.worker.search import Search, filter_of


def found(store: Store, numbers: Int64, sought: str, place: int, *, forward: bool = True) -> int | None:
    search = Search(store, numbers, sought, place, forward=forward)
    while not search.is_done:
        search.step()
    return search.found


@pytest.mark.parametrize(("step", "most"), [(1, 1), (3, 8), (256, 4096)])
@pytest.mark.parametrize("sought", ["a.topic", "/A[.]TOP.C/", "0x61 2e 74", "0x612e74", "nowhere to be found"])
def test_a_search_finds_the_next_and_the_previous_row(
    sought: str, step: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_STEP", step)
    monkeypatch.setattr(module, "MAX_CONCURRENT", most)
    store, _ = opened(PUBSUB, options_for(PUBSUB))
    numbers = np.arange(len(store))[::-2]
    matching = [row for row, number in enumerate(numbers.tolist()) if filter_of(sought).holds(store.row(number))]
    assert bool(matching) == ("nowhere" not in sought)
    for place in range(-1, len(numbers) + 1, 4):
        assert found(store, numbers, sought, place) == min((row for row in matching if row > place), default=None)
        before = max((row for row in matching if row < place), default=None)
        assert found(store, numbers, sought, place, forward=False) == before


def test_a_worker_answers_when_it_has_found_the_row() -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        worker.wait_until_loaded()
        worker.ask(OpenList("messages", ListSpec()))
        place = worker.ask(Find("messages", "a.topic", -1))
        assert place is not None
        (row,) = worker.ask(Rows("messages", place, place + 1)).rows
        assert "a.topic" in row.cells
        assert worker.ask(Find("messages", "nowhere to be found", -1)) is None
        assert worker.ask(Find("no such list", "a", -1)) is None
        with pytest.raises(RequestFailed, match="regular expression"):
            worker.ask(Find("messages", "/(/", -1))


def test_no_search_finds_a_password() -> None:
    path = CAPTURES / "security" / "plain-accepted.pcap"
    store, _ = opened(path, options_for(path))
    assert found(store, np.arange(len(store)), "s3cret", -1) is None
    assert found(store, np.arange(len(store)), "0x" + b"s3cret".hex(), -1) is None
    assert found(store, np.arange(len(store)), "admin", -1) is not None


def test_an_invalid_regular_expression_is_an_error() -> None:
    with pytest.raises(FilterError, match="not a regular expression"):
        filter_of("/(/")
