"""Lists of the worker: records that match a filter, in order, while the capture is read."""

from __future__ import annotations

import pytest

from tests.readings import CAPTURES
from tests.store.stores import options_for
from tests.tui.workers import worker_of
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser
from zmtpscope.records import RECORDS
from zmtpscope.store import Store
from zmtpscope.tui.choices import EVERYTHING
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import ListChanged, ListSpec, OpenList, PlaceFound, PlaceOf, Rows, Sort
from zmtpscope.tui.worker.columns import ordering_time
from zmtpscope.tui.worker.lists import RecordList
from zmtpscope.tui.worker.sides import Sides


def test_a_list_has_the_messages_in_order_with_names_and_topics() -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        state = worker.ask(OpenList("messages", ListSpec()))
        assert state.found > 0
        page = worker.ask(Rows("messages", 0, 3))
        assert [row.style for row in page.rows] == ["message"] * 3
        columns = [column.name for column in state.columns]
        assert columns == ["time", "conn", "from", "to", "topic", "parts", "size", "content"]
        assert page.rows[0].cells[2].startswith("PUB")
        assert page.rows[0].cells[3].startswith("SUB")


def test_a_conversation_has_a_column_for_each_side_and_marks_pauses() -> None:
    with worker_of("problems/subscription-lost-on-reconnect.pcap") as worker:
        worker.wait_until_loaded()
        names = ("after", "left", "right", "right_hex")
        state = worker.ask(OpenList("followed", ListSpec(EVERYTHING, "conn == 1", columns=names)))
        rows = [row.cells for row in worker.ask(Rows("followed", 0, state.found)).rows]
        assert any('SUBSCRIBE "' in left for _, left, *_ in rows)
        assert all(not left or not right for _, left, right, _ in rows)
        message = next(cells for cells in rows if cells[2].startswith("prices  "))
        assert message[3].startswith("70 72 69 63 65 73 | ")
        assert [after for after, *_ in rows if after] == ["+597 ms", "+1 s"]
        page = worker.ask(Rows("followed", 5, 7)).rows
        assert [row.cells for row in page] == rows[5:7], "the same in any part"


def test_an_invalid_filter_is_a_failure_with_a_sentence() -> None:
    with worker_of("patterns/pubsub.pcap") as worker, pytest.raises(RequestFailed, match="siez"):
        worker.ask(OpenList("messages", ListSpec(filter="siez > 3")))


def test_the_place_of_a_hidden_record_is_its_neighbours() -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        everything = worker.ask(OpenList("messages", ListSpec()))
        numbers = [row.number for row in worker.ask(Rows("messages", 0, everything.found)).rows]
        worker.ask(OpenList("some", ListSpec(only=tuple(numbers[::5]))))
        places = [worker.ask(PlaceOf("some", number)) for number in numbers[::5]]
        assert places == [PlaceFound(place, True) for place in range(len(numbers[::5]))]
        assert worker.ask(PlaceOf("some", numbers[6])) == PlaceFound(1, False)


def test_datagrams_have_no_connection_and_are_shown() -> None:
    with worker_of("patterns/radio-dish-udp.pcap") as worker:
        worker.ask(OpenList("datagrams", ListSpec(("datagram",))))
        rows = worker.ask(Rows("datagrams", 0, 3)).rows
        assert all(":" in row.cells[2] for row in rows)
        assert len(rows) == 3


def test_a_list_is_sorted_by_a_column_and_reports_it() -> None:
    with worker_of("implementations/jupyter.pcap") as worker:
        worker.wait_until_loaded()
        unsorted = worker.ask(OpenList("messages", ListSpec(columns=("size", "time"))))
        sizes = [int(row.cells[0]) for row in worker.ask(Rows("messages", 0, unsorted.found)).rows]
        for descending in (True, False):
            worker.ask(OpenList("messages", ListSpec(sort=Sort("size", descending), columns=("size", "time"))))
            changed = worker.wait_for(ListChanged, lambda notice: notice.state.order > 0)
            assert changed.state.found == unsorted.found
            rows = worker.ask(Rows("messages", 0, changed.state.found)).rows
            assert [int(row.cells[0]) for row in rows] == sorted(sizes, reverse=descending)
            assert worker.ask(PlaceOf("messages", rows[3].number)) == PlaceFound(3, True)


def test_rows_after_sorting_are_last_until_sorted_again() -> None:
    path = CAPTURES / "patterns" / "pubsub.pcap"
    options = options_for(path, frames=False)
    store = Store(options)
    shown = RecordList("all", 1, ListSpec(tuple(RECORDS), sort=Sort("ts_ns", True)), store, Sides())
    for batch in Analyser(options).run(open_captures([str(path)], block_size=700)):
        store.append(batch)
        shown.step()
        assert sorted(shown.numbers().tolist()) == list(range(shown.state.found))
        while shown.is_behind:
            shown.step()
    times = [store.row(number)["ts_ns"] for number in shown.numbers().tolist()]
    assert times == sorted(times, reverse=True)
    assert len(times) == len(store)


@pytest.mark.parametrize("block_size", [700, 1 << 20])
def test_rows_are_in_time_order_while_the_capture_is_read(block_size: int) -> None:
    """Records are decided later than they begin; rows that the state calls unchanged are."""
    path = CAPTURES / "problems" / "request-unanswered.pcap"
    options = options_for(path, frames=False)
    store = Store(options)
    shown = RecordList("all", 1, ListSpec(tuple(RECORDS)), store, Sides())
    before: list[int] = []
    for batch in Analyser(options).run(open_captures([str(path)], block_size=block_size)):
        shown.notified = shown.state
        store.append(batch)
        while shown.is_behind:
            shown.step()
        numbers, state = shown.numbers().tolist(), shown.state
        times = [ordering_time(store.row(number)) for number in numbers]
        assert times == sorted(times)
        kept = state.kept if state.order > shown.notified.order else len(before)
        assert numbers[:kept] == before[:kept]
        before = numbers
    assert sorted(before) == list(range(len(store)))
    assert [shown.place_of(number) for number in before] == [PlaceFound(place, True) for place in range(len(before))]
