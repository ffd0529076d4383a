"""Clients that do not register again at a ROUTER that was restarted."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import consequences_of, diagnoses_of
from tests.diagnosis.talking import CLIENT, SERVER, Talk

RULE = "not-registered-again"


def worker(*, registers: bool = True, jobs: int = 10, closes: int = SERVER, repeats: bool = False) -> Talk:
    """A DEALER registers, reports every second that it is there, and gets jobs; then its connection ends."""
    talk = Talk(0, at=0).handshake("DEALER", "ROUTER", "w1")
    if registers:
        talk.message(CLIENT, b"REGISTER w1")
    for _ in range(jobs):
        talk.message(SERVER, b"JOB").message(CLIENT, b"REGISTER w1" if repeats else b"ALIVE").wait(0.3)
    return talk.close(closes)


def back(first: bytes = b"ALIVE", *, at: float = 5, times: int = 9, answered: bool = False) -> Talk:
    talk = Talk(1, at=at).handshake("DEALER", "ROUTER", "w1").message(CLIENT, first)
    if answered:
        talk.message(SERVER, b"JOB")
    for _ in range(times):
        talk.wait(1).message(CLIENT, b"ALIVE")
    return talk.close(CLIENT)


def test_a_client_that_does_not_register_again_is_named() -> None:
    diagnosis = diagnoses_of(worker(), back())[RULE]
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert diagnosis.text.startswith(
        'DEALER "w1" 10.0.0.2 connected again after ROUTER 10.0.0.1:5555 had closed its connection, and did not send '
        '"REGISTER" as its first message again: ROUTER 10.0.0.1:5555 sent nothing to it for 9.0'
    )


def answering(*, at: float, registers: bool) -> Talk:
    """A DEALER that sends nothing but its registration and results."""
    talk = Talk(int(at), at=at).handshake("DEALER", "ROUTER", "w1")
    return talk.message(CLIENT, b"REGISTER w1") if registers else talk


@pytest.mark.parametrize("waits", [True, False])
def test_workers_that_only_answer_are_not_registered_again_if_a_client_waits(waits: bool) -> None:
    old, new = answering(at=0, registers=True), answering(at=5, registers=False).wait(12)
    for _ in range(10):
        old.message(SERVER, b"JOB").message(CLIENT, b"DONE").wait(0.3)
    client = Talk(60, at=1, client=3, port=5556).handshake("REQ", "ROUTER")
    for _ in range(5):
        client.multipart(CLIENT, b"", b"job").multipart(SERVER, b"", b"done").wait(0.3)
    client.wait(6)
    if waits:
        client.multipart(CLIENT, b"", b"job")
    client.wait(9).command(CLIENT, "PING")
    found = diagnoses_of(old.close(SERVER), new.command(CLIENT, "PING"), client)
    assert (RULE in found) is waits
    if waits:
        assert (found[RULE].severity, found[RULE].certainty) == ("warn", "likely")
        assert found[RULE].text.endswith("; REQ 10.0.0.3 waits for a reply of ROUTER 10.0.0.1:5556")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(worker(), back(b"REGISTER w1"), id="it registers"),
        pytest.param(worker(), back(answered=True), id="the ROUTER sends to it"),
        pytest.param(worker(), back(times=2), id="a short time"),
        pytest.param(worker(), back(at=90), id="much later"),
        pytest.param(worker(jobs=4), back(), id="few messages before"),
        pytest.param(worker(closes=CLIENT), back(), id="the client closed"),
        pytest.param(worker(repeats=True), back(), id="its first message is a usual one"),
        pytest.param(worker(registers=False), back(), id="nothing to register"),
    ],
)
def test_a_router_may_have_nothing_to_send_otherwise(before: Talk, after: Talk) -> None:
    assert RULE not in diagnoses_of(before, after)
    assert all(RULE not in consequences_of(rule, before, after) for rule in diagnoses_of(before, after))
