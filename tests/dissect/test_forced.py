"""`-d`: connections that are read as ZMTP with any first octets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dissect.talks import connected
from tests.peer_octets import hello, message
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


def test_a_connection_that_was_captured_whole_is_marked() -> None:
    talk = connected("PUSH", "PULL")
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


def test_other_protocols_have_a_record() -> None:
    talk = Conversation()
    talk.send(0, b"GET / HTTP/1.1\r\n\r\n")
    talk.close()
    assert read_as(talk) == []
    found = read_as(talk, DecodeAs("tcp.port", 5555))
    assert [record["record"] for record in found] == ["leftover", "connection"]
    assert found[1]["undissected_bytes"] == 18


def under_way() -> Conversation:
    """A publisher at port 5555 and a subscriber that continues to subscribe, captured from the middle."""
    talk = Conversation(syn=False)
    for number in range(4):
        talk.send(1, 3 * message(b"a.b", b"%d" % number) + message(b"one%d frame" % number))
        talk.send(0, b"".join(message(b"\x01one%d" % each) for each in range(9)) if number == 1 else b"")
    return talk


def test_the_side_with_the_port_has_the_type_that_the_user_gave() -> None:
    found = read_as(under_way(), DecodeAs("tcp.port", 5555, "3.0", "NULL", socket_type="PUB"))
    recorded = [record for record in found if record["record"] == "message"]
    types = {(each["side"], each["socket_type"], each["peer_socket_type"]) for each in recorded}
    publisher = [found[-1]["port_0"], found[-1]["port_1"]].index(5555)
    assert types == {(publisher, "PUB", "SUB"), (1 - publisher, "SUB", "PUB")}
    topics = [each["topic"] for each in recorded if each["kind"] == "data"]
    assert topics == [topic for number in range(4) for topic in ("a.b", "a.b", "a.b", f"one{number}")]
    assert [each["topic"] for each in recorded if each["kind"] == "subscribe"] == [f"one{each}" for each in range(9)]
    assert {each["confidence"] for each in recorded} == {"likely"}
    assert sorted(found[-1][f"socket_type_{side}"] for side in (0, 1)) == ["PUB", "SUB"]


@given(size=st.integers(1, 9))
def test_a_user_rule_holds_from_the_first_message_on_for_any_blocks(size: int) -> None:
    rule = DecodeAs("tcp.port", 5555, None, None, socket_type="PUB")
    packets = under_way().packets
    whole, _ = records(Capture(packets), Options(decode_as=(rule,)))
    assert [each["topic"] for each in whole if each["record"] == "message"].count("a.b") == 12
    assert records(Capture(packets, size), Options(decode_as=(rule,)))[0] == whole


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *[
            ("XSUB", "PUB"),
            ("PUSH", "PULL"),
            ("PULL", "PUSH"),
            ("PAIR", "PAIR"),
            ("DISH", "RADIO"),
            ("CLIENT", "SERVER"),
        ],
        *[("DEALER", None), ("ROUTER", None), ("REQ", None), ("REP", None)],
    ],
)
def test_the_other_side_has_the_only_possible_type_or_none(one: str, other: str | None) -> None:
    talk = Conversation(syn=False)
    talk.send(0, message(b"body"))
    recorded = read_as(talk, DecodeAs("tcp.port", 50_000, "3.1", "NULL", socket_type=one))
    assert [(each["socket_type"], each["peer_socket_type"]) for each in recorded if each["record"] == "message"] == [
        (one, other)
    ]
    assert (recorded[-1]["socket_type_0"], recorded[-1]["socket_type_1"]) == (one, other)


def test_envelopes_are_known_by_the_type_that_was_given() -> None:
    talk = Conversation(syn=False)
    talk.send(1, message(b"\0addr", b"", b"reply"))
    rule = DecodeAs("tcp.port", 5555, "3.1", "NULL", socket_type="REP")
    (recorded,) = [each for each in read_as(talk, rule) if each["record"] == "message"]
    assert recorded["envelope"] == ["\0addr"]


def test_announcements_take_precedence_over_user_rules() -> None:
    talk = Conversation()
    talk.send(0, hello("PULL"))
    talk.send(1, hello("PUSH") + message(b"a", b"b"))
    found = read_as(talk, DecodeAs("tcp.port", 5555, "3.1", "NULL", socket_type="PUB"))
    (recorded,) = [each for each in found if each["record"] == "message"]
    assert (recorded["socket_type"], recorded["peer_socket_type"], recorded["topic"]) == ("PUSH", "PULL", None)
    assert (found[-1]["socket_type_0"], found[-1]["socket_type_1"]) == ("PULL", "PUSH")
