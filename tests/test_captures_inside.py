"""Compare payloads and datagrams in real captures with the messages that the applications sent."""

from __future__ import annotations

import base64
import json
import pathlib
from collections import defaultdict
from typing import Any

import pytest

from tests.readings import CAPTURES, Reading, Record, read_inside
from zmtpscope.records import from_text, to_text

ZRE = [
    path.with_suffix("").with_suffix("")
    for path in sorted(CAPTURES.rglob("*.truth.json"))
    if "zre_nodes" in path.read_text()
]


def truth_of(capture: pathlib.Path) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads(capture.with_suffix(".truth.json").read_text())
    return truth


def findings(reading: Reading, *severities: str) -> list[str]:
    return [record["id"] for record in reading.of("finding") if record["severity"] in severities]


def commands_by_node(reading: Reading) -> dict[str, list[Record]]:
    """Return the messages of each node, by its UUID."""
    by_node = defaultdict(list)
    for record in reading.of("message"):
        assert record["payload"]["protocol"] == "zre"
        fields = record["payload"]["fields"]
        by_node[fields["node"]].append(fields)
    return by_node


@pytest.mark.parametrize("capture", ZRE, ids=lambda path: path.name)
def test_zre_nodes_send_what_their_applications_sent(capture: pathlib.Path) -> None:
    reading = read_inside(capture.with_suffix(".pcap"))
    spoken = commands_by_node(reading)
    nodes = truth_of(capture)["zre_nodes"]
    assert set(spoken) == {node["uuid"] for node in nodes.values()}
    for name, node in nodes.items():
        hello, *rest = spoken[node["uuid"]]
        assert (hello["command"], hello["name"], hello["groups"]) == ("HELLO", name, node["groups"])
        found: list[list[Any]] = []
        for fields in rest:
            if fields["command"] in ("SHOUT", "WHISPER"):
                frames = bodies_of(reading, fields)
                found.append([fields["command"], fields.get("group"), frames])
            elif fields["command"] in ("JOIN", "LEAVE"):
                found.append([fields["command"], fields["group"]])
            else:
                assert fields["command"] in ("PING", "PING-OK")
        wanted = [[*each[:2], *(list(map(from_text, frames)) for frames in each[2:])] for each in node["said"]]
        assert found == wanted


def bodies_of(reading: Reading, fields: Record) -> list[bytes]:
    (record,) = [each for each in reading.of("message") if each["payload"]["fields"] is fields]
    return [base64.b64decode(body) for body in record["bodies"][1:]]


@pytest.mark.parametrize("capture", ZRE, ids=lambda path: path.name)
def test_zre_nodes_that_met_are_a_pair_without_findings(capture: pathlib.Path) -> None:
    reading = read_inside(capture.with_suffix(".pcap"))
    nodes = truth_of(capture)["zre_nodes"]
    (pair,) = reading.of("zre_pair")
    assert {pair["name_0"]: pair["uuid_0"], pair["name_1"]: pair["uuid_1"]} == {
        name: node["uuid"] for name, node in nodes.items()
    }
    assert findings(reading, "error", "warn") == []


@pytest.mark.parametrize("capture", ZRE, ids=lambda path: path.name)
def test_beacons_of_zre_nodes(capture: pathlib.Path) -> None:
    """Each node sends some beacons, from the address that the other connects to, and a farewell."""
    reading = read_inside(capture.with_suffix(".pcap"))
    by_node: dict[str, list[Record]] = defaultdict(list)
    for record in reading.of("datagram"):
        assert (record["kind"], record["confidence"], record["complete"]) == ("beacon", "proven", True)
        by_node[record["payload"]["fields"]["uuid"]].append(record)
    assert set(by_node) == {node["uuid"] for node in truth_of(capture)["zre_nodes"].values()}
    listening = {(record["dst_ip"], record["dst_port"]) for record in reading.of("connection")}
    for beacons in by_node.values():
        ports = [beacon["payload"]["fields"]["port"] for beacon in beacons]
        assert (beacons[0]["src_ip"], ports[0]) in listening
        assert ports[-1] == 0
        assert set(ports[:-1]) == {ports[0]}


def test_radio_messages_over_udp_are_what_was_sent() -> None:
    reading = read_inside(CAPTURES / "patterns" / "radio-dish-udp.pcap")
    sent = truth_of(CAPTURES / "patterns" / "radio-dish-udp")["sent"]
    records = reading.of("datagram")
    assert len(records) == len(sent) == 11
    assert {record["confidence"] for record in records} == {"guess"}
    found = [[to_text(base64.b64decode(record["body"]))] for record in records]
    assert all(mine == theirs for mine, theirs in zip(found, sent, strict=True) if isinstance(theirs, list))
    assert {record["group"] for record in records} == {"news", "wx", "nobody"}


def test_a_pickle_in_a_public_capture_is_found() -> None:
    reading = read_inside(CAPTURES / "public" / "abazh-dist-sys-zmq.pcap")
    (record,) = [record for record in reading.of("message") if (record["payload"] or {}).get("protocol") == "pickle"]
    assert base64.b64decode(record["bodies"][0]) == b"\x80\x04KT."
    assert (findings(reading, "note"), findings(reading, "warn", "error")) == (["PICKLE-01"], [])


OTHERS = sorted((CAPTURES / "negative").glob("*.pcap*")) + sorted((CAPTURES / "patterns").glob("*.pcap"))


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_nothing_is_taken_for_what_it_is_not(path: pathlib.Path) -> None:
    """Test traffic of sockets is text or unclaimed; other protocols are not taken for ZeroMQ datagrams."""
    reading = read_inside(path)
    protocols = {record["payload"]["protocol"] for record in reading.of("message") if record["payload"] is not None}
    assert protocols <= {"text"}
    if path.name != "radio-dish-udp.pcap":
        assert reading.of("datagram", "zre_pair") == []
