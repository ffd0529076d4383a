"""WebSocket frames: read, built and masked; the independent wsproto reads the same."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping

from tests import strategies
from tests.zws import build_websocket_frame, masked, message_frames, request
from zmtpscope.zmtp.reader import Reader
from zmtpscope.zmtp.websocket import (
    BINARY,
    PING,
    Unmasking,
    read_frame_header,
)

KEYS = st.binary(min_size=4, max_size=4)
SIZES = st.sampled_from([0, 1, 125, 126, 127, 65535, 65536, 70000])


@given(size=SIZES, opcode=st.sampled_from([0, 1, 2, 8, 9, 10]), key=KEYS | st.just(b""), final=st.booleans())
def test_p4_a_frame_that_was_built_is_read(size: int, opcode: int, key: bytes, final: bool) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    octets = build_websocket_frame(payload[:size], opcode, key=key, final=final)
    reader = Reader(octets, 0, len(octets), 0)
    header = read_frame_header(reader)
    assert (header.final, header.reserved, header.opcode, header.masked) == (final, 0, opcode, bool(key))
    assert (header.size, header.shortest) == (size, True)
    rest = octets[reader.position :]
    assert (masked(rest, key) if key else rest) == payload[:size]


@given(size=SIZES, key=KEYS, more=st.lists(st.binary(max_size=300), max_size=5))
def test_wsproto_reads_what_we_build(size: int, key: bytes, more: list[bytes]) -> None:
    bodies = [bytes(size), *more]
    server = Connection(ConnectionType.SERVER)
    server.receive_data(b"".join(build_websocket_frame(body, BINARY, key=key) for body in bodies))
    server.receive_data(build_websocket_frame(b"now", PING, key=key))
    parts, found = [], []
    for event in server.events():
        if isinstance(event, BytesMessage):
            parts.append(bytes(event.data))
            if event.message_finished:
                found.append(b"".join(parts))
                parts.clear()
    assert found == bodies


@given(data=st.data(), bodies=st.lists(st.binary(max_size=300), max_size=5))
def test_we_unmask_what_wsproto_sends(data: st.DataObject, bodies: list[bytes]) -> None:
    client, plain = Connection(ConnectionType.CLIENT), Connection(ConnectionType.SERVER)
    octets = wanted = b""
    for body in bodies:
        event = data.draw(
            st.sampled_from([BytesMessage(body), BytesMessage(body, message_finished=False), Ping(body[:125])])
        )
        octets, wanted = octets + client.send(event), wanted + plain.send(event)
    octets, wanted = octets + client.send(CloseConnection(1000)), wanted + plain.send(CloseConnection(1000))
    assert _without_keys(unmasked(octets, data.draw(strategies.cuts(len(octets))))) == wanted


def unmasked(octets: bytes, cuts: list[int]) -> bytes:
    """Frames with their masks off, given in pieces."""
    unmasking = Unmasking()
    unmasking.feed(request())
    edges = [0, *sorted(cuts), len(octets)]
    return b"".join(unmasking.feed(octets[start:stop]) for start, stop in pairwise(edges))


def _without_keys(octets: bytes) -> bytes:
    """Return the frames as a server sends them, without masks."""
    found, at = [], 0
    while at < len(octets):
        reader = Reader(octets, at, len(octets), 0)
        header = read_frame_header(reader)
        payload = reader.octets("", header.size)
        found.append(build_websocket_frame(payload, header.opcode, final=header.final))
        at = reader.position
    return b"".join(found)


@given(data=st.data(), octets=st.binary(max_size=300))
def test_p1_any_octets_in_any_pieces_give_the_same(data: st.DataObject, octets: bytes) -> None:
    octets = data.draw(st.just(octets) | st.just(message_frames(True, octets)))
    whole = unmasked(octets, [])
    assert unmasked(octets, data.draw(strategies.cuts(len(octets)))) == whole
    assert len(whole) == len(octets)


@given(start=st.integers(0, 99), count=st.integers(0, 99))
def test_what_was_lost_inside_a_payload_is_passed_over(start: int, count: int) -> None:
    body = bytes(range(200))
    octets = build_websocket_frame(body, key=b"abcd") + message_frames(True, b"behind")
    unmasking = Unmasking()
    unmasking.feed(request() + octets[: 8 + start])
    unmasking.skip(count)
    assert unmasking.feed(octets[8 + start + count : 8 + 200]) == body[start + count :]
    assert unmasking.feed(message_frames(True, b"behind")).endswith(b"\0behind")


def test_a_huge_size_costs_nothing() -> None:
    unmasking = Unmasking()
    unmasking.feed(request() + b"\x82\xff" + (2**63 - 1).to_bytes(8, "big"))
    assert unmasking.feed(b"abcd" + b"abcdab") == b"abcd" + bytes(6)
