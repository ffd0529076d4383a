"""The view of peers folds connections over reconnects."""

from __future__ import annotations

from tests.tui.worker.views.fed import cell, cells, opened_whole, view_of_capture
from zmtpscope.tui.worker.views.peers import AWAY, CONNECTED, ENDED, LIFELINE


def test_a_peer_that_comes_back_is_one_peer_with_its_connections_below() -> None:
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
