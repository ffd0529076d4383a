"""`-d`: connections that are read as ZMTP whatever their first octets say."""

from __future__ import annotations

from typing import Any

from tests.dissect.talks import hello, message
from tests.traffic import Capture, Conversation, records
from zmtpscope.dissect import DecodeAs, Options


def read_as(talk: Conversation, *rules: DecodeAs) -> list[dict[str, Any]]:
    found, _ = records(Capture(talk.packets), Options(decode_as=rules))
    return found


def messages(found: list[dict[str, Any]]) -> list[list[bytes]]:
    return [record["bodies"] for record in found if record["record"] == "message"]


def test_traffic_without_a_start_is_read_from_its_first_octet() -> None:
    talk = Conversation(syn=False)
    talk.send(0, message(b"alone"))
    assert messages(read_as(talk)) == []
    found = read_as(talk, DecodeAs("tcp.port", 5555, "3.1", "NULL"))
    assert messages(found) == [[b"alone"]]
    assert found[-1]["confidence"] == "likely"


def test_traffic_that_begins_inside_a_frame_is_read_from_the_next_one_on() -> None:
    talk = Conversation(syn=False)
    talk.send(0, b"the end of a body" + 20 * message(b"body", b"of two frames"))
    talk.send(0, 20 * message(b"body", b"of two frames"))
    found = read_as(talk, DecodeAs("tcp.port", 5555, "3.1", "NULL"))
    assert messages(found) == 40 * [[b"body", b"of two frames"]]
    assert (found[-1]["version"], found[-1]["undissected_bytes"]) == ("3.1", 17)
    assert not [record for record in found if record["record"] == "finding" and record["severity"] == "error"]


def test_a_connection_that_was_captured_whole_says_so() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH"))
    talk.send(1, hello("PULL"))
    assert read_as(talk, DecodeAs("tcp.port", 5555, "3.1"))[-1]["handshake"] == "complete"


def test_a_rule_for_another_port_or_connection_changes_nothing() -> None:
    talk = Conversation(syn=False)
    talk.send(0, message(b"alone"))
    assert read_as(talk, DecodeAs("tcp.port", 5556, "3.1"), DecodeAs("conn", 2, "3.1")) == []


def test_a_whole_connection_is_read_as_it_is_without_the_rule() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH") + message(b"work"))
    talk.send(1, hello("PULL"))
    talk.close()
    plain = [record["record"] for record in read_as(talk)]
    forced = [record["record"] for record in read_as(talk, DecodeAs("conn", 1))]
    assert forced == plain


def test_what_is_not_zmtp_has_a_record_that_says_so() -> None:
    talk = Conversation()
    talk.send(0, b"GET / HTTP/1.1\r\n\r\n")
    talk.close()
    assert read_as(talk) == []
    found = read_as(talk, DecodeAs("tcp.port", 5555))
    assert [record["record"] for record in found] == ["leftover", "connection"]
    assert found[1]["undissected_bytes"] == 18
