"""Sockets that are connected twice to a peer, and connections that are opened for one request and never closed."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.publishing_traffic import Subscriber, diagnosed
from tests.diagnosis.talking import CLIENT, SERVER, Talk

PER_REQUEST, TWICE = "connection-per-request", "connected-twice"


def asks_once(number: int, *, at: float, again: bool = False) -> Talk:
    """A DEALER asks once, and keeps its connection."""
    talk = Talk(number, at=at).handshake("DEALER", "ROUTER").message(CLIENT, b"question").message(SERVER, b"answer")
    return talk.wait(60).message(CLIENT, b"again") if again else talk


def test_connections_that_are_opened_for_one_request_and_kept_are_a_leak() -> None:
    diagnosis = diagnoses_of(*(asks_once(number, at=number) for number in range(20)))[PER_REQUEST]
    assert diagnosis.severity == "note"
    assert diagnosis.text == (
        "DEALER 10.0.0.2 opens a connection to ROUTER 10.0.0.1:5555 for each of its 20 requests: it closes none, and "
        "both programs keep a file descriptor for each"
    )


@pytest.mark.parametrize(
    "talks",
    [
        [asks_once(number, at=number) for number in range(19)],
        [asks_once(number, at=number, again=True) for number in range(20)],
        [asks_once(number, at=0.0001 * number) for number in range(20)],
        [Talk(number, at=number).handshake("DEALER", "ROUTER").message(CLIENT, b"READY") for number in range(20)],
    ],
    ids=["few", "used again", "all at once", "workers that wait"],
)
def test_connections_that_are_used_are_none(talks: list[Talk]) -> None:
    assert PER_REQUEST not in diagnoses_of(*talks)


def viewer(at: int, topic: str = "prices", host: int = 2) -> Subscriber:
    subscriber = Subscriber(host, at, topic)
    subscriber.publish(b"prices", b"1", times=5, every=100)
    return subscriber


def test_a_subscriber_that_connects_twice_at_once_gets_everything_twice() -> None:
    (diagnosis,) = diagnosed(viewer(0), viewer(1), rule=TWICE)
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert diagnosis.text == (
        "SUB 10.0.0.2 connected to PUB 10.0.0.1:5556 twice within 1 ms, with the same subscriptions: if that is one "
        "socket, it receives each message twice"
    )


def cancels() -> Subscriber:
    subscriber = viewer(1)
    subscriber.cancel("prices")
    return subscriber


@pytest.mark.parametrize("other", [viewer(2), viewer(1, topic="price"), viewer(1, host=3), cancels()])
def test_other_subscribers_are_not_one_socket(other: Subscriber) -> None:
    assert diagnosed(viewer(0), other, rule=TWICE) == []


@pytest.mark.parametrize(("apart", "count"), [(500, 0), (1, 1)], ids=["two programs", "one program"])
def test_two_programs_that_reconnect_at_once_are_not_one_socket(apart: int, count: int) -> None:
    before = viewer(0), viewer(apart)
    for each in before:
        each.at(2000)
        each.close()
    assert len(diagnosed(*before, viewer(4000), viewer(4001), rule=TWICE)) == count
