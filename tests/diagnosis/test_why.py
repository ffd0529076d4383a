"""Reasons why each message of a topic arrived at a peer or not, as far as they can be known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.diagnosis.publishing_traffic import Subscriber
from tests.readings import run
from tests.traffic import Capture, Conversation, together
from zmtpscope.capture import open_captures
from zmtpscope.capture.segments import ACK, FIN
from zmtpscope.diagnosis.across.why import Answer, TopicSearch, answers
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.dissect import Analyser, Options

PROBLEMS = "problems"


def _ask(capture: object, topic: bytes, peer: str) -> list[Answer]:
    derivation, search = Derivation(), TopicSearch(topic)
    for batch in Analyser(Options(bodies="none")).run(capture):  # type: ignore[arg-type]
        derivation.feed(batch)
        search.feed(batch)
    return list(answers(search, derivation.knowledge(), peer))


def _of(path: Path, topic: bytes, peer: str) -> list[tuple[int, int, str]]:
    (answer,) = _ask(open_captures([str(path)]), topic, peer)
    return [(each.first, each.last, each.reason.text) for each in answer.ranges]


def _scripted(*connections: Conversation) -> Capture:
    return Capture(together(*connections), 50)


@pytest.mark.parametrize(
    ("name", "topic", "peer", "expected"),
    [
        ("late-subscriber", b"prices", "10.0.0.3", [(1, 21, "not connected before"), (22, 40, "came")]),
        (
            "subscription-late-on-reconnect",
            b"prices",
            "10.0.0.2",
            [(1, 8, "came"), (9, 16, 'not subscribed to "prices" before')],
        ),
        (
            "subscription-lost-on-reconnect",
            b"alerts",
            "10.0.0.2",
            [(1, 8, "came"), (9, 16, "not subscribed to it on the connection that began")],
        ),
    ],
)
def test_each_message_has_its_reason(
    captures: Path, name: str, topic: bytes, peer: str, expected: list[tuple[int, int, str]]
) -> None:
    assert _of(captures / PROBLEMS / f"{name}.pcap", topic, peer) == expected


def test_a_closed_window_is_named_where_messages_did_not_arrive(captures: Path) -> None:
    came, *lost = _of(captures / PROBLEMS / "slow-receiver-recovers.pcap", b"ticks", "10.0.0.3")
    assert came[2] == "came"
    assert any("the receive window of the peer was closed" in text for _, _, text in lost)


def test_a_message_before_one_that_arrived_was_dropped() -> None:
    numbers = range(10)
    both, some = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    for number in numbers:
        for subscriber in (both, some):
            subscriber.at(100 + 10 * number)
            if subscriber is both or number not in (4, 5, 9):
                subscriber.publish(b"a", b"%d" % number)
    (answer,) = _ask(_scripted(both, some), b"a", "10.0.0.3")
    texts = [(each.first, each.last, each.reason.text.partition(" (")[0]) for each in answer.ranges]
    assert texts == [
        (1, 4, "came"),
        (5, 6, "dropped by the publisher"),
        (7, 9, "came"),
        (10, 10, "did not arrive before the capture or the connection ended: dropped, or still queued"),
    ]


def _reasons(*connections: Conversation, topic: bytes = b"a") -> list[tuple[int, int, str]]:
    (answer,) = _ask(_scripted(*connections), topic, "10.0.0.3")
    return [(each.first, each.last, each.reason.text) for each in answer.ranges]


def _both(*subscribers: Subscriber, first: int, last: int) -> None:
    """Send messages `first`..`last`, one every 10 ms, to all subscribers."""
    for number in range(first, last + 1):
        for subscriber in subscribers:
            subscriber.at(90 + 10 * number)
            subscriber.publish(b"a", b"%d" % number)


def test_a_peer_that_returns_had_no_connection_from_the_first_fin_on() -> None:
    """The publisher closes, and its FIN is never answered; later messages would be on no connection."""
    whole, before = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    _both(whole, before, first=1, last=4)
    before.add(1, FIN | ACK)
    _both(whole, first=5, last=8)
    before.at(165)
    before.reset(0)
    after = Subscriber(3, 170, "a")
    _both(whole, after, first=11, last=12)
    assert _reasons(whole, before, after) == [
        (1, 4, "came"),
        (5, 8, "not connected again before"),
        (9, 10, "came"),
    ]


def test_messages_of_a_later_connection_prove_nothing_about_the_queue_of_an_earlier_one() -> None:
    whole, before = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    _both(whole, before, first=1, last=2)
    _both(whole, first=3, last=4)
    before.at(140)
    before.close()
    after = Subscriber(3, 150, "a")
    _both(whole, after, first=9, last=10)
    assert _reasons(whole, before, after)[1] == (
        3,
        4,
        "did not arrive before the capture or the connection ended: dropped, or still queued",
    )


def test_messages_lost_after_the_last_one_have_one_reason() -> None:
    """The receiver closes its window repeatedly."""
    whole, slow = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    _both(whole, slow, first=1, last=2)
    _both(whole, first=3, last=40)
    for begin in (150, 250, 350):
        slow.at(begin)
        slow.close_window(0)
        slow.at(begin + 50)
        slow.open_window(0)
    came, lost = _reasons(whole, slow)
    assert (came, lost[:2]) == ((1, 2, "came"), (3, 40))
    assert lost[2] == "dropped, or it waits: the receive window of the peer was closed for 150 ms in 3 stretches from"


@pytest.mark.parametrize(
    ("subscription", "text"),
    [
        ("ab\n", "the subscription of the peer is longer than this topic, and these do not begin with it"),
        ("abc", "dropped, or still queued"),
    ],
)
def test_a_subscription_that_is_longer_than_the_topic_is_compared_with_the_messages(
    subscription: str, text: str
) -> None:
    whole, longer = Subscriber(2, 0, "a"), Subscriber(3, 0, subscription)
    for number in range(3):
        whole.at(100 + 10 * number)
        whole.publish(b"abc", b"%d" % number)
    longer.at(200)
    longer.acknowledge(0)
    ((first, last, reason),) = _reasons(whole, longer)
    assert (first, last) == (1, 3)
    assert text in reason


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)), min_size=1, max_size=30))
def test_every_message_of_both_is_counted_once(messages: list[tuple[bool, bool, int]]) -> None:
    one, other = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    for place, (is_for_one, is_for_other, content) in enumerate(messages):
        for subscriber, is_sent in ((one, is_for_one), (other, is_for_other)):
            subscriber.at(100 + 600 * place)
            if is_sent:
                subscriber.publish(b"a", b"%d" % content)
    (answer,) = _ask(_scripted(one, other), b"a", "10.0.0.3")
    came = sum(each.last - each.first + 1 for each in answer.ranges if each.reason.came)
    assert came == sum(is_for_other for _, is_for_other, _ in messages)
    assert answer.messages >= max(came, sum(is_for_one for is_for_one, _, _ in messages))
    assert answer.messages == answer.ranges[-1].last if answer.ranges else not came


def test_octets_that_are_missing_are_no_accusation() -> None:
    both, some = Subscriber(2, 0, "a"), Subscriber(3, 0, "a")
    for number in range(6):
        for subscriber in (both, some):
            subscriber.at(100 + 10 * number)
            subscriber.publish(b"a", b"%d" % number)
    some.acknowledge(0)
    del some.packets[-4]
    (answer,) = _ask(_scripted(both, some), b"a", "10.0.0.3")
    assert [each.reason.text for each in answer.ranges if not each.reason.came] == [
        "unknown: octets of its connection are missing from the capture"
    ]


def test_the_command_answers_in_json_a_line_for_each_stretch(captures: Path) -> None:
    path = str(captures / PROBLEMS / "late-subscriber.pcap")
    early, late = map(json.loads, run("check", path, "--why", "prices@10.0.0.3", "--json").stdout.splitlines())
    assert (early["topic"], early["publisher"], early["messages"], early["received"]) == (
        "prices",
        "PUB 10.0.0.1:5556",
        40,
        19,
    )
    assert (early["first"], early["last"], early["came"], early["begin"]["packet"]) == (1, 21, False, 14)
    assert (early["why"], early["decided"]["packet"]) == ("not connected before", 45)
    assert (late["first"], late["last"], late["came"], late["decided"]) == (22, 40, True, None)
    nobody = run("check", path, "--why", "prices@nobody", "--json")
    assert (nobody.stdout, b"subscribers are 10.0.0.2, 10.0.0.3" in nobody.stderr) == (b"", True)


def test_the_command_answers_in_lines(captures: Path) -> None:
    path = str(captures / PROBLEMS / "late-subscriber.pcap")
    printed = run("check", path, "--why", "prices@10.0.0.3").stdout.decode()
    assert '"prices" from PUB 10.0.0.1:5556 to SUB 10.0.0.3' in printed
    assert "messages 1..21" in printed
    assert "subscribers are 10.0.0.2, 10.0.0.3" in run("check", path, "--why", "prices@nobody").stdout.decode()
    for arguments in (["--why", "prices"], ["--why", "prices@10.0.0.3", "--fail-on", "warn"]):
        assert run("check", path, *arguments).returncode == 2
