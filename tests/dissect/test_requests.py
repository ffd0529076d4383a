"""Requests and replies: a second request before a reply (REQREP-02), and replies without a request (REQREP-04)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.curve import CLIENT, SERVER, CurvePeers, conversation, keys
from tests.dissect.talks import SECOND, Steps, played
from tests.peer_octets import message
from tests.suites import some
from tests.traffic import Capture, Conversation, Packet, records, steady_records
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.findings import requests
from zmtpscope.dissect.findings.envelopes import LARGEST_ENVELOPE

ASK, REPLY, PROBE = message(b"", b"request"), message(b"", b"reply"), message(b"")
"""Octets of a side, and seconds between them."""


def talk_of(types: tuple[str, str], steps: Steps, *, closed: bool = True) -> Conversation:
    return played(*types, [*steps, 2.0], closed=closed)


def reported(packets: Sequence[Packet], options: Options | None = None) -> list[tuple[str, str, int, int]]:
    """Return id, severity, side and packet of the two findings, which are the same for all sizes of blocks, and
    counted equally if no records are made."""
    whole = steady_records(packets, options, (1, 2, 5))
    found = [each for each in whole if each["record"] == "finding" and each["id"] in ("REQREP-02", "REQREP-04")]
    for size in (1, 1000):
        counting = Analyser(replace(options or Options(), records=False))
        for _ in counting.run(Capture(packets, size)):  # type: ignore[arg-type]
            pass
        counted = sum(count for (_, id_), count in counting.summary.findings.items() if id_.startswith("REQREP-0"))
        others = [each for each in whole if each["record"] == "finding" and each["id"].startswith("REQREP-0")]
        assert counted == sum(each["count"] for each in others)
    return [(each["id"], each["severity"], each["side"], each["packet"]) for each in found]


FIRST = 6


def test_a_second_request_long_before_a_reply() -> None:
    """This is legal with ZMQ_REQ_RELAXED: a warning, for the second request only."""
    steps = [(0, ASK), 2.5, (0, ASK), 2.5, (1, REPLY), (0, ASK), (1, REPLY)]
    assert reported(talk_of(("REQ", "REP"), steps).packets) == [("REQREP-02", "warn", 0, FIRST + 1)]


def test_a_second_request_without_an_answer_until_the_close() -> None:
    steps = [(0, ASK), 2.5, (0, ASK)]
    assert reported(talk_of(("REQ", "ROUTER"), steps).packets) == [("REQREP-02", "warn", 0, FIRST + 1)]
    assert reported(talk_of(("REQ", "ROUTER"), steps, closed=False).packets) == []


def test_two_requests_in_one_packet() -> None:
    """Even if packets were captured late, no reply was between them."""
    assert reported(talk_of(("REQ", "REP"), [(0, ASK * 2), (1, REPLY * 2)]).packets) == [
        ("REQREP-02", "warn", 0, FIRST)
    ]


@pytest.mark.parametrize("cut", range(1, len(ASK)))
def test_a_request_that_begins_in_the_packet_of_another_and_ends_behind_it(cut: int) -> None:
    steps = [(0, ASK + ASK[:cut]), (0, ASK[cut:]), (1, REPLY * 2)]
    assert reported(talk_of(("REQ", "REP"), steps).packets) == [("REQREP-02", "warn", 0, FIRST)]


TURNS: list[tuple[str, tuple[str, str], Steps]] = [
    ("in turns", ("REQ", "REP"), [(0, ASK), (1, REPLY)] * 4),
    ("a slow reply", ("REQ", "REP"), [(0, ASK), 60.0, (1, REPLY), 60.0, (0, ASK), (1, REPLY)]),
    ("a router that answers", ("REQ", "ROUTER"), [(0, ASK), (1, REPLY)] * 4),
    ("a probe of the router", ("REQ", "ROUTER"), [(0, PROBE), 2.0, (0, ASK), (1, REPLY), (0, ASK), (1, REPLY)]),
    ("the reply was captured behind", ("REQ", "REP"), [(0, ASK), (0, ASK), 0.5, (1, REPLY), (1, REPLY)]),
    ("and before the request", ("REQ", "REP"), [(1, REPLY), 0.5, (0, ASK)]),
    (
        "numbered requests",
        ("REQ", "REP"),
        [(0, message(b"\0\0\0\1", b"", b"a")), (1, message(b"\0\0\0\1", b"", b"b"))] * 2,
    ),
    ("requests of a dealer, all at once", ("DEALER", "REP"), [(0, ASK * 5), 3.0, (1, REPLY * 3), (0, ASK * 2)]),
    (
        "addresses of clients behind a broker",
        ("DEALER", "REP"),
        [
            (0, message(b"\0one", b"", b"1") + message(b"\0two", b"", b"1")),
            (1, message(b"\0one", b"", b"2")),
            (1, message(b"\0two", b"", b"2")),
        ],
    ),
    (
        "a request that is passed over, and answered all the same",
        ("DEALER", "REP"),
        [
            (0, message(b"a", b"", b"1") + message(b"b", b"", b"1")),
            (1, message(b"b", b"", b"") + message(b"a", b"", b"")),
        ],
    ),
    ("a dealer and a router owe each other nothing", ("DEALER", "ROUTER"), [(1, REPLY), 3.0, (1, REPLY), (0, ASK)]),
    ("a request without delimiter that is answered", ("REQ", "REP"), [(0, message(b"odd")), (1, REPLY)]),
]


@pytest.mark.parametrize("case", TURNS, ids=lambda case: case[0])
def test_requests_and_replies_without_findings(case: tuple[str, tuple[str, str], Steps]) -> None:
    _, types, steps = case
    assert reported(talk_of(types, steps).packets) == []


def test_an_envelope_is_the_same_for_any_headers() -> None:
    address = b"\3" + (6).to_bytes(8) + b"client"
    steps = [(0, message(b"client", b"", b"1")), (1, address + message(b"", b"2"))]
    assert reported(talk_of(("DEALER", "REP"), steps).packets) == []


WRONG: list[tuple[str, tuple[str, str], Steps, int]] = [
    ("to nothing", ("REQ", "REP"), [(1, REPLY), 2.0, (0, ASK)], FIRST),
    ("twice", ("REQ", "REP"), [(0, ASK), (1, REPLY), (1, REPLY)], FIRST + 2),
    (
        "another id",
        ("REQ", "REP"),
        [(0, message(b"\0\0\0\1", b"", b"a")), (1, message(b"\0\0\0\2", b"", b"b"))],
        FIRST + 1,
    ),
    ("another address", ("DEALER", "REP"), [(0, message(b"ab", b"", b"a")), (1, message(b"ba", b"", b"b"))], FIRST + 1),
    ("no address", ("DEALER", "REP"), [(0, message(b"ab", b"", b"a")), (1, REPLY)], FIRST + 1),
    ("before the request", ("REQ", "REP"), [(1, REPLY), 1.5, (0, ASK), (1, REPLY)], FIRST),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case[0])
def test_a_reply_that_fits_no_request(case: tuple[str, tuple[str, str], Steps, int]) -> None:
    _, types, steps, packet = case
    assert reported(talk_of(types, steps).packets) == [("REQREP-04", "error", 1, packet)]


def test_a_packet_that_was_not_captured_accuses_no_peer() -> None:
    for types in (("REQ", "REP"), ("REQ", "ROUTER"), ("DEALER", "REP")):
        steps = [step for number in range(5) for step in ((0, message(b"", b"%d" % number)), 1.5, (1, REPLY), 1.5)]
        packets = talk_of(types, steps).packets
        for lost in some(range(3, len(packets)), 3):
            assert reported(packets[:lost] + packets[lost + 1 :]) == []
            cut = replace(packets[lost], payload=packets[lost].payload[:3], cut=max(0, len(packets[lost].payload) - 3))
            assert reported([*packets[:lost], cut, *packets[lost + 1 :]]) == []
        assert reported(packets[5:]) == []


def test_a_reply_to_a_request_that_was_not_captured_accuses_no_peer() -> None:
    """Each request has a different envelope, so its reply matches no other."""
    named = [message(b"id%d" % number, b"", b"1") for number in range(5)]
    packets = talk_of(("DEALER", "REP"), [step for each in named for step in ((0, each), 1.5, (1, each), 1.5)]).packets
    for lost in range(3, len(packets)):
        assert reported(packets[:lost] + packets[lost + 1 :]) == []


def test_packets_that_were_captured_a_little_late() -> None:
    steps = [
        step
        for number in range(8)
        for step in ((0, message(b"%d" % number, b"", b"")), (1, message(b"%d" % number, b"", b"")))
    ]
    packets = talk_of(("REQ", "REP"), steps).packets
    for seed in range(10):
        at = Random(seed).randrange(5, len(packets) - 8)
        moved = packets[:at] + packets[at + 1 : at + 4] + [packets[at]] + packets[at + 4 :]
        times = [each.time for each in packets]
        assert reported([replace(each, time=time) for each, time in zip(moved, times, strict=True)]) == []


@pytest.mark.parametrize("changed", [None, 0, 1])
def test_a_box_that_stays_closed(changed: int | None, tmp_path: Path) -> None:
    peers = CurvePeers()
    steps = peers.handshake("REQ", "REP")
    first = len(steps)
    for side in (CLIENT, SERVER, SERVER):
        steps.append((side, peers.messages(side, b"", b"body")))
    if changed is not None:
        side, octets = steps[first + changed]
        steps[first + changed] = side, octets[:-1] + bytes([octets[-1] ^ 1])
    talk = conversation(steps)
    talk.wait(2 * SECOND)
    talk.close()
    found = reported(talk.packets, Options(keys=keys(tmp_path, peers.lines("SHARED"))))
    assert [each[0] for each in found] == (["REQREP-04"] if changed is None else [])


@pytest.mark.parametrize("size", [3, 1000])
def test_no_more_is_remembered_than_its_limit(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If too many requests are open, a reply may be for the oldest of them, which was forgotten."""
    monkeypatch.setattr(requests, "MAX_OPEN", 8)
    asked = [(0, message(b"%d" % number, b"", b"")) for number in range(9)]
    wrong = (1, message(b"x", b"", b""))
    talk = talk_of(("DEALER", "REP"), [*asked[:8], wrong])
    assert [each["id"] for each in records(Capture(talk.packets, size))[0] if each.get("severity") == "error"] == [
        "REQREP-04"
    ]
    assert reported(talk_of(("DEALER", "REP"), [*asked, wrong]).packets) == []


def test_a_large_envelope_is_not_compared() -> None:
    steps = [(0, message(bytes(LARGEST_ENVELOPE + 1), b"", b"1")), (1, message(b"other", b"", b"1"))]
    assert reported(talk_of(("DEALER", "REP"), steps).packets) == []
