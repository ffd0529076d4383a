"""ZWS connections from packets to records: the seams of the analyser once more, for masks, fragments and losses."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.curve import CurvePeers, keys
from tests.dissect.talks import Draw, disturbed, packets_of, snapped
from tests.peer_octets import message
from tests.readings import CAPTURES, read
from tests.traffic import Capture, Conversation, Packet, records
from tests.zws import (
    MASK,
    build_message_zws,
    build_response,
    build_websocket_frame,
    damaged_zws_sides,
    message_frames,
    ready,
    request,
    response,
    zws_sides,
)
from zmtpscope.capture.segments import FIN, SYN
from zmtpscope.dissect import Analyser, Options
from zmtpscope.dissect.records.details import details
from zmtpscope.export.details import hex_lines, tree_lines
from zmtpscope.zmtp.commands import build_command
from zmtpscope.zmtp.websocket import CLOSE, CONTINUATION

EVERYTHING = Options(frames=True, details=True)
Found = list[dict[str, Any]]


@st.composite
def zws_connections(draw: Draw[Any]) -> list[Packet]:
    """A connection that is upgraded, or not; then anything."""
    first = draw(damaged_zws_sides()).octets
    second = draw(
        damaged_zws_sides() if draw(st.integers(0, 4)) == 0 else zws_sides(not first.startswith(b"GET"))
    ).octets
    return draw(packets_of(first, second, syn=draw(st.sampled_from([True, True, False])), close=draw(st.booleans())))


def of(found: Found, kind: str) -> Found:
    return [record for record in found if record["record"] == kind]


def ids(found: Found) -> list[str]:
    return [record["id"] for record in of(found, "finding") if record["id"] != "ZMTP-CONN-06"]


def talk(*steps: tuple[int, bytes], chosen: str = "NULL") -> Conversation:
    """A PUSH that connects to a PULL, and the octets of both after that, one packet each."""
    conversation = Conversation()
    conversation.send(0, request(f"ZWS2.0/{chosen}"))
    conversation.send(1, response(f"ZWS2.0/{chosen}"))
    if chosen == "NULL":
        steps = ((0, ready(True, "PUSH")), (1, ready(False, "PULL")), *steps)
    for side, octets in steps:
        conversation.send(side, octets)
    return conversation


@given(packets=zws_connections(), data=st.data())
def test_p1_blocks_of_any_size_give_the_same_records(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(disturbed(data.draw(snapped(packets))))
    size = data.draw(st.integers(1, 7))
    assert records_and_details(packets, size) == records_and_details(packets, 1 << 30)


def records_and_details(packets: list[Packet], size: int) -> list[Any]:
    """Every record with its octets and fields, as -V shows them."""
    found: list[Any] = []
    for batch in Analyser(EVERYTHING).run(Capture(packets, size)):
        for item, index in batch.in_order():
            found += [(detail.octets, detail.tree) for detail in details(item, index)]
    return [records(Capture(packets, size), EVERYTHING)[0], found]


@given(packets=zws_connections(), data=st.data())
def test_p13_no_octet_is_lost_without_a_word(packets: list[Packet], data: st.DataObject) -> None:
    packets = data.draw(disturbed(data.draw(snapped(packets))))
    packets = [packet for packet in packets if data.draw(st.integers(0, 9)) or packet.flags & SYN]
    _, analyser = records(Capture(packets), Options())
    assert analyser.summary.sums.hold(), analyser.summary.sums


@given(bodies=st.lists(st.binary(max_size=300), min_size=1, max_size=8), data=st.data())
def test_p10_a_loss_invents_nothing(bodies: list[bytes], data: st.DataObject) -> None:
    octets = request() + ready(True, "PUSH") + b"".join(message_frames(True, body) for body in bodies)
    packets = data.draw(packets_of(octets, response() + ready(False, "PULL"), pauses=False))
    payloads = [place for place, packet in enumerate(packets) if packet.payload]
    lost = set(data.draw(st.lists(st.sampled_from(payloads), max_size=3)))
    captured = [packet for place, packet in enumerate(packets) if place not in lost]
    found, analyser = records(Capture(captured))
    whole = {record["offset"]: record["bodies"] for record in of(records(Capture(packets))[0], "message")}
    rows = [record for record in of(found, "message") if record["complete"] and record["confidence"] == "proven"]
    assert all(whole[record["offset"]] == record["bodies"] for record in rows if record["side"] == 0)
    assert analyser.summary.sums.hold()
    if of(found, "connection"):
        assert sum(record["bytes"] for record in of(found, "gap")) == analyser.summary.sums.gaps


def test_events_of_a_connection() -> None:
    close = build_websocket_frame(b"\x03\xe8", CLOSE)
    conversation = talk(
        (0, message_frames(True, b"a", b"b")), (1, close), (0, build_websocket_frame(b"\x03\xe8", CLOSE, key=MASK))
    )
    conversation.close()
    found, _ = records(Capture(conversation.packets), EVERYTHING)
    assert ids(found) == []
    assert [(each["form"], each["version_announced"], each["mechanism"]) for each in of(found, "greeting")] == [
        ("zws-request", "zws-2.0", "NULL"),
        ("zws-response", "zws-2.0", "NULL"),
    ]
    assert [(each["name"], each["source"], each["close_code"]) for each in of(found, "command")] == [
        ("READY", 1, None),
        ("READY", 1, None),
        ("WS-CLOSE", 1, 1000),
        ("WS-CLOSE", 1, 1000),
    ]
    (row,) = of(found, "message")
    assert (row["bodies"], row["source"], row["decrypted"], row["version"]) == ([b"a", b"b"], 1, False, "3.1")
    assert (row["socket_type"], row["peer_socket_type"]) == ("PUSH", "PULL")
    assert [(each["flags"], each["more"], each["long"]) for each in of(found, "frame")] == [
        (1, True, False),
        (0, False, False),
    ]
    (connection,) = of(found, "connection")
    assert (connection["version"], connection["transport"]) == ("3.1", "ws")
    assert connection["mechanism"] == "NULL"
    assert connection["handshake"] == "complete"
    assert (connection["messages_0"], connection["bytes_0"]) == (1, 2)


def test_a_real_connection_of_libzmq() -> None:
    """REQ and REP of libzmq 4.3.6 are read frame by frame: messages of the applications follow the empty delimiter."""
    messages = [
        (row["side"], [base64.b64decode(body) for body in row["bodies"]])
        for row in read(CAPTURES / "patterns/websocket-reqrep.pcap").of("message")
    ]
    pairs = [(b"Hello %d" % number, b"World %d" % number) for number in range(3)]
    expected = [
        each for request_body, reply_body in pairs for each in ((0, [b"", request_body]), (1, [b"", reply_body]))
    ]
    assert messages == [*expected, (0, [b"", b"", b"part2", b""]), (1, [b"", b""])]


def test_real_connections_of_jszmq_show_their_identity() -> None:
    (connection,) = read(CAPTURES / "implementations/jszmq-dealer.pcap").of("connection")
    assert (connection["identity_0"], connection["identity_1"]) == ("dealer-1", "")
    assert (connection["version"], connection["mechanism"], connection["handshake"]) == ("2.0", None, "complete")


def test_secrets_are_not_shown() -> None:
    """The password of PLAIN, masked and in fragments, and secrets of HTTP."""
    asked = request("ZWS2.0/PLAIN").replace(b"Host:", b"Authorization: Basic geheim\r\nHost:")
    hello = build_command("PLAIN", "HELLO", {"username": "admin", "password": "geheim"})
    conversation = Conversation()
    conversation.send(0, asked)
    conversation.send(1, response("ZWS2.0/PLAIN"))
    conversation.send(0, build_message_zws(hello, command=True, key=MASK, cuts=(3, 17)))
    shown = [
        line
        for batch in Analyser(EVERYTHING).run(Capture(conversation.packets))
        for item, index in batch.in_order()
        for detail in details(item, index)
        for line in (*tree_lines(detail, False), *hex_lines(detail, False))
    ]
    text = "\n".join(shown)
    assert "admin" in text
    assert "geheim" not in text
    assert b"geheim".hex(" ") not in text


def test_relations_hold_for_zws_too() -> None:
    conversation = Conversation()
    conversation.send(0, request() + ready(True, "SUB"))
    conversation.send(1, response() + ready(False, "REP") + message_frames(False, b"a"))
    found, _ = records(Capture(conversation.packets))
    assert ids(found) == ["ZMTP3X-META-08", "REQREP-03"]


@pytest.mark.parametrize("size", [1, 3, 1 << 30])
@pytest.mark.parametrize("bodies", ["full", "none"])
def test_a_large_message_is_shown_without_its_mask(size: int, bodies: str) -> None:
    body = bytes(range(256)) * 400
    conversation = talk((1, b""))
    conversation.send(0, message_frames(True, body, b"x"), cuts=range(0, 200_000, 1447))
    found, _ = records(Capture(conversation.packets, size), Options(bodies=bodies))
    (row,) = of(found, "message")
    assert row["sizes"] == [len(body), 1]
    assert row["bodies"] == ([body, b"x"] if bodies == "full" else None)


def test_a_hole_inside_a_payload_is_passed_over() -> None:
    conversation = talk()
    conversation.send(0, message_frames(True, bytes(5000)) + message_frames(True, b"behind"), cuts=(1000, 2000, 3000))
    conversation.acknowledge(1)
    del conversation.packets[-4]
    conversation.close()
    found, _ = records(Capture(conversation.packets))
    assert [(row["sizes"], row["complete"], row["bodies"]) for row in of(found, "message")] == [
        ([5000], False, [bytes(len(found) and 1000 - 9)]),
        ([6], True, [b"behind"]),
    ]
    assert [gap["bytes"] for gap in of(found, "gap")] == [1000]


def test_behind_a_lost_header_nothing_is_read() -> None:
    """WebSocket headers are not searched for: the rest counts as not read."""
    conversation = talk(
        (0, message_frames(True, b"in front")), (0, message_frames(True, b"lost")), (0, message_frames(True, b"behind"))
    )
    conversation.close()
    del conversation.packets[-5]
    found, analyser = records(Capture(conversation.packets))
    assert [row["bodies"] for row in of(found, "message")] == [[b"in front"]]
    (gap,) = of(found, "gap")
    assert gap["resumed_at"] is None
    assert of(found, "connection")[0]["undissected_bytes"] == len(message_frames(True, b"behind"))
    assert analyser.summary.sums.hold()


def test_compressed_messages_are_not_misread() -> None:
    conversation = talk(
        (1, message_frames(False, b"a")), (1, build_message_zws(b"part", more=True)), (1, b"\xc2\x03\0ab")
    )
    conversation.send(1, message_frames(False, b"b"))
    conversation.close()
    found, _ = records(Capture(conversation.packets))
    assert [(row["bodies"], row["complete"]) for row in of(found, "message")] == [([b"a"], True), ([b"part"], False)]
    assert ids(found)[-1] == "ZWS-05"
    assert of(found, "connection")[0]["undissected_bytes"] == 5 + len(message_frames(False, b"b"))


def test_a_refused_upgrade() -> None:
    conversation = Conversation()
    conversation.send(0, request())
    conversation.send(1, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nNope")
    conversation.close()
    found, _ = records(Capture(conversation.packets))
    (connection,) = of(found, "connection")
    assert (connection["version"], connection["handshake"], connection["undissected_bytes"]) == (None, "failed", 4)
    assert "ZMTP-CONN-04" not in ids(found)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100)),
        (
            request("chat") + message_frames(True, b"hello"),
            build_response(bytes(16), "chat") + message_frames(False, b"you"),
        ),
    ],
    ids=["HTTP", "another WebSocket"],
)
def test_other_http_has_no_records(asked: bytes, answered: bytes) -> None:
    conversation = Conversation()
    conversation.send(0, asked, cuts=(1, 2, 3, 30))
    conversation.send(1, answered, cuts=(1, 10))
    conversation.close()
    found, analyser = records(Capture(conversation.packets))
    assert found == []
    assert analyser.summary.other_tcp == 1


@pytest.mark.parametrize("side", [0, 1])
def test_one_direction_is_enough(side: int) -> None:
    conversation = talk((0, message_frames(True, b"to")), (1, message_frames(False, b"fro")))
    conversation.close()
    packets = [packet for packet in conversation.packets if packet.side == side]
    found, _ = records(Capture(packets))
    assert [row["bodies"] for row in of(found, "message")] == [[[b"to"], [b"fro"]][side]]
    (connection,) = of(found, "connection")
    assert (connection["version"], connection["mechanism"]) == ("3.1", "NULL")


def test_a_connection_without_its_syn() -> None:
    conversation = talk((0, message_frames(True, b"to")), (1, message_frames(False, b"fro")))
    found, _ = records(Capture([packet for packet in conversation.packets if not packet.flags & (SYN | FIN)]))
    assert [row["bodies"] for row in of(found, "message")] == [[b"to"], [b"fro"]]


def test_frames_inside_of_frames_stay_what_they_are() -> None:
    """A body that looks like ZMTP or like a head is a body."""
    body = message(b"x") + request() + b"\r\n\r\n"
    found, _ = records(Capture(talk((0, message_frames(True, body))).packets))
    assert [row["bodies"] for row in of(found, "message")] == [[body]]


@pytest.mark.parametrize("size", [1, 1 << 30])
@pytest.mark.parametrize("fragments", [False, True])
def test_boxes_open_behind_their_masks(size: int, fragments: bool, tmp_path: Path) -> None:
    """CURVE over ZWS, with keys: the mask is removed first, then the box is opened."""
    peers = CurvePeers()

    def frame(side: int, body: bytes, command: bool) -> bytes:
        cuts = (1, len(body) // 2) if fragments else ()
        return build_message_zws(body, command=command, key=b"" if side else MASK, cuts=cuts)

    steps = [
        (0, frame(0, peers.hello(), True)),
        (1, frame(1, peers.welcome(), True)),
        (0, frame(0, peers.initiate(socket_type="DEALER", identity="me"), True)),
        (1, frame(1, peers.ready(socket_type="ROUTER"), True)),
        (0, frame(0, peers.message(0, b"first", 1), False) + frame(0, peers.message(0, b"second"), False)),
        (1, frame(1, peers.message(1, b"answer"), False)),
    ]
    packets = talk(*steps, chosen="CURVE").packets
    found, analyser = records(Capture(packets, size), Options(keys=keys(tmp_path, peers.lines("SHARED")), details=True))
    rows = of(found, "message")
    assert [(row["bodies"], row["decrypted"], row["source"]) for row in rows] == [
        ([b"first", b"second"], True, 1),
        ([b"answer"], True, 1),
    ]
    (connection,) = of(found, "connection")
    assert (connection["socket_type_0"], connection["identity_0"]) == ("DEALER", "me")
    assert analyser.summary.sums.hold()
    closed = of(records(Capture(packets, size))[0], "message")
    assert [(row["kind"], row["decrypted"], row["source"]) for row in closed] == 3 * [("encrypted", False, 1)]


def test_a_fragment_at_a_time() -> None:
    parts = [build_websocket_frame(b"\0a", final=False), *[build_websocket_frame(b"b", CONTINUATION, final=False)] * 50]
    conversation = talk()
    for part in [*parts, build_websocket_frame(b"c", CONTINUATION)]:
        conversation.send(1, part)
    for size in (1, 7, 1 << 30):
        (row,) = of(records(Capture(conversation.packets, size))[0], "message")
        assert row["bodies"] == [b"a" + b"b" * 50 + b"c"]
        assert row["complete"]
