"""PINGs and PONGs: reported only if no missing octets can be the reason, for all sizes of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import peer_octets
from tests.curve import CLIENT, SERVER, CurvePeers, keys
from tests.dissect.talks import SECOND, connected
from tests.peer_octets import message, pong
from tests.suites import some
from tests.traffic import Capture, Conversation, Packet, records, steady_records
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import ACK, FIN, PSH
from zmtpscope.dissect import Options

MILLISECOND = 1_000_000
PATTERNS = Path(__file__).parents[2] / "captures" / "patterns"
SETTINGS = [(0.1, True), (0.1, False), (1.5, True), (1.5, False)]
"""Seconds between two PINGs, and whether they have contexts."""


def ping(context: bytes = b"", ttl_ms: int = 3000) -> bytes:
    return peer_octets.ping(context, ttl_ms=ttl_ms)


def begin(version: str = "3.1") -> Conversation:
    """Return two peers after their handshake."""
    talk = connected("DEALER", "ROUTER", version=version)
    return talk


def beating(seconds: float = 0.1, contexts: bool = True, pairs: int = 8) -> Conversation:
    """Return PINGs of side 0, each answered at once."""
    talk = begin()
    for number in range(pairs):
        context = b"%d" % number if contexts else b""
        talk.wait(int(seconds * SECOND))
        talk.send(0, ping(context))
        talk.send(1, pong(context))
    return talk


def findings(packets: Sequence[Packet], **options: Any) -> list[dict[str, Any]]:
    """Return the findings about heartbeats."""
    whole = steady_records(packets, Options(**options))
    return [record for record in whole if record["record"] == "finding" and "-PING-" in record["id"]]


def placed_findings(talk: Conversation) -> list[tuple[str, int, int]]:
    """Return id, side and packet of these findings."""
    return [(each["id"].removeprefix("ZMTP31-"), each["side"], each["packet"]) for each in findings(talk.packets)]


# -- what a capture lacks ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "contexts"), SETTINGS)
@pytest.mark.parametrize("closed", [True, False])
def test_a_packet_that_was_not_captured_accuses_no_peer(seconds: float, contexts: bool, closed: bool) -> None:
    talk = beating(seconds, contexts)
    if closed:
        talk.close()
    for lost in range(5, 21):
        assert findings([packet for at, packet in enumerate(talk.packets) if at != lost]) == []
        cut = [replace(each, payload=each.payload[:2], cut=len(each.payload) - 2) for each in talk.packets[lost:][:1]]
        assert findings(talk.packets[:lost] + cut + talk.packets[lost + 1 :]) == []


@pytest.mark.parametrize(("seconds", "contexts"), SETTINGS)
def test_neighbours_that_the_capture_swapped(seconds: float, contexts: bool) -> None:
    for at in range(5, 20):
        packets = beating(seconds, contexts).packets
        one, other = packets[at : at + 2]
        packets[at : at + 2] = [replace(other, time=one.time), replace(one, time=other.time)]
        assert findings(packets) == []


def test_the_capture_begins_inside_the_connection() -> None:
    for first in range(3, 12):
        assert findings(beating().packets[first:]) == []


@pytest.mark.parametrize("contexts", [True, False])
def test_a_late_retransmission(contexts: bool) -> None:
    talk = beating(0.01, contexts, 20)
    for lost in (5, 6, 11, 12):
        packets = talk.packets[:lost] + talk.packets[lost + 1 :]
        again = replace(talk.packets[lost], time=talk.packets[lost + 9].time)
        assert findings([*packets[: lost + 9], again, *packets[lost + 9 :]]) == []


@pytest.mark.parametrize("contexts", [True, False])
@pytest.mark.parametrize("later", [0, 2])
def test_a_ping_that_was_captured_only_when_it_was_sent_again(contexts: bool, later: int) -> None:
    talk = beating(1.5, contexts)
    talk.close()
    for lost in range(5, 15, 2):
        packets = talk.packets[:lost] + talk.packets[lost + 1 :]
        again = replace(talk.packets[lost], time=talk.packets[lost + later + 1].time + SECOND * 14 // 10)
        assert findings([*packets[: lost + later + 1], again, *packets[lost + later + 1 :]]) == []


@pytest.mark.parametrize("contexts", [True, False])
def test_more_pings_in_flight_than_are_remembered(contexts: bool) -> None:
    talk = begin()
    for _ in range(2):
        for number in range(80):
            talk.send(0, ping(b"%d" % number if contexts else b""))
        for number in range(80):
            talk.send(1, pong(b"%d" % number if contexts else b""))
    talk.wait(2 * SECOND)
    talk.close()
    assert placed_findings(talk) == []


@pytest.mark.parametrize("missing", [{13}, {13, 14}, {14}])
def test_a_capture_of_libzmq_without_some_packets(missing: set[int], tmp_path: Path) -> None:
    octets = (PATTERNS / "heartbeat-both.pcap").read_bytes()
    left, at, number = [octets[:24]], 24, 0
    while at < len(octets):
        size, number = int.from_bytes(octets[at + 8 : at + 12], "little"), number + 1
        if number not in missing:
            left.append(octets[at : at + 16 + size])
        at += 16 + size
    file = tmp_path / "without.pcap"
    file.write_bytes(b"".join(left))
    found, _ = records(open_captures([str(file)]))
    assert {each["id"] for each in found if each.get("severity") in ("error", "warn")} == {"ZMTP-CONN-05"}
    assert not [each for each in found if each["record"] == "finding" and "-PING-" in each["id"]]


def test_octets_that_are_no_frames() -> None:
    for side in (0, 1):
        talk = beating()
        talk.send(side, b"\xff" * 40)
        talk.send(1, pong(b"nobody asked"))
        talk.wait(2 * SECOND)
        talk.send(0, ping(b"later"))
        talk.close()
        assert placed_findings(talk) == []


@pytest.mark.parametrize("changed", [None, 7, 8])
@pytest.mark.parametrize("seconds", [0, 2])
def test_a_box_that_stays_closed(changed: int | None, seconds: int, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake()
    for number in range(4):
        steps.append((CLIENT, peers.command(CLIENT, "PING", ttl_ms=6000, context=b"%d" % number)))
        steps.append((SERVER, peers.command(SERVER, "PONG", context=b"%d" % number)))
    steps.append((SERVER, peers.command(SERVER, "PONG", context=b"nobody asked")))
    if changed is not None:
        side, octets = steps[changed]
        steps[changed] = side, octets[:-1] + bytes([octets[-1] ^ 1])
    talk = Conversation()
    for number, (side, octets) in enumerate(steps):
        talk.wait(seconds * SECOND if number % 2 == 0 else 0)
        talk.send(side, octets)
    talk.wait(2 * SECOND)
    talk.close()
    found = findings(talk.packets, keys=keys(tmp_path, peers.lines("SHARED")))
    assert [(each["id"], each["source"]) for each in found] == ([("ZMTP31-PING-08", 1)] if changed is None else [])


# -- what is wrong indeed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [True, False])
def test_a_pong_without_a_ping(closed: bool) -> None:
    talk = beating()
    talk.send(1, pong(b"nobody asked"))
    talk.wait(2 * SECOND)
    talk.close() if closed else talk.acknowledge(0)
    assert placed_findings(talk) == [("PING-08", 1, 22)]


def test_an_unanswered_ping_is_reported_when_it_is_certain() -> None:
    talk = beating()
    talk.send(1, pong())
    talk.wait(2 * SECOND)
    talk.send(0, ping(b"a"))
    talk.send(1, pong(b"a"))
    talk.send(0, ping(b"b"))
    talk.send(1, pong(b"b"))
    found, _ = records(Capture(talk.packets, 1))
    places = [each.get("id") or each.get("name") for each in found]
    assert places.index("ZMTP31-PING-08") == len(places) - 3  # with the PING: PONG and connection follow


def test_a_pong_with_another_context() -> None:
    talk = beating()
    talk.send(0, ping(b"ab"))
    talk.send(1, pong(b"cd"))
    talk.wait(2 * SECOND)
    talk.send(0, ping(b"ef"))
    talk.send(1, pong(b"ef"))
    talk.close()
    assert placed_findings(talk) == [("PING-03", 1, 23)]


def test_a_peer_that_never_repeats_the_context() -> None:
    talk = begin()
    for number in range(8):
        talk.wait(SECOND)
        talk.send(0, ping(b"%d" % number))
        talk.send(1, pong())
    talk.close()
    assert [id_ for id_, _, _ in placed_findings(talk)] == ["PING-03"] * 8


def test_answers_in_another_order() -> None:
    talk = begin()
    talk.send(0, ping(b"a") + ping(b"b"))
    talk.send(1, pong(b"b") + pong(b"a"))
    talk.wait(2 * SECOND)
    talk.close()
    assert placed_findings(talk) == []


def test_only_the_first_octets_of_a_long_context_are_repeated() -> None:
    for size in (16, 17, 33, 1000):
        talk = begin()
        talk.send(0, ping(bytes(size)))
        talk.send(1, pong(bytes(16)))
        talk.send(0, ping(bytes(size)))
        talk.send(1, pong(bytes(size)))
        talk.wait(2 * SECOND)
        talk.close()
        assert {id_ for id_, _, _ in placed_findings(talk)} <= {"PING-02"}


def test_a_context_where_the_ping_had_none() -> None:
    talk = begin()
    talk.send(0, b"\x04\x05\x04PING")
    talk.send(1, pong(b"context"))
    talk.close()
    assert [id_ for id_, _, _ in placed_findings(talk)] == ["PING-01", "PING-10"]


def crowd(pings: int, seconds: float, version: str = "3.1") -> Conversation:
    """Return PINGs that the other side, which continues to send messages, does not answer in this time."""
    talk = begin(version)
    for _ in range(pings):
        talk.send(0, ping())
    talk.wait(int(seconds * SECOND))
    talk.send(1, message(b"busy"))
    return talk


def talk_on(talk: Conversation) -> Conversation:
    """Add traffic, of which one packet is not captured."""
    for _ in range(3):
        talk.send(0, message(b"more"))
    del talk.packets[-2]
    talk.close()
    return talk


def test_more_than_three_pings_wait() -> None:
    assert placed_findings(crowd(4, 1.5)) == [("PING-09", 0, 9)]
    assert placed_findings(crowd(100, 1.5)) == [("PING-09", 0, 9)]
    assert placed_findings(crowd(3, 1.5)) == []
    assert placed_findings(crowd(4, 0.5)) == []
    answered = crowd(4, 0.5)
    answered.send(1, pong() * 4)
    answered.wait(2 * SECOND)
    answered.close()
    assert placed_findings(answered) == []
    late = crowd(8, 1.5)
    late.send(1, pong())
    late.close()
    assert placed_findings(late) == [
        ("PING-04", 0, 7),
        ("PING-09", 0, 10),
    ]  # four that wait after the one that was answered
    asked = crowd(4, 1.5)
    for _ in range(2):
        asked.send(1, ping())
        asked.send(0, pong())
    lost = talk_on(asked)
    assert placed_findings(lost) == [("PING-09", 0, 9)]  # certain before octets were lost


def test_a_ping_is_never_answered() -> None:
    alive = crowd(1, 1.5)
    alive.close()
    assert placed_findings(alive) == [("PING-04", 0, 6)]
    soon = crowd(1, 0.5)
    soon.close()
    assert placed_findings(soon) == []
    old = crowd(4, 1.5, "3.0")
    old.close()
    found = {each["id"]: each["severity"] for each in findings(old.packets)}
    assert found == dict.fromkeys(("ZMTP31-PING-04", "ZMTP31-PING-05", "ZMTP31-PING-09"), "note")


@pytest.mark.parametrize(("has_come", "expected"), [(False, []), (True, [("PING-04", 0, 6)])])
def test_data_of_a_peer_proves_nothing_about_a_ping_that_tcp_never_delivered(
    has_come: bool, expected: list[tuple[str, int, int]]
) -> None:
    """The link was down: the waiting octets arrive with FIN, and acknowledge only what arrived before."""
    talk = begin()
    before = talk.next[0]
    talk.send(0, ping(ttl_ms=0))
    talk.wait(4 * SECOND)
    talk.add(1, ACK | PSH | FIN, message(b"has waited"))
    if not has_come:
        talk.packets[-1] = replace(talk.packets[-1], acknowledgment=before)
    talk.reset(0)
    assert placed_findings(talk) == expected


def test_both_sides_ask() -> None:
    talk = begin()
    for number in range(20):
        talk.wait(300 * MILLISECOND)
        talk.send(0, ping(b"%d" % number))
        talk.send(1, ping(b"%d" % number) + pong(b"%d" % number))
        talk.send(0, pong(b"%d" % number))
    talk.send(0, pong(b"nobody asked"))
    talk.wait(2 * SECOND)
    talk.close()
    assert placed_findings(talk) == [("PING-08", 0, 66)]
    for lost in some(range(5, 60), 5):
        assert findings(talk.packets[:lost] + talk.packets[lost + 1 :]) == []
