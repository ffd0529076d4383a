"""A process that ends leaves all its endpoints at once: that is one diagnosis."""

from __future__ import annotations

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.requesting_traffic import Asker, diagnosed
from tests.diagnosis.talking import SERVER, Talk
from tests.peer_octets import message
from tests.traffic import Conversation
from zmtpscope.capture.segments import ACK, FIN

RULE = "peer-departed"


def leave(talk: Asker) -> None:
    """Side 1, which listens, closes first."""
    talk.add(1, FIN | ACK)
    talk.add(0, FIN | ACK)
    talk.add(1, ACK)


def subscriber(port: int, *, lasts: int = 100, host: int = 2) -> Asker:
    """A SUB whose PUB closes after `lasts` milliseconds."""
    talk = Asker(("SUB", "PUB"), host, at=port % 1000 + host - 2, port=port)
    talk.send(1, message(b"weather"))
    talk.pause(lasts)
    leave(talk)
    return talk


def goes_on(milliseconds: int = 5000) -> Conversation:
    """Another connection, with packets for this long."""
    talk = Asker(host=9, at=90, port=6000)
    talk.pause(milliseconds)
    talk.add(0, ACK)
    return talk


def texts(*talks: Conversation) -> list[str]:
    return [each.text for each in diagnosed(*talks, rule=RULE)]


def test_endpoints_that_are_left_at_once_are_one_diagnosis() -> None:
    talks = subscriber(5555), subscriber(5556), subscriber(5556, host=3), subscriber(5557)
    assert texts(*talks, goes_on()) == [
        "10.0.0.1 left 3 endpoints within 2 ms: PUB :5555, PUB :5556, PUB :5557; 4 connections ended; no client "
        "reconnected"
    ]


def test_endpoints_that_are_left_one_after_the_other_are_distinguished() -> None:
    assert len(texts(subscriber(5555), subscriber(5556, lasts=900), goes_on())) == 2


def restarted_twice(*ports: int) -> list[Asker]:
    """Two lives of a process that listens at these ports, 1 s apart."""
    talks = [subscriber(port) for port in ports]
    for port in ports:
        again = Asker(("SUB", "PUB"), 2, at=1000 + port % 1000, port=port)
        again.send(1, message(b"weather"))
        again.pause(100)
        leave(again)
        talks.append(again)
    return talks


def test_endpoints_that_are_left_at_the_same_moments_are_one_diagnosis() -> None:
    (text,) = texts(*restarted_twice(5555, 5556, 5557), goes_on(9000))
    assert text.startswith("10.0.0.1 left 3 endpoints within 2 ms, 2 times in 1 s: PUB :5555, PUB :5556, PUB :5557; 6")


def test_an_endpoint_that_is_left_less_often_belongs_to_another_process() -> None:
    assert len(texts(*restarted_twice(5555, 5556), subscriber(5557), goes_on(9000))) == 2


def test_one_endpoint_is_named_with_its_clients() -> None:
    assert texts(subscriber(5555), goes_on()) == [
        "PUB 10.0.0.1:5555 closes its connection with SUB 10.0.0.2; no client reconnected"
    ]


@pytest.mark.parametrize(("idle", "found"), [(20, 1), (2000, 0)], ids=["at work", "after the work"])
def test_a_push_whose_last_receiver_left_while_it_sent_is_reported(idle: int, found: int) -> None:
    worker = Asker(("PULL", "PUSH"))
    for _ in range(10):
        worker.pause(100)
        worker.send(1, message(b"work"))
    worker.pause(idle)
    worker.add(0, FIN | ACK)
    worker.add(1, FIN | ACK)
    expected = ["PULL 10.0.0.2 closes its connection with PUSH 10.0.0.1:5555; no client reconnected"]
    assert texts(worker, goes_on(9000)) == expected * found


def test_another_subscriber_shows_that_the_publisher_is_there() -> None:
    other = subscriber(5555, host=3, lasts=6000)
    assert texts(subscriber(5555), other) == []


def test_reconnects_after_the_end_of_the_capture_are_unknown() -> None:
    assert texts(subscriber(5555), goes_on(1000)) == []


def test_requests_that_are_left_open_are_counted() -> None:
    talks = []
    for port in (5555, 5556):
        talk = Asker(at=port % 1000, port=port)
        talk.ask(b"question")
        leave(talk)
        again = Asker(at=port % 1000 + 700, port=port)
        again.pause(100)
        talks += [talk, again]
    (text,) = texts(*talks)
    assert "; 2 connections ended, with 2 requests open; they reconnected " in text


def _passing(number: int, at: float, port: int, seconds: float = 0.8) -> Talk:
    return Talk(number, at=at, port=port).handshake("PULL", "PUSH").wait(seconds).close(SERVER)


def _tried_again(number: int, at: float, port: int) -> list[Talk]:
    return [Talk(100 * number + each, at=at + each, port=port).refused() for each in range(1, 14)]


def test_programs_that_live_for_a_moment_at_ports_of_their_own_are_a_note() -> None:
    """Discovery announces each to a PULL, and libzmq still tries the ports of ended processes."""
    ports = (40_101, 35_777, 51_002)
    talks = [_passing(number, 5 * number, port) for number, port in enumerate(ports)]
    tried = [each for number, port in enumerate(ports) for each in _tried_again(number + 1, 5 * number + 1, port)]
    found = diagnoses_of(*talks, *tried)
    assert {each.severity for each in found.values()} == {"note"}
    assert found["peer-departed"].text == (
        "PUSH of 10.0.0.1 listened at one port after another, and left 40101, 35777, 51002; PULL 10.0.0.2 still tries "
        "to connect there"
    )


@pytest.mark.parametrize(
    "talks",
    [
        [_passing(0, 0, 40_101)],
        [_passing(0, 0, 5556), _passing(1, 5, 5557, 20)],
        [_passing(0, 0, 40_101, 9), _passing(1, 1, 40_102, 20)],
    ],
    ids=["no other port", "fixed ports", "at the same time"],
)
def test_a_program_that_no_other_port_replaces_is_missed(talks: list[Talk]) -> None:
    port = talks[0].conversation.ports[1]
    found = diagnoses_of(*talks, *_tried_again(5, 9, port))
    assert found["peer-departed"].severity == "warn"
