"""A publisher that stops sending to one subscriber, and sends the same topic to others."""

from __future__ import annotations

import pytest

from tests.diagnosis.publishing_traffic import MS, Subscriber, diagnosed
from zmtpscope.capture.segments import ACK, FIN

RULE = "subscriber-passed-over"


def served_until(host: int, times: int, *topics: str, at: int = 0, rests: int = 0) -> Subscriber:
    """A subscriber that gets "beat" five times a second, so often, and then nothing."""
    subscriber = Subscriber(host, at, *topics)
    subscriber.publish(b"beat", b"1", times=times, every=200)
    subscriber.wait(rests * MS)
    subscriber.add(0, ACK)
    return subscriber


def test_a_subscriber_that_gets_nothing_while_another_one_does_is_named() -> None:
    """The host of the publisher was started again, and the first subscriber did not notice."""
    old, new = served_until(2, 20, "", rests=11_000), served_until(3, 40, "beat", at=7000)
    (diagnosis,) = diagnosed(old, new, rule=RULE)
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text.startswith("PUB 10.0.0.1:5556 sent nothing to SUB 10.0.0.2 after packet 28, for 11.")
    assert "while SUB 10.0.0.3 got" in diagnosis.text
    assert "ZMQ_HEARTBEAT_IVL" in diagnosis.hint


def closed_by_publisher() -> Subscriber:
    """The publisher sent FIN, which a stopped subscriber does not answer."""
    subscriber = served_until(2, 20, "")
    subscriber.add(1, FIN | ACK)
    subscriber.wait(11_000 * MS)
    subscriber.add(0, ACK)
    return subscriber


def cancelled() -> Subscriber:
    subscriber = served_until(2, 20, "beat")
    subscriber.cancel("beat")
    subscriber.wait(11_000 * MS)
    subscriber.add(0, ACK)
    return subscriber


@pytest.mark.parametrize(
    "old",
    [
        served_until(2, 20, "beats", rests=11_000),
        served_until(2, 76, ""),
        cancelled(),
        closed_by_publisher(),
        served_until(2, 0, "", rests=15_000),
    ],
    ids=["another topic", "it gets them", "cancelled", "closed", "it never got any"],
)
def test_a_peer_that_asked_for_nothing_of_it_or_gets_it_is_not_passed_over(old: Subscriber) -> None:
    assert diagnosed(old, served_until(3, 40, "beat", at=7000), rule=RULE) == []


def test_a_publisher_that_ceased_skips_no_subscriber() -> None:
    one, other = served_until(2, 20, "", rests=11_000), served_until(3, 20, "", at=10, rests=11_000)
    assert diagnosed(one, other, rule=RULE) == []


def test_a_subscriber_whose_end_the_capture_may_have_lost_is_not_passed_over() -> None:
    old, new = served_until(2, 20, "", rests=11_000), served_until(3, 40, "beat", at=7000)
    del new.packets[20]
    assert diagnosed(old, new, rule=RULE) == []
