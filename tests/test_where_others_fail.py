"""A capture and a test for each case in which current tools fail (compared with tshark 4.4; see README.md)."""

from __future__ import annotations

import pathlib
import struct
from typing import Any

import pytest

from tests.readings import CAPTURES, Frames, Reading, read, run
from zmtpscope.records import from_text


def findings(reading: Reading) -> dict[str, dict[str, Any]]:
    return {record["id"]: record for record in reading.of("finding")}


def names(reading: Reading) -> set[str]:
    return {record["name"] for record in reading.of("command")}


def texts(reading: Reading) -> list[Frames]:
    return [frames for _, frames in reading.messages()]


def test_no_port_has_to_be_named() -> None:
    """Three patterns on ports 5555, 9999 and 12345, found in one run without an option."""
    connections = read(CAPTURES / "public/abazh-dist-sys-zmq.pcap").of("connection")
    assert {(c["dst_port"], c["socket_type_0"], c["socket_type_1"]) for c in connections} == {
        (5555, "REQ", "REP"),
        (9999, "PULL", "PUSH"),
        (12345, "SUB", "PUB"),
    }


@pytest.mark.parametrize(
    ("capture", "version"),
    [
        ("versions/reqrep-bind2.2.0-conn2.2.0", "1.0"),
        ("versions/dealerrouter-bind4.3.5-conn2.2.0", "1.0"),
        ("versions/reqrep-bind3.2.5-conn3.2.5", "2.0"),
        ("versions/dealerrouter-bind3.2.5-conn4.3.5", "2.0"),
    ],
)
def test_versions_1_0_and_2_0_are_read(capture: str, version: str) -> None:
    """Alone and with a newer peer, which greets as 3.x and then uses the older version."""
    reading = read(CAPTURES / f"{capture}.pcap")
    assert [c["version"] for c in reading.of("connection")] == [version]
    assert len(reading.messages()) >= 6


def test_an_empty_pong_is_no_error() -> None:
    """The PONG of libzmq has no context because the PING had none; both are well formed."""
    reading = read(CAPTURES / "patterns/heartbeat-both.pcap")
    pongs = [record for record in reading.of("command") if record["name"] == "PONG"]
    assert len(pongs) > 3
    assert {record["length"] for record in pongs} == {2 + 5}
    assert [r for r in reading.of("finding") if r["severity"] in ("error", "warn")] == []


@pytest.mark.parametrize("capture", ["plain-wrong-password", "plain-refused-4.3.5"])
def test_the_mangled_plain_error_is_read_as_error(capture: str) -> None:
    """libzmq sends `5E 52 52 4F 52` in place of the name ERROR: still an ERROR with its reason, and a finding."""
    reading = read(CAPTURES / f"security/{capture}.pcap")
    (error,) = (record for record in reading.of("command") if record["name"] == "ERROR")
    assert error["reason"] == "400"
    assert error["mangled"] is True
    assert {"PLAIN-06", "NULL-03"} <= set(findings(reading))


def test_a_bad_flag_octet_does_not_silence_the_rest() -> None:
    """Flags 80 in the middle of a stream: reported with their offset, and the messages after it are read."""
    reading = read(CAPTURES / "faults/reserved-flag-80.pcap")
    finding = findings(reading)["ZMTP3X-FRAME-01"]
    assert finding["side"] == 0
    assert texts(reading) == [(b"good",), (b"payload!",), (b"good2",)]


def test_a_length_above_32_bits_is_one_unfinished_frame() -> None:
    """2^32 + 5 octets are announced: the next octets are the body of that frame and no messages."""
    reading = read(CAPTURES / "faults/frame-length-above-32-bits.pcap")
    assert texts(reading) == [(b"", b"Hello 0")]
    assert [record for record in reading.of("message") if record["complete"] and record["side"] == 1] == []


