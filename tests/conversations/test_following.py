"""Conversations: their records, order and format."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.dissect.talks import connections
from tests.peer_octets import hello, message
from tests.readings import CAPTURES, read
from tests.traffic import Capture, Conversation, Packet
from zmtpscope.capture import open_captures
from zmtpscope.conversations import following as module
from zmtpscope.conversations.choosing import Chosen
from zmtpscope.conversations.following import COMMANDS, Following
from zmtpscope.conversations.text import ConversationText
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.safe_text import safe_text
from zmtpscope.filter import Filter
from zmtpscope.option_texts import BODY_FORMS

Values = dict[str, Any]

ONE = Chosen(frozenset((1,)))


def followed_records(capture: Any, followed: Chosen, options: Options | None = None) -> list[tuple[Values, bool]]:
    options = options or Options()
    following = Following(followed, options, lambda: 0)
    return [each for batch in Analyser(options).run(capture) for each in following.records(batch)]


def text(capture: Any, followed: Chosen, form: str = "auto") -> str:
    lines = ConversationText(Clock("e", lambda: 0), form, lambda style, words: words)
    shown: list[str] = []
    for values, is_chosen in followed_records(capture, followed):
        if is_chosen:
            shown += lines.lines(values)
        else:
            lines.learn(values)
    return "".join(shown)


def place(record: Values) -> tuple[Any, ...]:
    return record["record"], record["conn"], record["side"], record["packet"], record.get("offset"), record["ts_ns"]


FOLLOWED = ["patterns/pubsub.pcap", "damage/holes.pcap", "damage/midstream-pubsub.pcap", "problems/receiver-naps.pcap"]


@pytest.mark.parametrize("name", FOLLOWED)
def test_follow_prints_the_records_of_the_connection_that_read_prints(name: str) -> None:
    expected = [
        place(each)
        for each in read(CAPTURES / name).records
        if each["conn"] == 1
        and (each["record"] in ("message", "gap", "stall", "leftover", "connection") or each.get("name") in COMMANDS)
    ]
    found = followed_records(open_captures([str(CAPTURES / name)]), ONE)
    assert [place(each) for each, is_chosen in found if is_chosen] == expected


def two_clients() -> list[Packet]:
    """A ROUTER exchanges messages with "ann", who connects twice, and with "bob"."""
    packets: list[Packet] = []
    for number, name in enumerate((b"ann", b"bob", b"ann")):
        talk = Conversation(ports=(50_000 + number, 5555), start=1_700_000_000_000_000_000 + number * 10**9)
        ready = hello("DEALER")[64:]
        metadata = b"\x08Identity\0\0\0\x03" + name
        ready = ready[:1] + bytes([ready[1] + len(metadata)]) + ready[2:] + metadata
        talk.send(1, hello("ROUTER") + message(b"early"))
        talk.send(0, hello("DEALER")[:64] + ready + message(b"from " + name))
        talk.send(1, message(b"to " + name))
        talk.close()
        packets += talk.packets
    return packets


@given(st.integers(1, 30))
def test_a_peer_is_followed_from_connection_to_connection(size: int) -> None:
    found = followed_records(Capture(two_clients(), size), Chosen(peer="ann"))
    bodies = [(each["conn"], each["bodies"]) for each, is_chosen in found if is_chosen and each["record"] == "message"]
    assert bodies == [(conn, [body]) for conn in (1, 3) for body in (b"from ann", b"early", b"to ann")]
    assert found == followed_records(Capture(two_clients()), Chosen(peer="ann"))


def test_a_gap_is_printed_in_its_place_even_if_only_a_topic_is_followed() -> None:
    path = str(CAPTURES / "damage" / "holes.pcap")
    found = followed_records(open_captures([path]), Chosen(filters=[Filter("topic matches '^w'")]))
    kinds = [each["record"] for each, is_chosen in found if is_chosen]
    assert 0 < kinds.index("gap") < len(kinds) - 1
    assert kinds[-1] == "connection"
    shown = text(open_captures([path]), Chosen(filters=[Filter("topic matches '^w'")]))
    assert "not captured" in shown


FOLLOWED = st.sampled_from(
    [
        ONE,
        Chosen(peer="a"),
        Chosen(filters=[Filter("size > 3")]),
        Chosen(ONE.conns, None, [Filter("topic")]),
    ]
)


def hostile() -> list[Packet]:
    """A message that would change the colour of a terminal."""
    talk = Conversation()
    talk.send(0, hello("PUSH") + message(b"\x1b[31m"))
    talk.send(1, hello("PULL"))
    return talk.packets


@given(packets=connections(), size=st.integers(1, 9), followed=FOLLOWED, form=st.sampled_from(BODY_FORMS))
@example(packets=hostile(), size=1, followed=ONE, form="text")
def test_blocks_make_no_difference_and_nothing_reaches_the_terminal(
    packets: list[Packet], size: int, followed: Chosen, form: str
) -> None:
    whole = text(Capture(packets), followed, form)
    assert text(Capture(packets, size), followed, form) == whole
    for line in whole.splitlines():
        assert safe_text(line) == line
        assert re.match(r"[<>=]( |$)", line)


def shown_as(form: str, *bodies: bytes) -> list[str]:
    talk = Conversation()
    talk.send(0, hello("PUSH") + message(*bodies))
    talk.send(1, hello("PULL"))
    return [
        line[3:]
        for line in text(Capture(talk.packets), ONE, form).splitlines()
        if line[:4] == ">   " and "message" not in line
    ]


def test_frames_are_separate_and_shown_in_their_format() -> None:
    assert shown_as("auto", b"one\n\ttwo\r\n", b"", "größe".encode(), b"\x1b[31m") == [
        " 1  one",
        "    " + "        two",
        " 2  (empty)",
        " 3  größe",
        " 4  00000000 1b 5b 33 31 6d                                  .[31m",
    ]
    assert shown_as("text", b"\x1b[31m", b"a\xff\n") == [r" 1  \x1b[31m", r" 2  a\xff"]
    assert shown_as("hex", b"ab") == [" 1  00000000 61 62                                           ab"]


def test_missing_octets_are_reported() -> None:
    talk = Conversation()
    talk.send(0, hello("PUSH") + message(b"abcdef"))
    talk.send(1, hello("PULL"))
    for options, words in (
        (Options(bodies="head", head=2), "(2 of 6 octets kept)"),
        (Options(bodies="none"), "(not kept)"),
    ):
        lines = ConversationText(Clock("e", lambda: 0), "auto", lambda style, words: words)
        found = [each for each, is_chosen in followed_records(Capture(talk.packets), ONE, options) if is_chosen]
        assert words in "".join(line for each in found for line in lines.lines(each))


def test_connections_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 2)
    following = Following(Chosen(peer="ann"), Options(), lambda: 0)
    for batch in Analyser(Options()).run(Capture(two_clients())):
        assert len(list(following.records(batch))) >= 0
        assert len(following._of_peer) <= 2
        assert len(following._shown) <= 2
