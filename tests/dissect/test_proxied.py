"""ZMTP through a proxy is read like any other; refusals of proxies and WebSockets without ZWS are reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import zws
from tests.dissect.test_octets_named import read
from tests.peer_octets import message, ready
from tests.traffic import Conversation, Packet
from tests.zmtp.test_proxies import CASES
from tests.zws import build_request, build_response
from zmtpscope.zmtp.greeting import build_greeting_3

GRANTED = [name for name, (_, _, _, refusal) in CASES.items() if refusal is None]
REFUSED = [name for name in CASES if name not in GRANTED]
GREETING = build_greeting_3()
SECOND = 1_000_000_000


def through(name: str, cuts: list[int], port: int = 50_000, start: int = 1_700_000_000 * SECOND) -> list[Packet]:
    """A connection of a PUSH to a PULL, after the octets of a case."""
    asked, answered, _, refusal = CASES[name]
    talk = Conversation(ports=(port, 1080), start=start)
    talk.send(0, asked + (GREETING[:10] if not answered else b""), cuts)
    talk.send(1, answered, cuts)
    if refusal is None:
        talk.send(0, (GREETING[10:] if not answered else GREETING) + ready("PUSH"), cuts)
        talk.send(1, GREETING + ready("PULL"), cuts)
        talk.send(0, message(b"one") + message(b"two"))
    talk.close()
    return talk.packets


@pytest.mark.parametrize("name", GRANTED)
@given(cuts=st.lists(st.integers(1, 80), max_size=6), size=st.integers(1, 8))
def test_what_follows_is_read_however_it_is_cut(name: str, cuts: list[int], size: int) -> None:
    packets = through(name, cuts)
    found = read(packets)
    assert read(packets, size) == found
    (connection,) = [each for each in found if each["record"] == "connection"]
    shown = ("version", "handshake", "socket_type_0", "socket_type_1", "messages_0", "undissected_bytes")
    assert [connection[field] for field in shown] == ["3.1", "complete", "PUSH", "PULL", 2, 0]
    expected = "ZMTP-CONN-17" if name.startswith("PROXY") else "ZMTP-CONN-18"
    (finding,) = [
        each for each in found if each["record"] == "finding" and each["id"] in ("ZMTP-CONN-17", "ZMTP-CONN-18")
    ]
    assert (finding["id"], finding["severity"], finding["text"].partition(": ")[2]) == (
        expected,
        "note",
        CASES[name][2],
    )


@pytest.mark.parametrize("name", GRANTED)
@given(cuts=st.lists(st.integers(1, 400), max_size=6), size=st.integers(1, 8))
def test_zws_that_follows_is_read_however_it_is_cut(name: str, cuts: list[int], size: int) -> None:
    asked, answered, _, _ = CASES[name]
    talk = Conversation(ports=(50_000, 1080))
    talk.send(0, asked, cuts)
    talk.send(1, answered, cuts)
    talk.send(0, zws.request(), cuts)
    talk.send(1, zws.response() + zws.ready(client=False, socket_type="PULL"), cuts)
    talk.send(
        0,
        zws.ready(client=True, socket_type="PUSH")
        + zws.message_frames(True, b"one")
        + zws.message_frames(True, b"two"),
        cuts,
    )
    talk.close()
    found = read(talk.packets)
    assert read(talk.packets, size) == found
    (connection,) = [each for each in found if each["record"] == "connection"]
    shown = ("transport", "handshake", "socket_type_0", "socket_type_1", "messages_0", "undissected_bytes")
    assert [connection[field] for field in shown] == ["ws", "complete", "PUSH", "PULL", 2, 0]
    assert [each["id"] for each in found if each["record"] == "finding" and each["severity"] in ("warn", "error")] == []


def refusals(packets: list[Packet]) -> list[tuple[str, str]]:
    """Return severity and text of the finding about a proxy that refuses."""
    found = [each for each in read(packets) if each["record"] == "finding" and each["id"] == "ZMTP-CONN-19"]
    return [(each["severity"], each["text"].partition(": the ")[2]) for each in found]


@pytest.mark.parametrize("name", REFUSED)
def test_one_refusal_need_not_be_about_zmtp(name: str) -> None:
    assert read(through(name, [])) == []


def test_many_refusals_in_a_row_show_a_client_of_zeromq() -> None:
    def asked(apart: int) -> list[Packet]:
        starts = [(1_700_000_000 + each * apart) * SECOND for each in range(5)]
        return [
            packet
            for each, start in enumerate(starts)
            for packet in through("SOCKS5, refused", [], 50_000 + each, start)
        ]

    times = "5 times in 4.0 s: connection refused (reply 5)"
    shown = f"SOCKS5 proxy 10.0.0.1:1080 did not connect 10.0.0.2 to 10.0.0.1:5555, {times}"
    assert refusals(asked(1)) == [("warn", shown)]
    assert refusals(asked(60)) == []


def test_a_refusal_beside_a_connection_of_zmtp_is_reported() -> None:
    start = 1_700_000_000 * SECOND
    before = through("SOCKS5, refused", [], 50_001, start)
    granted = through("SOCKS5", [], 50_002, start + SECOND)
    ((severity, text),) = refusals(before + granted)
    assert severity == "note"
    assert text.endswith("connection refused (reply 5); it connected 1.0 s later")
    behind = through("SOCKS5, refused", [], 50_003, start + 2 * SECOND)
    ((severity, text),) = refusals(before + granted + behind)
    assert severity == "warn"
    assert text.endswith("; an attempt between these succeeded")


def test_a_websocket_without_zws_is_reported_beside_zmtp_only() -> None:
    plain = Conversation(ports=(50_004, 1080))
    plain.send(0, build_request("/", "host", bytes(16), ["chat"]))
    plain.send(1, build_response(bytes(16), "chat"))
    plain.send(0, b"\x81\x82abcdhi")
    plain.close()
    assert read(plain.packets) == []
    found = read(plain.packets + through("SOCKS5", []))
    (text,) = [each["text"] for each in found if each["record"] == "finding" and each["id"] == "ZMTP-CONN-22"]
    assert text.endswith("10.0.0.2 opens a WebSocket without ZWS2.0 to 10.0.0.1:1080 (answer 101 Switching Protocols)")


CLIENT_HELLO, SERVER_HELLO = b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03", b"\x16\x03\x03\x00\x05\x02\x00\x00\x01\x03"


def tls(host: int = 3) -> Conversation:
    """Another host speaks TLS to port 1080."""
    conversation = Conversation(ports=(50_004, 1080), hosts=(bytes([10, 0, 0, host]), bytes([10, 0, 0, 1])))
    conversation.send(0, CLIENT_HELLO)
    conversation.send(1, SERVER_HELLO)
    conversation.send(0, b"\x17\x03\x03\x00\x10" + bytes(16))
    return conversation


def test_tls_to_a_server_of_http_is_reported_with_its_answer() -> None:
    asked = Conversation(ports=(50_004, 1080))
    asked.send(0, CLIENT_HELLO)
    asked.send(1, b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
    found = read(asked.packets + through("SOCKS5", []))
    (text,) = [each["text"] for each in found if each["record"] == "finding" and each["id"] == "ZMTP-CONN-23"]
    assert text.endswith(": 10.0.0.2 speaks TLS to 10.0.0.1:1080, which answers HTTP/1.1 400")


def test_tls_is_reported_beside_zmtp_only() -> None:
    assert read(tls().packets) == []
    found = read(tls().packets + through("SOCKS5", []))
    (text,) = [each["text"] for each in found if each["record"] == "finding" and each["id"] == "ZMTP-CONN-23"]
    assert text.endswith(": 10.0.0.3 speaks TLS to 10.0.0.1:1080")
