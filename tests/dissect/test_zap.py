"""ZAP on TCP: replies belong to requests (27/ZAP, ZAP-02)."""

from __future__ import annotations

import pytest

from tests.dissect.talks import connected
from tests.peer_octets import message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import Options
from zmtpscope.payloads.registry import Registry


def request(id_: bytes) -> bytes:
    return message(b"", b"1.0", id_, b"global", b"10.0.0.9", b"", b"PLAIN", b"admin", b"s3cret")


def reply(id_: bytes) -> bytes:
    return message(b"", b"1.0", id_, b"200", b"OK", b"admin", b"")


def talk(*steps: tuple[int, bytes], syn: bool = True) -> Conversation:
    conversation = connected("REQ", "REP", syn=syn)
    for side, octets in steps:
        conversation.send(side, octets)
    return conversation


def findings(conversation: Conversation, size: int = 1 << 30) -> list[str]:
    found, _ = records(Capture(conversation.packets, size), Options(payloads=Registry()))
    return [record["id"] for record in found if record["record"] == "finding" and record["id"].startswith("ZAP")]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_an_unrequested_reply_is_reported(size: int) -> None:
    asked = (0, request(b"1")), (1, reply(b"1")), (0, request(b"2")), (1, reply(b"3"))
    assert findings(talk(*asked), size) == ["ZAP-02"]


def test_replies_to_requests_are_right() -> None:
    assert findings(talk((0, request(b"1")), (1, reply(b"1")), (0, request(b"1")), (1, reply(b"1")))) == []


def test_each_request_is_answered_once() -> None:
    assert findings(talk((0, request(b"1")), (1, reply(b"1")), (1, reply(b"1")))) == ["ZAP-02"]


def test_if_requests_may_be_missing_nothing_is_reported() -> None:
    conversation = talk((0, request(b"1")), (1, reply(b"1")), (1, reply(b"7")))
    del conversation.packets[5]  # the request was not captured
    assert findings(conversation) == []
