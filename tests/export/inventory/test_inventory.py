"""The inventory: compared with the truth files of captures, and with peers that invent names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.readings import CAPTURES, TRUTHS, Truth
from zmtpscope.capture import CaptureStatistics, open_captures
from zmtpscope.dissect import Analyser, Options, Record
from zmtpscope.export.inventory import inventory as limits
from zmtpscope.export.inventory.inventory import Inventory, objects
from zmtpscope.export.inventory.report import WIDTH, report
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import empty


def found_in(path: Any, **options: Any) -> list[dict[str, Any]]:
    inventory, analyser = Inventory(), Analyser(Options(bodies="none"))
    for batch in analyser.run(open_captures([str(path)], **options)):
        inventory.feed(batch.records)
    return list(objects(inventory, analyser.summary.other_endpoints))


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name)
def test_versions_match_the_file_names(truth: Truth) -> None:
    endpoints = [each for each in found_in(truth.path) if each["found"] == "endpoint" and each["transport"] != "udp"]
    versions = {version for each in endpoints for version in each["versions"]}
    if truth.versions:  # truth files list CURVE with heartbeats and the like if they are certain
        assert versions <= set(truth.versions)
    if truth.versions and truth.handshake == "complete":
        assert versions == set(truth.versions)
        assert any("complete" in each["handshakes"] for each in endpoints)


@pytest.mark.parametrize("name", ["http", "modbus", "tls", "auliamghfr-mqtt"])
def test_endpoints_of_other_protocols_are_listed_separately(name: str) -> None:
    found = found_in(CAPTURES / f"negative/{name}.pcap")
    assert {each["found"] for each in found} == {"other"}
    assert all(each["port"] < 32_768 for each in found)


def test_an_endpoint() -> None:
    endpoint, refused = found_in(CAPTURES / "patterns/pubsub.pcap")
    assert (endpoint["ip"], endpoint["port"], endpoint["connections"]) == ("127.0.0.1", 5630, 2)
    assert (endpoint["versions"], endpoint["mechanisms"]) == ({"3.1": 2}, {"NULL": 2})
    assert (endpoint["socket_types"], endpoint["client_types"]) == ({"PUB": 2}, {"SUB": 2})
    assert (endpoint["clients"], endpoint["handshakes"], endpoint["messages"]) == (["127.0.0.1"], {"complete": 2}, 19)
    assert (refused["outcome"], refused["count"], refused["finding"]) == ("refused", 14, "ZMTP-CONN-14")


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("plain-wrong-password", "PLAIN-06"),
        ("plain-refused-4.1.8", "PLAIN-06"),
        ("curve-status-400", "CURVE-26"),
        ("null-status-400", "NULL-09"),
        ("incompatible-socket-types", "NULL-08"),
        ("mismatch-null-server-plain-client", "ZMTP3X-GREETING-12"),
    ],
)
def test_refused_clients_and_reasons(name: str, finding: str) -> None:
    refusals = [each for each in found_in(CAPTURES / f"security/{name}.pcap") if each["found"] == "refusal"]
    assert finding in {each["finding"] for each in refusals}


@pytest.mark.parametrize("name", ["patterns/pubsub", "security/plain-wrong-password", "unreachable/server-up-later"])
def test_nothing_depends_on_what_is_read_at_a_time(name: str) -> None:
    path = CAPTURES / f"{name}.pcap"
    assert found_in(path) == found_in(path, block_size=1 << 10)


def connection(**values: Any) -> Record:
    whole = empty("connection") | {
        "record": "connection",
        "conn": 1,
        "ip_0": "10.0.0.2",
        "port_0": 50_000,
        "ip_1": "10.0.0.1",
        "port_1": 5555,
        "opened_by": 0,
        "handshake": "complete",
        "confidence": "proven",
        "messages_0": 0,
        "messages_1": 0,
        "start_ns": 1,
        "end_ns": 2,
    }
    return Record.of("connection", (0, 0, 0, 0, 0, 0), whole | values)


WORDS = st.text(st.sampled_from("aA \x1b\n\t\x9b\u202e世\ud800"), max_size=90)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS), max_size=12))
def test_lines_fit_and_are_safe_for_any_names_of_peers(words: list[tuple[str, str, str, str]]) -> None:
    inventory = Inventory()
    for mechanism, socket_type, identity, version in words:
        values = {"mechanism": mechanism, "socket_type_1": socket_type, "identity_0": identity, "version": version}
        inventory.feed([connection(**values, handshake="failed", port_1=len(mechanism) % 3)])
    statistics = CaptureStatistics()
    lines = list(report(inventory, {("fe80::1", 80): 3}, statistics))
    assert not any(safe_text(line) != line for text in lines for line in text.split("\n"))
    assert sum(each["connections"] for each in objects(inventory, {}) if each["found"] == "endpoint") == len(words)


def test_long_sentences_are_wrapped() -> None:
    inventory = Inventory()
    finding = empty("finding") | {
        "record": "finding",
        "conn": 1,
        "severity": "error",
        "id": "X-1",
        "text": "word " * 40,
    }
    inventory.feed([Record.of("finding", (0, 0, 0, 0, 0, 0), finding), connection(handshake="failed")])
    lines = "\n".join(report(inventory, {}, CaptureStatistics())).splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= WIDTH


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_ENDPOINTS", "MAX_CLIENTS", "MAX_IDENTITIES", "MAX_REFUSALS"):
        monkeypatch.setattr(limits, name, 3)
    inventory = Inventory()
    for number in range(10):
        values = {"ip_0": f"10.0.1.{number}", "identity_0": f"id {number}", "handshake": "failed"}
        inventory.feed([connection(**values, port_1=number % 5)])
    assert len(inventory.endpoints) == len(inventory.refusals) == 3
    assert all(len(each.clients) <= 3 and len(each.client_identities) <= 3 for each in inventory.endpoints.values())
    assert inventory.left_out == 4 + 3


def test_the_listener_if_the_beginning_was_not_captured() -> None:
    inventory = Inventory()
    inventory.feed([connection(opened_by=None, port_0=5555, port_1=50_000)])
    assert [(each.ip, each.port) for each in inventory.endpoints] == [("10.0.0.2", 5555)]


def test_the_table_is_80_columns_wide() -> None:
    for name in ("versions", "patterns", "negative"):
        inventory, analyser = Inventory(), Analyser(Options(bodies="none"))
        captures = open_captures(sorted(map(str, CAPTURES.glob(f"{name}/*.pcap"))))
        for batch in analyser.run(captures):
            inventory.feed(batch.records)
        lines = "\n".join(report(inventory, analyser.summary.other_endpoints, captures.statistics)).splitlines()
        assert len(lines) > 8
        assert max(map(len, lines)) <= WIDTH


def test_several_versions_are_a_range() -> None:
    inventory = Inventory()
    for version in ("3.1", "2.0", "3.0"):
        inventory.feed([connection(version=version, mechanism="NULL")])
    assert "10.0.0.1:5555        2.0-3.1 NULL " in "\n".join(report(inventory, {}, CaptureStatistics()))


def test_cells_have_one_word_and_the_line_below_has_all() -> None:
    inventory = Inventory()
    for mechanism, client in (("PLAIN", "DEALER"), ("PLAIN", "DEALER"), ("NULL", "PUSH")):
        inventory.feed([connection(mechanism=mechanism, socket_type_0=client, socket_type_1="ROUTER", version="3.1")])
    *_, row, below = "\n".join(report(inventory, {}, CaptureStatistics())).splitlines()
    assert row.split()[:6] == ["10.0.0.1:5555", "3.1", "PLAIN+", "ROUTER", "<", "DEALER+"]
    assert below.strip() == "PLAIN,NULL; ROUTER < DEALER,PUSH"
    assert len(row) <= WIDTH