def without_packets(path: pathlib.Path, first: int, stop: int) -> bytes:
    """Return a little-endian pcap without its packets first (counted from 1) to stop - 1."""
    data = path.read_bytes()
    out, at, number = [data[:24]], 24, 1
    while at < len(data):
        length = 16 + struct.unpack_from("<I", data, at + 8)[0]
        if not first <= number < stop:
            out.append(data[at : at + length])
        at, number = at + length, number + 1
    return b"".join(out)


@pytest.mark.parametrize("removed", [60, 90, 121, 152, 185])
def test_a_capture_may_start_inside_a_message(removed: int, tmp_path: pathlib.Path) -> None:
    """Every message that begins a little after the start is found, and no other."""
    whole = read(CAPTURES / "network/vlan.pcap")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(without_packets(CAPTURES / "network/vlan.pcap", 1, removed + 1))
    reading = read(cut)
    sent = texts(whole)
    expected = [frames for record, frames in whole.messages() if record["packet"] > removed + 30]
    found = texts(reading)
    assert len(expected) > 50
    assert set(expected) <= set(found) <= set(sent)
    assert {c["handshake"] for c in reading.of("connection")} == {"unseen"}


def test_messages_behind_a_hole_are_found() -> None:
    """One segment is missing: the loss is reported, and the octets before and after it are read."""
    whole = texts(read(CAPTURES / "damage/reordered.pcap"))
    reading = read(CAPTURES / "damage/one-segment-lost.pcap")
    (gap,) = reading.of("gap")
    assert gap["bytes"] == 273
    assert "ZMTP-CONN-05" in findings(reading)
    found = texts(reading)
    assert len(found) == len(whole) - 1
    assert set(found) <= set(whole)


def test_many_holes_cost_only_what_was_in_them() -> None:
    """15 of the segments of 200 messages are missing; test_captures.py checks that no messages are invented."""
    reading = read(CAPTURES / "damage/holes.pcap")
    assert len(texts(reading)) >= 173
    assert sum(gap["bytes"] for gap in reading.of("gap")) == sum(c["gap_bytes"] for c in reading.of("connection")) > 0


@pytest.mark.parametrize("arguments", [[], ["--json"], ["-V", "-x"]])
@pytest.mark.parametrize(
    ("capture", "password"), [("plain-dealer-router", "s3cret"), ("plain-wrong-password", "wrong")]
)
def test_passwords_are_masked_unless_asked_for(capture: str, password: str, arguments: list[str]) -> None:
    path = str(CAPTURES / f"security/{capture}.pcap")
    masked, shown = (
        # JSON lines contain the file name, and one file is named after its password
        run("read", *options, *arguments, path).stdout.replace(path.encode(), b"")
        for options in ([], ["--show-secrets"])
    )
    assert password.encode() in shown
    assert password.encode() not in masked
    assert password.encode().hex(" ") not in masked.decode()
    assert b"admin" in masked


def test_curve_is_read_with_keys() -> None:
    """Messages, subscriptions and heartbeats of encrypted connections, and the roles of both sides."""
    capture = CAPTURES / "security/curve-with-key-log.pcap"
    printed = run("read", "--keys", str(capture.with_suffix(".keys")), str(capture)).stdout.decode()
    for words in ("decrypted message 5 octets  hello", 'decrypted SUBSCRIBE "news."', "decrypted PING", "XPUB"):
        assert words in printed
    assert "encrypted," not in printed


def test_subscriptions_are_known_with_their_topics() -> None:
    reading = read(CAPTURES / "patterns/pubsub.pcap")
    topics = [(r["name"], from_text(r["topic"])) for r in reading.of("command") if r["topic"] is not None]
    assert ("SUBSCRIBE", b"a") in topics
    assert ("CANCEL", b"a") in topics
    assert {record["topic"] for record in reading.of("message")} == {"a.topic", "b.topic", "c.topic"}


def test_envelopes_are_separate_from_content() -> None:
    """A request that reaches a REP through two proxies has two addresses before the delimiter."""
    reading = read(CAPTURES / "patterns/multihop-proxy.pcap")
    assert max(len(record["envelope"] or []) for record in reading.of("message")) == 2
