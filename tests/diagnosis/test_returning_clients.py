"""Clients that close their connections and connect again: their own time limit, or a program that is started again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.reading import diagnoses
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.diagnosis import FAILING, Diagnosis

RULE = "client-returns"
PROBLEMS = Path(__file__).parents[2] / "captures/problems"


def visits(lives: Sequence[float], away: float, *, silence: float = 0.1, by: int = CLIENT) -> list[Talk]:
    """A DEALER that stays for these times, silent at the end of each, and is back after `away` seconds."""
    talks, at = [], 0.0
    for number, life in enumerate(lives):
        talk = Talk(number, at=at).handshake("DEALER", "ROUTER").wait(life - silence)
        talks.append(talk.message(CLIENT, b"hello").message(SERVER, b"welcome").wait(silence).close(by))
        at += life + away
    return talks


def diagnosis_of(*talks: Talk) -> Diagnosis | None:
    return diagnoses_of(*talks).get(RULE)


def test_a_program_that_ends_and_is_started_again() -> None:
    diagnosis = diagnosis_of(*visits([0.9, 1.4, 0.7, 1.2, 1.0], 0.4))
    assert diagnosis is not None
    assert diagnosis.severity == "note"
    assert diagnosis.text.startswith("DEALER 10.0.0.2 closes its connection with ROUTER 10.0.0.1:5555 itself after 7")
    assert "5 times" in diagnosis.text
    assert "started again" in diagnosis.hint


def test_a_time_limit_of_the_client_for_silence() -> None:
    diagnosis = diagnosis_of(*visits([2.5, 7.0, 4.1, 9.2], 0.01, silence=2))
    assert diagnosis is not None
    assert "itself after 2 s of silence, 4 times" in diagnosis.text
    assert diagnosis.text.endswith("and connects again at once")
    assert "make its limit longer" in diagnosis.hint


@pytest.mark.parametrize(
    "talks",
    [
        pytest.param(visits([2.0, 3.0, 2.5], 1), id="three times, as by hand"),
        pytest.param(visits([0.1] * 9, 0.05), id="for one exchange each time"),
        pytest.param(visits([2.0] * 5, 9), id="as a timer of the system starts it"),
        pytest.param(visits([0.9, 1.4, 0.7, 1.2, 1.0], 0.4, by=SERVER), id="the server closes"),
        pytest.param(visits([4.0, 4.0, 4.0, 4.0, 4.0], -3), id="several programs at a time"),
    ],
)
def test_clients_that_connect_and_leave(talks: list[Talk]) -> None:
    assert diagnosis_of(*talks) is None


@pytest.mark.parametrize(
    ("name", "cause"),
    [("reported/closes-on-ping.pcapng", "closes-on-ping"), ("blamed/hb-ttl-overflow.pcap", "heartbeat-ttl")],
)
def test_a_client_that_closes_for_a_known_cause_is_a_consequence(name: str, cause: str) -> None:
    (explained,) = [each for each in diagnoses(PROBLEMS / name) if each.diagnosis.severity in FAILING]
    assert explained.diagnosis.rule == cause
    assert RULE in {each.rule for each in explained.consequences}
