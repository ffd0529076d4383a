"""Publishers that end before their messages can be sent, and publishers without messages."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

RULE = "publisher-leaves-early"


def visit(number: int, *, stays: float = 0.05, messages: int = 0, subscribes: bool = True) -> Talk:
    """A PUB connects to an XSUB, gets a subscription and closes."""
    talk = Talk(number, at=2 * number).handshake("PUB", "XSUB")
    if subscribes:
        talk.command(SERVER, "SUBSCRIBE", topic="event")
    for _ in range(messages):
        talk.message(CLIENT, b"event")
    return talk.wait(stays).close(CLIENT)


def test_publishers_that_close_without_a_message_are_named() -> None:
    diagnosis = diagnoses_of(*map(visit, range(5)))[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text == (
        "PUB 10.0.0.2 closes 5 of 5 connections to XSUB 10.0.0.1:5555 within 63 ms without a message, although a "
        "subscription arrived on each: messages published before it are lost"
    )


def test_some_of_them_may_be_in_time() -> None:
    assert RULE in diagnoses_of(*(visit(number, messages=number % 2) for number in range(6)))


def test_publishers_that_leave_before_the_subscription_count() -> None:
    visits = [visit(number, subscribes=number == 0) for number in range(4)]
    diagnosis = diagnoses_of(*visits, Talk(9, at=9).reset(CLIENT))[RULE]
    assert diagnosis.text.startswith("PUB 10.0.0.2 closes 4 of ")
    assert "although a subscription arrived on 1 of them" in diagnosis.text


@pytest.mark.parametrize(
    "visits",
    [
        [visit(number, messages=1) for number in range(5)],
        [visit(number, messages=number % 3) for number in range(6)],
        [visit(number, stays=4) for number in range(5)],
        [visit(number, subscribes=False) for number in range(5)],
        [visit(number) for number in range(2)],
    ],
    ids=["they publish", "most publish", "they stay", "nobody subscribes", "few"],
)
def test_others_are_not(visits: list[Talk]) -> None:
    assert RULE not in diagnoses_of(*visits)
