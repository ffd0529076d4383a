"""P13: exactly one record accounts for each octet of a side, for any losses and any data.

The octets are taken from JSON lines (`tests/octets.py`) and compared with the counts.
"""

from __future__ import annotations

import base64
import itertools
import json
import struct
from collections import Counter
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CLIENT, CurvePeers
from tests.dissect.sealed_talks import keys_of, sealed_packets, talks
from tests.dissect.talks import connections, disturbed, packets_of, snapped
from tests.dissect.test_zws import zws_connections
from tests.octets import SUMMANDS, octets_named
from tests.peer_octets import hello, message
from tests.traffic import Capture, Conversation, Packet
from tests.zws import build_websocket_frame, ready, request, response
from zmtpscope.capture.segments import SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export import json_lines
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_1, build_signature
from zmtpscope.zmtp.regime import Framing
from zmtpscope.zmtp.websocket import BINARY, CONTINUATION, PING, TEXT

Records = list[dict[str, Any]]


def read(packets: list[Packet], size: int = 1 << 30, options: Options | None = None) -> Records:
    """Return the records of a capture, one for each octet; both sums are correct and equal."""
    options = options or Options()
    analyser = Analyser(options)
    batches = analyser.run(Capture(packets, size))
    found = [json.loads(line) for batch in batches for line in json_lines.lines(batch, options)]
    naming, sums = octets_named(found), analyser.summary.sums
    assert naming.faults == []
    assert {name: naming.octets[name] for name in SUMMANDS} == {name: getattr(sums, name) for name in SUMMANDS}
    assert sums.hold(), sums
    return found


def of(found: Records, kind: str) -> Records:
    return [record for record in found if record["record"] == kind]


@st.composite
def captured(draw: Any, packets: list[Packet]) -> list[Packet]:
    """Draw a capture of the packets: some are cut, repeated, out of order, or lost."""
    packets = draw(disturbed(draw(snapped(packets))))
    return [packet for packet in packets if draw(st.integers(0, 9)) or packet.flags & SYN]


