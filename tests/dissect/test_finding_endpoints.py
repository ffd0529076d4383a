"""Endpoints of findings: the first packet in any order, and limits that a scan cannot exceed."""

from __future__ import annotations

from zmtpscope.dissect.arrivals import Stamp
from zmtpscope.dissect.records.finding_endpoints import MAX_CLIENTS, MAX_ENDPOINTS, FindingEndpoints


def test_the_first_packet_is_the_earliest_for_any_order_of_findings() -> None:
    found = FindingEndpoints()
    for time in (20, 10, 30):
        found.add(1, ("10.0.0.1", 5555), "10.0.0.2", Stamp(time, time), None)
    (at,) = found.endpoints.values()
    assert (at.count, at.first) == (3, Stamp(10, 10))


def test_the_endpoints_of_a_scan_are_remembered_up_to_a_limit_and_its_findings_counted() -> None:
    found = FindingEndpoints()
    for port in range(5000):
        found.add(2, ("10.0.0.1", port), "10.0.0.2", Stamp(port, port), None)
    assert len(found.endpoints) == MAX_ENDPOINTS
    assert found.elsewhere + sum(at.count for at in found.endpoints.values()) == 10_000


def test_the_clients_of_all_endpoints_are_remembered_up_to_a_limit_together() -> None:
    found = FindingEndpoints()
    for number in range(3000):
        found.add(1, ("10.0.0.1", 5555 + number % 2), f"client {number}", Stamp(number, number), None)
    assert sum(len(at.clients) for at in found.endpoints.values()) == MAX_CLIENTS
    assert all(at.has_more_clients and at.count == 1500 for at in found.endpoints.values())
