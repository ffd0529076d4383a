"""Requests between unknown socket types: the two sides take turns, and so one of them asks."""

from __future__ import annotations

import pytest

from tests.diagnosis.publishing_traffic import MS, diagnosed
from tests.peer_octets import message
from tests.traffic import Conversation
from zmtpscope.capture.segments import ACK

RULE = "request-unanswered"
CLIENT, SERVER = 0, 1


def turns(
    times: int, replies_after: int = 1, thinks: int = 300, ports: tuple[int, int] = (50_000, 5555)
) -> Conversation:
    """The client sends requests and gets replies."""
    talk = Conversation(syn=False, ports=ports)
    for number in range(times):
        talk.send(CLIENT, message(b"", b"price of %d?" % number))
        talk.wait(replies_after * MS)
        talk.send(SERVER, message(b"", b"%d" % number))
        talk.wait(thinks * MS)
    return talk


def asks_and_waits(talk: Conversation, side: int = CLIENT, milliseconds: int = 8000) -> Conversation:
    talk.send(side, message(b"", b"and the last one?"))
    talk.wait(milliseconds * MS)
    talk.add(1 - side, ACK)
    return talk


def statements_of(talk: Conversation) -> list[tuple[str, str]]:
    return [(each.severity, each.statement.partition(";")[0]) for each in diagnosed(talk, rule=RULE)]


def test_a_server_that_answered_and_does_not_any_more_is_a_likely_cause() -> None:
    ((severity, text),) = statements_of(asks_and_waits(turns(10)))
    assert severity == "warn"
    assert text.startswith("likely: 10.0.0.1:5555 does not reply to 10.0.0.2: the request in packet")
    assert "waits for 8" in text


@pytest.mark.parametrize(
    "talk",
    [
        turns(10),
        asks_and_waits(turns(3)),
        asks_and_waits(turns(10), milliseconds=500),
        asks_and_waits(turns(10), SERVER),
        asks_and_waits(turns(10, replies_after=300, thinks=1)),
        asks_and_waits(turns(10, ports=(5555, 50_000))),
    ],
    ids=["answered", "too few turns", "a moment", "the server speaks last", "no telling who asks", "the listener asks"],
)
def test_nothing_is_guessed_from_less(talk: Conversation) -> None:
    assert statements_of(talk) == []


def test_a_side_that_asks_again_before_the_reply_is_no_req() -> None:
    """A DEALER whose messages begin with the empty frame has sent them in turn with their replies, by chance."""
    talk = turns(10)
    for side in (CLIENT, CLIENT, SERVER, SERVER):
        talk.send(side, message(b"", b"and this"))
    assert statements_of(asks_and_waits(talk)) == []


def test_messages_without_the_empty_frame_are_no_requests() -> None:
    talk = Conversation(syn=False)
    for _ in range(10):
        talk.send(CLIENT, message(b"a"))
        talk.send(SERVER, message(b"b"))
        talk.wait(300 * MS)
    assert statements_of(asks_and_waits(talk)) == []


def test_turns_of_sockets_that_announce_no_type_are_requests() -> None:
    """ZMTP 1.0 and 2.0 over WebSocket announce none."""
    talk = Conversation()
    for side in (CLIENT, SERVER):
        talk.send(side, b"\x01\x00")
    for _ in range(10):
        for side in (CLIENT, SERVER):
            talk.send(side, b"\x01\x01\x06\x00hello")
        talk.wait(300 * MS)
    talk.send(CLIENT, b"\x01\x01\x06\x00hello")
    talk.wait(8000 * MS)
    talk.add(SERVER, ACK)
    ((_, text),) = statements_of(talk)
    assert text.startswith("likely: 10.0.0.1:5555 does not reply to 10.0.0.2")
