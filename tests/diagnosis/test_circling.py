"""Messages that circulate between two proxies that subscribe to each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnosis.diagnosing import diagnoses_of
from tests.diagnosis.reading import diagnoses
from tests.diagnosis.talking import CLIENT, SERVER, Talk
from zmtpscope.diagnosis.observers import rounds

RULE = "messages-go-round"


def link(number: int, *bodies: bytes, sender: int, every: float, at: float, client: int = 2, types: str = "X") -> Talk:
    """A connection on which a proxy sends these messages to another proxy, in this rhythm."""
    roles = ("XPUB", "XSUB") if types == "X" else ("PUB", "SUB")
    talk = Talk(number, at=at, port=6000 + number, client=client)
    talk.handshake(*(roles if sender == CLIENT else roles[::-1])).wait(1)
    for body in bodies:
        talk.message(sender, body).wait(every)
    return talk


def circle(*bodies: bytes, every: float = 0.01, **given: int) -> tuple[Talk, Talk]:
    """10.0.0.1 sends them to 10.0.0.2, which sends them back in the middle of the time."""
    there = link(0, *bodies, sender=SERVER, every=every, at=0, **given)
    return there, link(1, *bodies, sender=CLIENT, every=every, at=every / 2, **given)


def test_a_message_that_repeats_on_both_links_circulates() -> None:
    diagnosis = diagnoses_of(*circle(*[b"price"] * 20))[RULE]
    assert diagnosis.statement == (
        "likely: XPUB 10.0.0.1:6000 and XPUB 10.0.0.2 send each other the same message repeatedly: 20 times in "
        "228 ms, since packet 23"
    )
    assert diagnosis.severity == "warn"


def test_a_message_circulates_among_others() -> None:
    others = [b"tick %d" % number for number in range(20)]
    assert RULE in diagnoses_of(*circle(*[each for pair in zip(others, [b"price"] * 20, strict=True) for each in pair]))


@pytest.mark.parametrize(
    "talks",
    [
        pytest.param(circle(*[b"price %d" % number for number in range(20)]), id="different messages"),
        pytest.param(circle(*[b"price"] * 7), id="a few times"),
        pytest.param(circle(*[b"alive"] * 20, every=1.0), id="published anew each second"),
        pytest.param(circle(*[b"price"] * 20, client=1), id="proxies in a row on one host"),
        pytest.param(circle(*[b"price"] * 20)[:1], id="one direction"),
        pytest.param((circle(*[b"price"] * 20)[0], circle(*[b"gold"] * 20)[1]), id="other messages in return"),
        pytest.param(
            (circle(*[b"price"] * 20)[0], link(2, *[b"price"] * 20, sender=SERVER, every=0.01, at=0.005)),
            id="to two subscribers",
        ),
        pytest.param(
            (circle(*[b"price"] * 20)[0], link(1, *[b"price"] * 20, sender=CLIENT, every=0.01, at=1)),
            id="not in turn",
        ),
    ],
)
def test_all_else_does_not(talks: tuple[Talk, ...]) -> None:
    assert RULE not in diagnoses_of(*talks)


def test_the_last_messages_are_remembered_until_one_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MAX_MESSAGES", 4)
    for others, is_named in ((4, False), (3, True)):
        bodies = [*[b"%d" % number for number in range(others)], b"price"] * 9
        assert (RULE in diagnoses_of(*circle(*bodies, every=0.001))) == is_named


def test_two_proxies_that_forward_to_each_other_are_named(captures: Path) -> None:
    """One message of each side was published, and a thousand more were captured within 12 ms."""
    (explained,) = diagnoses(captures / "problems/reported/proxies-in-a-circle.pcap")
    assert explained.diagnosis.rule == RULE
