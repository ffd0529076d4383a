"""The first octets of data that is not ZMTP are in its record, in lines, trees, dumps and conversations."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.test_octets_named import read
from tests.dissect.test_proxied import through
from tests.peer_octets import hello, message
from tests.peer_octets import message as task
from tests.traffic import Conversation, Packet
from tests.zws import build_websocket_frame, ready, request, response
from zmtpscope.dissect import Options
from zmtpscope.zmtp.greeting import build_greeting_3, build_signature
from zmtpscope.zmtp.websocket import BINARY, TEXT

HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def left(packets: list[Packet], size: int = 1 << 30, options: Options | None = None) -> list[tuple[int, bytes | None]]:
    """Side, and first octets, of all that was not understood."""
    found = [each for each in read(packets, size, options) if each["record"] == "leftover"]
    return [(each["side"], None if each["data"] is None else base64.b64decode(each["data"])) for each in found]


def answered(octets: bytes, cuts: Any = ()) -> list[Packet]:
    """A ZeroMQ peer connects to something else, which answers with `octets`."""
    talk = Conversation()
    talk.send(0, build_greeting_3()[:10])
    talk.send(1, octets, cuts)
    talk.close()
    return talk.packets


@given(size=st.integers(1, 5), piece=st.integers(1, 40))
def test_at_most_32_are_kept_for_any_batches(size: int, piece: int) -> None:
    """The side greets in the form of 3.x and gets an answer that is none."""
    packets = answered(HTTP, range(piece, len(HTTP), piece))
    assert left(packets, size) == left(packets) == [(1, HTTP[:32])]


@given(size=st.integers(1, 5), piece=st.integers(1, 40), body=st.binary(min_size=5, max_size=60))
def test_octets_after_an_invalid_size_are_shown(size: int, piece: int, body: bytes) -> None:
    octets = hello("PUSH") + message(b"a") + b"\2" + b"\xff" * 8 + body
    talk = Conversation()
    talk.send(1, hello("PULL"))
    talk.send(0, octets, range(piece, len(octets), piece))
    talk.close()
    found = left(talk.packets)
    assert left(talk.packets, size) == found
    assert found[0] == (0, b"\2" + b"\xff" * 8)


def test_units_between_them_are_no_part_of_them() -> None:
    talk = Conversation()
    talk.send(1, b"\1\0\2\0a\2\0b")
    talk.send(0, b"\1\0\2\0a" + bytes(3) + b"\2\0b" + bytes(2))
    assert left(talk.packets) == [(0, bytes(5))]
    text, zmtp = build_websocket_frame(b"hello", TEXT), build_websocket_frame(b"\0x", BINARY)
    talk = Conversation()
    talk.send(0, request() + ready(True, "PULL"))
    talk.send(1, response() + ready(False, "PUSH"))
    talk.send(1, (text + zmtp) * 3, cuts=range(0, 60, 7))
    assert {octets for _, octets in left(talk.packets)} == {text}
    assert left(talk.packets, 1) == left(talk.packets)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("SOCKS5", b"\5\1\0\5\1\0\1"),
        ("PROXY v1", b"PROXY TCP4 "),
        ("SOCKS5 with a password", b"\5\2\0\2\1\2me"),
    ],
)
def test_a_proxy_request_is_shown_up_to_a_password(name: str, shown: bytes) -> None:
    (side, octets), *_ = left(through(name, []))
    assert side == 0
    assert octets is not None
    assert octets == shown if "password" in name else octets.startswith(shown)


def torn_hello(mechanism: str) -> list[Packet]:
    """The capture lacks the beginning of the first command of a client."""
    talk = Conversation()
    talk.send(1, build_greeting_3(mechanism))
    octets = build_greeting_3(mechanism) + b"\4\x15\5HELLO\5alice\6secret" + task(b"a") + task(b"b") + task(b"c")
    talk.send(0, octets, (64, 70))
    for each in b"defghijk":
        talk.send(0, task(bytes([each])))
    talk.acknowledge(1)
    talk.close()
    lost = next(each for each in talk.packets if len(each.payload) == 6)
    return [each for each in talk.packets if each is not lost]


def test_octets_that_may_contain_a_password_are_shown_only_with_secrets() -> None:
    hidden = dict(left(torn_hello("PLAIN")))
    assert hidden == {0: None}
    shown = dict(left(torn_hello("PLAIN"), options=Options(show_secrets=True)))
    assert b"secret" in (shown[0] or b"")
    assert b"secret" in (dict(left(torn_hello("NULL")))[0] or b"")
    begins_later = [each for each in torn_hello("PLAIN") if each.side == 0 and len(each.payload) > 3][1:]
    assert all(octets is None for _, octets in left(begins_later))


def test_too_few_octets_are_shown_too() -> None:
    talk = Conversation()
    talk.send(1, build_signature())
    talk.send(0, b"\xff\0")
    assert (0, b"\xff\0") in left(talk.packets)


def test_many_pieces_that_are_one_record_are_shown_as_one() -> None:
    """A segment contains several runs of lengths of 0, which are one record."""
    talk = Conversation()
    talk.send(1, b"\1\0\2\0a\2\0b")
    talk.send(0, b"\1\0")
    talk.send(0, (bytes(5) + b"\2\0a") * 12, cuts=[64])
    assert left(talk.packets, 1) == left(talk.packets) == [(0, bytes(32)), (0, bytes(20))]
