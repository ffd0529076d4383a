"""Programs that end whenever a certain message arrives, and programs that end for other reasons."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import consequences_of, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

RULE = "fails-on-message"


def visit(
    number: int, *, times: int = 5, last: bytes = b"poison", lives_on: float = 0.001, answered: bool = False
) -> Talk:
    """A DEALER sends a message every half second, and after the last one the ROUTER ends the connection."""
    talk = Talk(number, at=4 * number).handshake("DEALER", "ROUTER")
    for _ in range(5):
        talk.message(CLIENT, b"fine").message(SERVER, b"ok").wait(0.5)
    talk.message(CLIENT, b"poison")
    if answered:
        talk.message(SERVER, b"ok")
    return talk.wait(lives_on).close(SERVER)


def test_a_program_that_ends_behind_a_message_each_time_fails_on_it() -> None:
    visits = [visit(number) for number in range(4)]
    diagnosis = diagnoses_of(*visits)[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text.startswith("ROUTER 10.0.0.1:5555 ends each connection of DEALER 10.0.0.2 within 3 ms")
    assert diagnosis.text.endswith(
        "after a message with a frame of 6 octets of DEALER 10.0.0.2, without a reply, 4 times in 12 s, every 4 s"
    )
    assert consequences_of(RULE, *visits) == {"periodic-disconnect"}


@pytest.mark.parametrize(
    "visits",
    [
        [visit(number) for number in range(2)],
        [visit(number, answered=True) for number in range(4)],
        [visit(number, lives_on=0.2) for number in range(4)],
        [*(visit(number) for number in range(3)), visit(3, lives_on=1)],
    ],
    ids=["twice", "it answers", "it lives on", "once at another moment"],
)
def test_other_ends_are_no_failures(visits: list[Talk]) -> None:
    assert RULE not in diagnoses_of(*visits)
