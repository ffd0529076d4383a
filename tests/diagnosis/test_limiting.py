"""A peer that closes after large messages, and accepts smaller ones, has a limit; a peer that closes for other
reasons has none."""

from __future__ import annotations

import pytest

from tests.diagnosis.requesting_traffic import Asker, diagnosed
from tests.diagnosis.test_requests import by_turns
from tests.peer_octets import message
from zmtpscope.capture.segments import ACK, FIN

RULE = "message-too-large"


def closed_behind(size: int, at: int, types: tuple[str, str] = ("REQ", "REP"), after: int = 0) -> Asker:
    """Send a message, after which the other side closes."""
    asker = Asker(types, host=3, at=at)
    asker.ask(bytes(size))
    asker.pause(after)
    asker.add(1, FIN | ACK)
    asker.add(0, FIN | ACK)
    return asker


def closed_within(size: int, at: int) -> Asker:
    """The other side closes inside a message, whose rest is in transit."""
    asker, octets = Asker(host=3, at=at), message(b"", bytes(size))
    asker.send(0, octets[:1400])
    asker.add(1, FIN | ACK)
    asker.send(0, octets[1400:])
    asker.add(0, FIN | ACK)
    return asker


def small(size: int = 4) -> Asker:
    asker = Asker(host=2, at=1)
    by_turns(asker)
    asker.ask(bytes(size))
    asker.answer(b"answer")
    return asker


def test_a_peer_that_closes_behind_each_large_message_has_a_limit() -> None:
    (diagnosis,) = diagnosed(small(), *(closed_behind(3002, at) for at in (100, 1100, 2100)), rule=RULE)
    assert (diagnosis.severity, diagnosis.certainty) == ("error", "likely")
    assert diagnosis.text == (
        "REP 10.0.0.1:5555 closes the connection right after a frame of 3002 octets of REQ 10.0.0.3, each of 3 "
        "times; the largest one that it accepted has 10 octets"
    )
    assert "ZMQ_MAXMSGSIZE" in diagnosis.hint
    assert len(diagnosis.conn_ids) == 3


def test_the_rest_of_the_message_may_be_captured_behind_the_close() -> None:
    (diagnosis,) = diagnosed(small(), *(closed_within(3002, at) for at in (100, 1100, 2100)), rule=RULE)
    assert "right after a frame of 3002 octets of REQ 10.0.0.3, each of 3 times" in diagnosis.text


def test_a_subscriber_may_have_a_limit_too() -> None:
    def subscriber(at: int) -> Asker:
        asker = Asker(("SUB", "PUB"), at=at)
        for size in (10, 100, 5000 + at):
            asker.send(1, message(bytes(size)))
        asker.add(0, FIN | ACK)
        asker.add(1, FIN | ACK)
        return asker

    (diagnosis,) = diagnosed(*(subscriber(at) for at in (0, 1000, 2000)), rule=RULE)
    assert diagnosis.text == (
        "SUB 10.0.0.2 closes the connection right after a frame of 5000 octets or more of PUB 10.0.0.1:5555, each "
        "of 3 times; the largest one that it accepted has 100 octets"
    )


def pictures(host: int, at: int, sizes: tuple[int, ...], *, left_after: int | None = None) -> Asker:
    """A SUB gets messages of these sizes, one a second; it closes `left_after` milliseconds after the last one
    began."""
    asker = Asker(("SUB", "PUB"), host, at)
    for size in sizes:
        octets = message(bytes(size))
        if left_after is not None and size == sizes[-1]:
            asker.send(1, octets[:1400])
            asker.pause(left_after)
            asker.add(0, FIN | ACK)
            asker.add(1, FIN | ACK)
        else:
            asker.send(1, octets)
        asker.pause(1000)
    return asker


SERVED = pictures(3, 5, (10, 5000, 10, 10, 10, 10))


@pytest.mark.parametrize(
    ("left_after", "others"), [(1, []), (90, [SERVED])], ids=["at the header", "beside one that takes it"]
)
def test_a_subscriber_that_closes_within_a_large_message_for_good_has_a_limit(
    left_after: int, others: list[Asker]
) -> None:
    left = pictures(2, 0, (10, 5000), left_after=left_after)
    quiet = pictures(4, 7, (10, 10, 10, 10, 10, 10))
    (diagnosis,) = diagnosed(left, quiet, *others, rule=RULE)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text == (
        "SUB 10.0.0.2 closes the connection while PUB 10.0.0.1:5555 sends a frame of 5000 octets, and does not "
        "reconnect; the largest one that it accepted has 10 octets"
    )


@pytest.mark.parametrize(
    "others",
    [[pictures(4, 7, (10, 10, 10, 10, 10, 10))], [SERVED, pictures(2, 2500, (10,))]],
    ids=["nobody takes it", "it comes back"],
)
def test_a_subscriber_that_ends_within_a_message_otherwise_has_none(others: list[Asker]) -> None:
    assert diagnosed(pictures(2, 0, (10, 5000), left_after=90), *others, rule=RULE) == []


def fetches(at: int) -> Asker:
    """Request the size, then the whole, and close when it has arrived."""
    asker = Asker(host=3, at=at)
    by_turns(asker)
    asker.ask(b"all")
    asker.answer(bytes(3002))
    asker.add(0, FIN | ACK)
    asker.add(1, FIN | ACK)
    return asker


@pytest.mark.parametrize(
    "askers",
    [
        pytest.param([small(), *(closed_behind(3002, at) for at in (100, 1100))], id="twice only"),
        pytest.param([small(3002), *(closed_behind(3002, at) for at in (100, 1100, 2100))], id="once it was answered"),
        pytest.param([closed_behind(3002, at) for at in (100, 1100, 2100)], id="it never took anything"),
        pytest.param([small(), *(closed_behind(30, at) for at in (100, 1100, 2100))], id="small ones"),
        pytest.param([small(), *(closed_behind(3002, at) for at in (100, 5100, 10_100))], id="nobody comes back soon"),
        pytest.param([fetches(at) for at in (100, 1100, 2100)], id="it was the reply"),
        pytest.param([small(), *(closed_behind(3002, at, after=500) for at in (100, 1100, 2100))], id="later"),
    ],
)
def test_a_peer_that_closes_for_other_reasons_has_no_limit(askers: list[Asker]) -> None:
    assert diagnosed(*askers, rule=RULE) == []
