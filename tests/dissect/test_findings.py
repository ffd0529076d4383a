"""Findings that the analyser itself makes: about message rows, and about both sides."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import peer_octets
from tests.curve import CLIENT, SERVER, CurvePeers, conversation, keys
from tests.dissect.talks import connected
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import Options
from zmtpscope.dissect.stream.decryption import LARGEST_BOX
from zmtpscope.zmtp.greeting import build_greeting_3


def command(name: str, **fields: Any) -> bytes:
    return peer_octets.command("NULL", name, **fields)


def findings_of(talk: Conversation, size: int = 1000) -> list[dict[str, Any]]:
    found, _ = records(Capture(talk.packets, size))
    return [record for record in found if record["record"] == "finding"]


def ids_of(talk: Conversation) -> set[str]:
    return {finding["id"] for finding in findings_of(talk) if finding["severity"] != "chat"}


def between(first: str, second: str, *sent: tuple[int, bytes]) -> Conversation:
    """Two NULL peers of these types that shake hands, send the given octets, and close."""
    talk = connected(first, second)
    for side, octets in sent:
        talk.send(side, octets)
    talk.wait(2_000_000_000)
    talk.close()
    return talk


ROWS = [
    ("REQREP-01", "REQ", "REP", (0, message(b"no delimiter")), (1, message(b"", b"reply"))),
    ("REQREP-03", "REP", "REQ", (0, message(b"no delimiter"))),
    ("REQREP-05", "DEALER", "REP", (0, message(b"no delimiter"))),
    ("PIPELINE-01", "PULL", "PUSH", (0, message(b"backwards"))),
    ("ZMTP-SUB-07", "SUB", "PUB", (0, message(b"not a subscription"))),
    ("TS-01", "CLIENT", "SERVER", (0, message(b"two", b"parts"))),
]


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case[0])
def test_a_message_that_its_socket_type_forbids(case: tuple[Any, ...]) -> None:
    assert ids_of(between(*case[1:])) == {case[0]}


HEALTHY = [
    ("REQ", "REP", (0, message(b"", b"request")), (1, message(b"", b"reply"))),
    ("REQ", "REP", (0, message(b"\0\0\0\1", b"", b"numbered request")), (1, message(b"\0\0\0\1", b"", b"reply"))),
    ("DEALER", "ROUTER", (0, message(b"anything")), (1, message(b"goes"))),
    ("DEALER", "REP", (0, message(b"address", b"", b"request"))),
    ("PUSH", "PULL", (0, message(b"work"))),
    ("PUB", "SUB", (1, command("SUBSCRIBE", topic="")), (0, message(b"topic", b"news"))),
    ("CLIENT", "SERVER", (0, message(b"one part"))),
    ("DEALER", "ROUTER", (0, command("PING", ttl_ms=0, context=b"ab")), (1, command("PONG", context=b"ab"))),
]


@pytest.mark.parametrize("case", HEALTHY, ids=lambda case: f"{case[0]}-{case[1]}")
def test_healthy_traffic_has_no_findings(case: tuple[Any, ...]) -> None:
    assert ids_of(between(*case)) == set()


RELATIONS = [
    ("ZMTP31-PING-08", (1, command("PONG", context=b""))),
    ("ZMTP31-PING-03", (0, command("PING", ttl_ms=0, context=b"ab")), (1, command("PONG", context=b"cd"))),
    ("ZMTP31-PING-04", (0, command("PING", ttl_ms=0)), (1, message(b"alive"))),
]


@pytest.mark.parametrize("case", RELATIONS, ids=lambda case: case[0])
def test_heartbeats_are_matched(case: tuple[Any, ...]) -> None:
    assert ids_of(between("DEALER", "ROUTER", *case[1:])) == {case[0]}


def test_a_request_without_an_answer() -> None:
    talk = between("REQ", "REP", (0, message(b"", b"one")), (1, message(b"", b"reply")), (0, message(b"", b"two")))
    (finding,) = (each for each in findings_of(talk) if each["severity"] != "chat")
    assert finding["id"] == "REQREP-06"
    assert finding["text"].endswith("2 requests, 1 reply")
    assert finding["offset"] == len(hello("REQ") + message(b"", b"one"))


@pytest.mark.parametrize("closed", [None, 6, 7])
@pytest.mark.parametrize("why", ["changed", "too large"])
def test_a_request_whose_reply_may_be_in_a_box_that_stays_closed(closed: int | None, why: str, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake("REQ", "REP")
    for side in (CLIENT, SERVER, CLIENT):
        large = why == "too large" and len(steps) == closed
        body = bytes(LARGEST_BOX) if large else b"body"
        steps.append((side, peers.messages(side, b"", body)))
        if why == "changed" and len(steps) - 1 == closed:
            steps[-1] = side, steps[-1][1][:-1] + bytes([steps[-1][1][-1] ^ 1])
    talk = conversation(steps)
    talk.close()
    found, _ = records(Capture(talk.packets), Options(keys=keys(tmp_path, peers.lines("SHARED"))))
    ids = {each["id"] for each in found if each["record"] == "finding"}
    assert ("REQREP-06" in ids) == (closed is None)
    assert ("CURVE-25" in ids, "CURVE-20" in ids) == (
        closed is not None and why == "too large",
        closed is not None and why == "changed",
    )


def test_socket_types_that_may_not_meet() -> None:
    assert ids_of(between("PULL", "ROUTER")) == {"ZMTP3X-META-08"}


def test_mechanisms_that_differ() -> None:
    talk = Conversation()
    talk.send(0, build_greeting_3("NULL"))
    talk.send(1, build_greeting_3("CURVE"))
    talk.wait(2_000_000_000)
    talk.close()
    assert "ZMTP3X-GREETING-05" in ids_of(talk)


def test_a_close_is_linked_to_the_error_in_front_of_it() -> None:
    talk, handshake = Conversation(), len(hello("PULL"))
    talk.send(0, hello("PULL"))
    talk.send(1, hello("ROUTER"))
    talk.send(0, b"\x04\x00")
    talk.reset(1)
    closing = next(finding for finding in findings_of(talk) if finding["id"] == "ZMTP-CONN-08")
    assert closing["refs"] == [f"{closing['conn_id']}/0/0/{handshake}/command"]
    assert closing["text"].endswith("it closed 1.0 ms after ZMTP3X-CMD-01")


def test_a_peer_that_closes_behind_its_own_error_had_other_reasons() -> None:
    talk = connected("PULL", "ROUTER")
    talk.send(0, b"\x04\x00")
    talk.reset(0)
    assert "ZMTP-CONN-08" not in ids_of(talk)


@pytest.mark.parametrize("size", [1, 1000])
def test_the_same_finding_a_thousand_times_is_ten_records_and_a_count(size: int) -> None:
    talk = between("PULL", "PUSH", *[(0, message(b"backwards"))] * 1000)
    broken = [finding for finding in findings_of(talk, size) if finding["id"] == "PIPELINE-01"]
    assert Counter(finding["count"] for finding in broken) == {1: 10, 990: 1}
    assert broken[-1]["last_packet"] == max(packet.number for packet in Capture(talk.packets).packets if packet.payload)


@pytest.mark.parametrize("size", [1, 1 << 30])
def test_reserved_flags_behind_two_greetings_of_1_0_are_a_finding(size: int) -> None:
    """The octets are no other protocol: both sides greet as only 1.0 does."""
    talk = Conversation()
    talk.send(0, b"\1\0")
    talk.send(1, b"\1\0")
    talk.send(0, b"\4\x80abc" + b"\2\xf0a")
    talk.close()
    found, _ = records(Capture(talk.packets, size))
    assert [each["version"] for each in found if each["record"] == "connection"] == ["1.0"]
    assert [each["bodies"] for each in found if each["record"] == "message"] == [[b"abc"], [b"a"]]
    assert [each["offset"] for each in found if each.get("id") == "ZMTP10-FRAME-02"] == [3, 8]
    assert "ZMTP-CONN-04" not in {each.get("id") for each in found}