@given(packets=connections(), data=st.data())
def test_every_octet_is_named_once(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(captured(packets))
    assert read(packets, data.draw(st.integers(1, 7))) == read(packets)


@given(packets=zws_connections(), data=st.data())
def test_every_octet_of_zws_is_named_once(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(captured(packets))
    assert read(packets, data.draw(st.integers(1, 7))) == read(packets)


@given(
    prefix=st.sampled_from(
        [b"", b"\1\0", hello("DEALER"), hello("SUB"), hello("SUB", "3.0"), request() + ready(True, "PUB")]
    ),
    first=st.binary(max_size=300)
    | st.lists(st.sampled_from([b"\0", b"\xff" + bytes(8), b"\2\0a", b"\2\1a", b"\1\0"])).map(b"".join),
    second=st.binary(max_size=300),
    data=st.data(),
)
def test_every_octet_of_what_is_hostile_is_named_once(
    prefix: bytes, first: bytes, second: bytes, data: st.DataObject
) -> None:
    answer = response() + ready(False, "SUB") if prefix.startswith(b"GET") else prefix
    talk = data.draw(packets_of(prefix + first, answer + second, syn=data.draw(st.booleans())))
    packets = data.draw(captured(talk))
    assert read(packets, data.draw(st.integers(1, 7))) == read(packets)


def greeted(octets: bytes, answer: bytes | None = None, closed: bool = True, cuts: Any = ()) -> list[Packet]:
    """Side 0 sends `octets`, side 1 its greeting and READY, or `answer`."""
    talk = Conversation()
    talk.send(1, hello("PULL") if answer is None else answer)
    talk.send(0, octets, cuts=cuts)
    if closed:
        talk.close()
    return talk.packets


LEFT_OVER = {
    "a frame header": (hello("PUSH") + message(b"a") + b"\2\0\0", [("unfinished", 3)]),
    "a command": (hello("PUSH") + b"\4\x20\5SUBSC", [("unfinished", 8)]),
    "a greeting": (hello("PUSH")[:40], []),  # an incomplete greeting
    "a message": (hello("PUSH") + message(b"abc", b"defg")[:-3], []),  # an incomplete message
    "sizes of 0": (
        b"\1\0" + b"\2\0a" + bytes(40) + b"\2\0a" + b"\xff" + bytes(8) + b"\2\0a",
        [("undissected", 49)],
    ),
    "a size above 2^63": (hello("PUSH") + b"\2" + b"\xff" * 8 + b"abc", [("undissected", 9), ("undissected", 3)]),
}


@pytest.mark.parametrize("name", LEFT_OVER)
@pytest.mark.parametrize("closed", [True, False])
def test_octets_of_no_unit_are_reported_with_their_place(name: str, closed: bool) -> None:
    octets, expected = LEFT_OVER[name]
    answer = b"\1\0\2\0a\2\0b" if octets.startswith(b"\1") else None
    found = of(read(greeted(octets, answer, closed)), "leftover")
    if name == "a greeting" and not closed:
        expected = [("unfinished", 40)]
    assert [(record["kind"], record["bytes"]) for record in found] == expected
    assert all(record["reason"] for record in found)


OPEN, LAST = b"\2\1a", b"\2\0b"
"""Frames of 1.0, with MORE and without."""


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([b"\0" + LAST + b"\0\0" + OPEN + LAST + b"\0"], [(2, 13, 4)]),
        ([b"\0" + LAST + b"\0", b"\0" + LAST + b"\0"], [(2, 5, 2), (7, 5, 2)]),
        ([b"\0" + LAST + b"\xff" + bytes(4), bytes(4) + LAST + b"\0"], [(2, 1, 1), (6, 13, 10)]),
        ([b"\0" + OPEN + b"\0\0" + LAST + b"\0"], [(2, 1, 1), (6, 2, 2), (11, 1, 1)]),
        ([OPEN + b"\0" + OPEN + b"\0" + LAST], [(5, 1, 1), (9, 1, 1)]),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_lengths_of_0_that_one_segment_decides_are_one_record(
    segments: list[bytes], expected: list[tuple[int, int, int]], size: int
) -> None:
    """Lengths inside a message under way are separate: octets between them belong to the message."""
    talk = Conversation()
    talk.send(1, b"\1\0\2\0a\2\0b")
    for octets in [b"\1\0", *segments]:
        talk.send(0, octets)
    found = of(read(talk.packets, size), "leftover")
    assert [(record["offset"], record["length"], record["bytes"]) for record in found] == expected


@pytest.mark.parametrize("size", [1, 3, 1 << 30])
@pytest.mark.parametrize("version", ["1.0", "2.0", "newer and 1.0"])
def test_a_greeting_of_any_announced_size_is_reported_as_far_as_it_arrived(version: str, size: int) -> None:
    there = b"i" * 3000
    octets = {
        "1.0": b"\xff" + (1 << 31).to_bytes(8, "big") + b"\0",
        "2.0": build_signature() + b"\1\3\2" + (5 * 10**17).to_bytes(8, "big"),
        "newer and 1.0": b"\xff" + (5 * 10**17).to_bytes(8, "big") + b"\x7f",
    }[version] + there
    answer = build_signature() + b"\1\4\0\0" if version == "2.0" else build_greeting_1() + b"\2\0a\2\0b"
    found = read(greeted(octets, answer, cuts=range(0, 3000, 700)), size)
    greeting = next(record for record in of(found, "greeting") if record["side"] == 0)
    assert (greeting["length"], greeting["complete"]) == (len(octets), False)
    assert of(found, "connection")[0]["handshake"] != "complete"


@pytest.mark.parametrize("there", [600, 2_000_000, 3_000_000])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_a_command_too_large_to_wait_for_is_reported_with_its_last_octet(there: int, size: int) -> None:
    command = b"\6" + struct.pack(">Q", 2_000_000) + b"\4PING" + bytes(2_000_000 - 5)
    octets = (hello("PUSH") + command + message(b"a"))[: len(hello("PUSH")) + there]
    found = read(greeted(octets, closed=False, cuts=range(0, 3_000_000, 60_000)), size)
    (ping_record,) = (record for record in of(found, "command") if record["name"] == "PING")
    assert (ping_record["complete"], ping_record["length"]) == (there > 2_000_000, min(there, len(command)))
    assert of(found, "connection")[0]["handshake"] == "complete"


def test_commands_between_the_frames_of_a_message_name_their_own_octets() -> None:
    ping = b"\4\7\4PING\0\0"
    found = read(greeted(hello("PUSH") + b"\1\1a" + ping + b"\1\2bb" + ping + b"\0\3ccc"))
    (ping_record,) = of(found, "message")
    assert (ping_record["sizes"], ping_record["length"]) == ([1, 2, 3], 12 + 2 * len(ping))


def test_a_hole_inside_a_body_is_in_the_gap_alone() -> None:
    packets = greeted(hello("PUSH") + message(b"x" * 3000) + message(b"y"), cuts=range(0, 4000, 500))
    del packets[7]
    found = read(packets)
    assert [(record["length"], record["complete"]) for record in of(found, "message")] == [(3009, False), (3, True)]
    assert of(found, "gap")[0]["bytes"] == 500


def websocket(*frames: tuple[bytes, int, bool]) -> bytes:
    """Return frames of a ZWS server: payload, opcode, final."""
    return b"".join(build_websocket_frame(payload, opcode, final=final) for payload, opcode, final in frames)


@pytest.mark.parametrize("cut", range(0, 40, 3))
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_control_frames_inside_of_a_message_are_named_once(cut: int, size: int) -> None:
    whole = websocket((b"\0ab", BINARY, False), (b"ping", PING, True), (b"cd", CONTINUATION, True))
    never = websocket((b"\0ab", BINARY, False), (b"ping", PING, True), (b"\0x", BINARY, True))
    other = websocket((b"text", TEXT, True), (b"", BINARY, True), (b"\0x", BINARY, True))
    octets = (whole + never + other)[: len(whole + never + other) - cut]
    talk = Conversation()
    talk.send(0, request() + ready(True, "PULL"))
    talk.send(1, response() + ready(False, "PUSH") + octets, cuts=range(0, 1000, 5))
    talk.close()
    found = read(talk.packets, size)
    if cut <= len(never + other):
        assert of(found, "message")[0]["length"] == len(whole)
        assert of(found, "command")[2]["name"] == "WS-PING"


def test_websocket_frames_without_zmtp_that_one_segment_decides_are_one_record() -> None:
    text, ping, zmtp = (websocket(each) for each in ((b"text", TEXT, True), (b"", PING, True), (b"\0x", BINARY, True)))
    talk = Conversation()
    talk.send(0, request() + ready(True, "PULL"))
    talk.send(1, response() + ready(False, "PUSH"))
    for octets in (text * 3 + ping + text + zmtp + text, text * 2):
        talk.send(1, octets)
    found = of(read(talk.packets), "leftover")
    assert [(record["length"], record["bytes"]) for record in found] == [
        (5 * len(text) + len(ping + zmtp), 5 * len(text)),
        (2 * len(text), 2 * len(text)),
    ]


@pytest.mark.parametrize("size", [1, 5, 1 << 30])
@pytest.mark.parametrize("segment", [5, 7, 30])
def test_many_frames_without_zmtp_are_reported_with_the_segments_that_complete_them(segment: int, size: int) -> None:
    octets = websocket((b"text", TEXT, True)) * 40
    talk = Conversation()
    talk.send(0, request() + ready(True, "PULL"))
    before = response() + ready(False, "PUSH")
    talk.send(1, before)
    talk.send(1, octets, cuts=range(segment, len(octets), segment))
    found = of(read(talk.packets, size), "leftover")
    complete = Counter((stop - 1) // segment for stop in range(6, len(octets) + 1, 6))
    assert [record["bytes"] for record in found] == [6 * complete[number] for number in sorted(complete)]
    starts = [0, *itertools.accumulate(record["bytes"] for record in found)]
    assert [record["offset"] - len(before) for record in found] == starts[:-1]
    first = found[0]["packet"]
    assert [record["packet"] - first for record in found] == [start // segment for start in starts[:-1]]


@pytest.mark.parametrize("size", [1, 5, 1 << 30])
@pytest.mark.parametrize("segment", [5, 7, 30])
def test_many_lengths_of_0_are_reported_with_the_segments_that_contain_them(segment: int, size: int) -> None:
    octets = (b"\0" * 3 + LAST) * 40
    talk = Conversation()
    talk.send(1, b"\1\0\2\0a\2\0b")
    talk.send(0, b"\1\0")
    talk.send(0, octets, cuts=range(segment, len(octets), segment))
    found = of(read(talk.packets, size), "leftover")
    zeros = Counter(place // segment for place in range(len(octets)) if place % 6 < 3)
    assert [record["bytes"] for record in found] == [zeros[number] for number in sorted(zeros)]
    first = found[0]["packet"]
    assert [record["packet"] - first for record in found] == sorted(zeros)


def test_every_octet_of_opened_boxes_is_counted() -> None:
    peers = CurvePeers()
    steps = peers.handshake("PUSH", "PULL")
    steps += [(CLIENT, peers.messages(CLIENT, b"a", b"bb")), (CLIENT, peers.messages(CLIENT, b"c")[:-3])]
    talk = Conversation()
    for role, octets in steps:
        talk.send(role, octets)
    found = read(talk.packets, options=Options(keys=keys_of(peers.lines("SHARED"))))
    ping_record = [(record["decrypted"], record["complete"]) for record in of(found, "message")]
    assert ping_record == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ("A+ (a+) B (b)", "A... a... B? b?"),
        ("(a+) A+ (b) B", "a... A... b? B?"),
        ("A+ (a+) (b) B", "A... ab B?"),
        ("(a+) A (b)", "a... A b?"),
        ("A+ B (a+) (b) C", "AB ab C"),
        ("A+ (a+) (b+) B+ (c+) C+ (d) D", "A... ab... B?... c?... C?... d? D?"),
    ],
)
def test_a_message_inside_boxes_ends_where_one_in_clear_begins(frames: str, expected: str) -> None:
    """The frames of a message are consecutive, all in boxes (parentheses here; + is MORE) or all unencrypted. After
    an interruption a message is incomplete (...) or may be the end of one (?)."""
    peers = CurvePeers()
    talk = Conversation()
    for role, octets in peers.handshake("DEALER", "ROUTER"):
        talk.send(role, octets)
    for each in frames.split():
        body, more = each.strip("(+)").encode(), "+" in each
        sealed = each.startswith("(")
        octets = peers.message(CLIENT, body, more) if sealed else body
        talk.send(CLIENT, build_frame(Framing.V2, octets, more=more and not sealed))
    options = Options(keys=keys_of(peers.lines("SHARED")))
    found = read(talk.packets, options=options)
    assert read(talk.packets, 1, options) == found
    ping_record = []
    for record in sorted(of(found, "message"), key=itemgetter("offset")):
        bodies = b"".join(map(base64.b64decode, record["bodies"])).decode()
        ping_record.append(bodies + "?" * (record["confidence"] == "likely") + "..." * (not record["complete"]))
    assert " ".join(ping_record) == expected


@pytest.mark.parametrize("octets", [b"\xff", b"\xff\0\0\0", b"\1"])
def test_too_few_octets_for_a_version_are_not_called_another_protocol(octets: bytes) -> None:
    talk = Conversation()
    talk.send(1, build_signature())
    talk.send(0, octets)
    (cut, *_) = [record for record in of(read(talk.packets), "leftover") if record["side"] == 0]
    assert (cut["bytes"], cut["reason"]) == (len(octets), "too few octets to tell the version")


def test_messages_count_without_rows_as_with_them() -> None:
    sums = []
    for telling in (True, False):
        analyser = Analyser(Options(records=telling))
        for _ in analyser.run(
            Capture(greeted(hello("PUSH") + message(b"a", b"b") + b"\4\7\4PING\0\0\1\1a\0", closed=False))
        ):
            pass
        sums.append(analyser.summary.sums)
    assert sums[0] == sums[1]
    assert (sums[0].hold(), sums[0].unfinished) == (True, 1)


@given(data=st.data())
def test_every_octet_of_boxes_is_named_once(data: st.DataObject) -> None:
    talk = data.draw(talks())
    packets = data.draw(captured(data.draw(sealed_packets(talk))))
    size = data.draw(st.integers(1, 7))
    whole, blocks = (read(packets, each, Options(keys=keys_of(talk.text))) for each in (1 << 30, size))
    assert blocks == whole
