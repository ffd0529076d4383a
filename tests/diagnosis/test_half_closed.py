"""Connections that one side closed: programs that never close theirs, and programs with a reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from tests.peer_octets import message
from tests.traffic import Capture
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Analyser, Options

RULE = "half-closed"


def left(number: int, *, at: float, messages: int = 1) -> Talk:
    """A PUSH sends its messages and closes; the system of the PULL acknowledges the FIN."""
    talk = Talk(number, at=at).handshake("PUSH", "PULL")
    for _ in range(messages):
        talk.message(CLIENT, b"report")
    talk.conversation.add(CLIENT, FIN | ACK)
    talk.conversation.acknowledge(SERVER)
    return talk


def served(at: float) -> Talk:
    """A connection that the same PULL opens and closes in order."""
    return Talk(99, at=at).handshake("PUSH", "PULL").message(CLIENT, b"report").close(CLIENT)


def test_a_program_that_never_closes_is_named_with_its_connections() -> None:
    diagnosis = diagnoses_of(*(left(number, at=number) for number in range(5)), served(8))[RULE]
    assert (diagnosis.severity, diagnosis.count) == ("warn", 5)
    assert diagnosis.text == (
        "PULL 10.0.0.1:5555 does not close its side of 5 connections with PUSH 10.0.0.2, whose first FIN its system "
        "acknowledged 8 s before the capture ended; it goes on with others"
    )


def test_a_program_that_answers_no_peer_any_more_is_a_note() -> None:
    talks = [left(number, at=number / 1000) for number in range(5)]
    assert diagnoses_of(*talks, Talk(9, at=8).greet(CLIENT))[RULE].severity == "note"


def test_one_connection_is_a_note() -> None:
    diagnosis = diagnoses_of(left(0, at=0), served(8))[RULE]
    assert (diagnosis.severity, diagnosis.text.partition(" with ")[0]) == (
        "note",
        "PULL 10.0.0.1:5555 does not close its side of its connection",
    )


def test_a_peer_that_has_many_messages_to_read_may_close_later() -> None:
    talks = [left(number, at=number, messages=101) for number in range(5)]
    assert diagnoses_of(*talks, served(8))[RULE].severity == "note"


def goes_on_to_send() -> Talk:
    return left(0, at=0).message(SERVER, b"the rest")


def is_not_acknowledged() -> Talk:
    talk = left(0, at=0)
    del talk.conversation.packets[-1]
    return talk


def closes_later() -> Talk:
    talk = left(0, at=0).wait(5)
    talk.conversation.add(SERVER, FIN | ACK)
    talk.conversation.acknowledge(CLIENT)
    return talk


def had_a_closed_window() -> Talk:
    talk = Talk(0, at=0).handshake("PUSH", "PULL").message(CLIENT, b"report")
    talk.conversation.close_window(SERVER)
    talk.wait(1)
    talk.conversation.open_window(SERVER)
    talk.conversation.add(CLIENT, FIN | ACK)
    talk.conversation.acknowledge(SERVER)
    return talk


def sends_lost_data_again() -> Talk:
    """The FIN of the server can only follow its data, which does not arrive."""
    talk = Talk(0, at=0).handshake("DEALER", "ROUTER")
    for _ in range(3):
        talk.conversation.send(SERVER, message(b"lost"))
        talk.conversation.next[SERVER] -= len(message(b"lost"))
        talk.wait(1)
    talk.conversation.add(CLIENT, FIN | ACK)
    talk.conversation.next[SERVER] += len(message(b"lost"))
    talk.conversation.acknowledge(SERVER)
    return talk


@pytest.mark.parametrize(
    "half", [goes_on_to_send, sends_lost_data_again, is_not_acknowledged, closes_later, had_a_closed_window]
)
def test_a_peer_that_has_a_reason_is_not_reported(half: Callable[[], Talk]) -> None:
    assert RULE not in diagnoses_of(half(), served(8))


@pytest.mark.parametrize("last", [served(8), Talk(9, at=8).greet(CLIENT)], ids=["it goes on", "it hangs"])
def test_live_capture_reports_it_while_packets_arrive(last: Talk) -> None:
    """The report equals that of `check`; the connections have no records yet."""
    talks = [*(left(number, at=number / 2) for number in range(5)), last]
    packets = sorted((each for talk in talks for each in talk.conversation.packets), key=lambda each: each.time)
    watch, analyser = Watch(), Analyser(Options(bodies="none"))
    analyser.begin([None])
    for block in Capture(packets, 7):
        for batch in analyser.feed(block):
            watch.feed(batch)
    for batch in analyser.tick(analyser.latest):
        watch.feed(batch)
    live = {each.rule: (each.severity, each.text) for each in watch.news(analyser.ongoing())}
    assert live.pop(RULE) == (diagnoses_of(*talks)[RULE].severity, diagnoses_of(*talks)[RULE].text)
    assert live.keys() <= {"clear-text"}


def test_a_capture_that_ends_soon_proves_nothing() -> None:
    assert RULE not in diagnoses_of(left(0, at=7), served(8))
