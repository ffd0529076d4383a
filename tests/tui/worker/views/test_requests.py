"""The view of requests: pending ones first, then the slowest, each with both records."""

from __future__ import annotations

from itertools import pairwise

from tests.diagnosis.talking import CLIENT
from tests.diagnosis.test_calls import event, talk
from tests.readings import CAPTURES
from tests.traffic import Capture
from tests.tui.worker.views.fed import (
    cells,
    derived_of,
    derived_view_of,
    opened_whole,
    store_of,
    view_of,
    view_of_capture,
)
from zmtpscope.dissect import Analyser, Options
from zmtpscope.payloads.registry import Registry
from zmtpscope.store import Store
from zmtpscope.tui.requests import Wanted
from zmtpscope.tui.worker.views.derived import DerivedView

UNANSWERED = "problems/request-unanswered.pcap"


def test_connections_with_open_requests_come_first() -> None:
    table = view_of_capture("requests", UNANSWERED).table()
    assert cells(table, "request", "outcome", "requests", "unanswered") == [
        ("REQ 10.0.0.2 > ROUTER 10.0.0.1:5555", "1 open", "3", "1"),
        ("REQ 10.0.0.3 > ROUTER 10.0.0.1:5555", "all answered", "10", ""),
    ]
    assert table.text[0] == "13 requests: 12 answered, 1 open"


def test_pending_requests_of_a_connection_are_first_then_the_slowest() -> None:
    table = opened_whole(view_of_capture("requests", UNANSWERED))
    first = cells(table, "request", "outcome", "waited", "reply", depth=1)[:3]
    assert first == [
        ("what is it", "open", "1.81 s", ""),
        ("where are you", "answered", "52.8 ms", "reply"),
        ("who are you", "answered", "50.6 ms", "reply"),
    ]


def test_a_request_leads_to_its_record_and_the_reply_below_it_to_that_one() -> None:
    store = store_of(CAPTURES / "patterns/reqrep.pcap")
    rows = opened_whole(view_of("requests", store)).rows
    pairs = [(row, below) for row, below in pairwise(rows) if below.depth == 2]
    assert pairs
    for row, below in pairs:
        assert row.record is not None
        assert below.record is not None
        request, reply = store.row(row.record), store.row(below.record)
        assert (request["side"], reply["side"]) == (0, 1)
        assert request["conn_id"] == reply["conn_id"]
        assert request["ts_ns"] <= reply["ts_ns"]


def test_an_unexpected_reply_is_listed_without_a_request() -> None:
    table = opened_whole(view_of_capture("requests", "problems/reply-to-nobody.pcap"))
    assert cells(table, "request", "outcome", "reply", depth=1)[0] == ("", "a reply to nobody", "once more")


def test_a_pending_request_is_open_while_the_connection_lasts() -> None:
    store = store_of(CAPTURES / UNANSWERED)
    asked = next(row.record for row in opened_whole(view_of("requests", store)).rows if "what is it" in row.cells)
    assert asked is not None
    table = opened_whole(derived_view_of("requests", derived_of(store, range(asked + 1))))
    assert cells(table, "request", "outcome", depth=1)[0] == ("what is it", "open")
    assert cells(table, "outcome", "unanswered", depth=0)[0] == ("1 open", "1")


def test_a_view_without_requests_reports_it() -> None:
    table = view_of_capture("requests", "patterns/pubsub.pcap").table()
    assert table.rows == ()
    assert table.text[0].startswith("no requests were seen")


def test_connections_with_equal_names_have_numbers() -> None:
    table = view_of_capture("requests", "problems/lazy-pirate.pcap").table()
    rows = cells(table, "request", "conn", depth=0)
    assert len(rows) > len({name for name, _ in rows})
    assert len(rows) == len(set(rows))


def test_nothing_waits_longer_than_its_connection_lasts() -> None:
    view = view_of_capture("requests", "problems/request-lost.pcap")
    assert isinstance(view, DerivedView)
    ended = {each.conn_id: each for each in view.derived.knowledge.connections if not each.is_open}
    rows = view.table(Wanted(is_raw=True)).rows
    waited = [int(row.cells[7]) for row in rows if row.key.split()[0] in ended and row.cells[7]]
    lasted = max(each.last_ns - each.start.ns for each in ended.values())
    assert 0 < max(waited) <= lasted


def test_calls_of_protocols_with_ids_are_requests_with_their_latency() -> None:
    """Calls of zerorpc between DEALER and ROUTER have no envelopes, and are matched by id."""
    made = talk(3).multipart(CLIENT, b"", event("last", "block")).wait(4).close(CLIENT)
    options = Options(payloads=Registry())
    store = Store(options)
    for batch in Analyser(options).run(Capture(made.conversation.packets)):
        store.append(batch)
    view = view_of("requests", store)
    assert cells(view.table(), "outcome", "requests", "unanswered", "p50") == [("1 unanswered", "4", "1", "102 ms")]
    (call,) = [row for row in opened_whole(view).rows if row.depth]
    assert (call.cells[0], call.cells[2]) == ("call of block", "no reply")
    assert call.time is not None
