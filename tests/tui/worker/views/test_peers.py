"""The view of peers joins connections over reconnects."""

from __future__ import annotations

from tests.diagnosis.publishing_traffic import Subscriber
from tests.traffic import Capture, Conversation
from tests.tui.worker.views.fed import cell, cells, derived_of, derived_view_of, opened_whole, view_of_capture
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.peers import AWAY, CONNECTED, ENDED, LIFELINE


def test_a_peer_that_returns_is_one_peer_with_its_connections_below() -> None:
    view = view_of_capture("peers", "problems/subscription-lost-on-reconnect.pcap")
    table = view.table()
    listening = [row for row in cells(table, "type", "remote", "connections") if not row[1]]
    assert listening
    assert listening[0][0] == "PUB"
    whole = opened_whole(view)
    below = [row for row in whole.rows if row.depth == 1]
    assert len(below) == sum(int(count) for (count,) in cells(table, "connections"))
    assert all(row.filter.startswith("conn == ") for row in below)


def test_lifelines_show_when_a_peer_was_away() -> None:
    table = opened_whole(view_of_capture("peers", "problems/subscription-lost-on-reconnect.pcap"))
    lifelines = {row.key: cell(table, row, "lifeline") for row in table.rows}
    assert all(len(line) == LIFELINE for line in lifelines.values())
    peer = next(row for row in table.rows if not row.depth and cell(table, row, "connections") == "2")
    below = [line for key, line in lifelines.items() if key.startswith(f"{peer.key} ")]
    assert len(below) == 2
    first, second = below
    assert first[0] == CONNECTED
    assert first[-1] == second[0] == AWAY
    assert ENDED in lifelines[peer.key]


def test_the_lifeline_of_a_closed_peer_ends_when_it_closed_although_packets_came_later() -> None:
    """The FIN has no answer: the other side sends until the capture ends."""
    early, late = Subscriber(2, 0, "prices"), Subscriber(3, 0, "prices")
    early.at(500)
    early.add(0, FIN | ACK)
    for each in (early, late):
        each.at(2_000)
        each.publish(b"prices", b"body")
    store = stored(early, late)
    derived = derived_of(store, range(len(store)))
    table = opened_whole(derived_view_of("peers", derived))
    line = next(cell(table, row, "lifeline") for row in table.rows if not row.depth and row.cells[0] == "10.0.0.2")
    assert line.index(ENDED) < LIFELINE // 3
    assert line.endswith(AWAY)


def stored(*connections: Conversation) -> Store:
    packets = sorted((packet for each in connections for packet in each.packets), key=lambda packet: packet.time)
    store = Store(Options())
    for batch in Analyser(Options()).run(Capture(packets)):
        store.append(batch)
    return store
