"""The view of ZRE: nodes, their groups, and discoveries."""

from __future__ import annotations

from tests.tui.worker.views.fed import cells, opened_whole, view_of_capture


def test_nodes_have_names_endpoints_and_groups() -> None:
    table = view_of_capture("zre", "implementations/zre-pyre.pcap").table()
    assert cells(table, "what", "uuid", "endpoint", "with", "messages", "shouts", "whispers")[:3] == [
        ("nodes", "", "", "", "", "", ""),
        ("anna", "700C6B", "tcp://10.77.0.1:43375", "GLOBAL, late-py", "6", "1", "2"),
        ("ben", "BF6E9B", "tcp://10.77.0.2:33411", "late-py", "7", "1", "2"),
    ]


def test_groups_have_members_and_a_count_of_shouts() -> None:
    table = view_of_capture("zre", "implementations/zre-pyre.pcap").table()
    assert cells(table, "what", "with", "messages", "shouts")[4:] == [
        ("GLOBAL", "anna", "3", "2"),
        ("late-py", "ben, anna", "2", "0"),
        ("pygroup", "", "2", "0"),
    ]


def test_beacons_and_discovered_nodes_are_below_a_node() -> None:
    table = opened_whole(view_of_capture("zre", "implementations/zre-pyre.pcap"))
    beacons, pair = [row for row in table.rows if row.depth == 2][:2]
    assert beacons.cells[0] == "7 beacons"
    assert pair.cells[0].startswith("ZRE nodes anna and ben are connected")
    assert pair.record is not None


def test_a_view_without_zre_reports_it() -> None:
    assert view_of_capture("zre", "patterns/pubsub.pcap").table().text == ("no ZRE nodes",)
