"""Messages at another place: another publisher, before a proxy, or another worker."""

from __future__ import annotations

import pytest

from tests.diagnosis.publishing_traffic import MS, Subscriber, diagnosed
from tests.diagnosis.requesting_traffic import Asker
from tests.peer_octets import command, message
from zmtpscope.capture.segments import ACK, FIN

SECONDS = 1000


def waits(subscriber: Subscriber, milliseconds: int) -> Subscriber:
    subscriber.wait(milliseconds * MS)
    subscriber.add(0, ACK)
    return subscriber


# -- a publisher that sends nothing ------------------------------------------------------------------------------------


def served(host: int = 3, times: int = 20) -> Subscriber:
    """Another publisher of the same host publishes "orders" to another subscriber."""
    subscriber = Subscriber(host, 5, "orders", port=5557)
    subscriber.publish(b"orders", b"1", times=times, every=300)
    return subscriber


def test_a_topic_that_another_publisher_has_is_named() -> None:
    (diagnosis,) = diagnosed(
        waits(Subscriber(2, 0, "orders"), 6 * SECONDS), served(), rule="subscription-without-messages"
    )
    assert (diagnosis.severity, diagnosis.certainty) == ("note", "likely")
    assert 'SUB 10.0.0.2 subscribed to "orders" at PUB 10.0.0.1:5556, which sent nothing for' in diagnosis.text
    assert diagnosis.text.endswith("; PUB 10.0.0.1:5557 publishes it")


@pytest.mark.parametrize(
    "others",
    [
        [waits(Subscriber(2, 0, "orders"), 6 * SECONDS), served(host=2)],
        [waits(Subscriber(2, 0, "orders"), 1 * SECONDS), served(times=5)],
        [waits(Subscriber(2, 0, "orderz"), 6 * SECONDS), served()],
        [waits(Subscriber(2, 0, "orders"), 6 * SECONDS)],
    ],
    ids=["the client is connected to both", "a moment only", "another topic", "nobody publishes it"],
)
def test_a_quiet_publisher_is_not_reported(others: list[Subscriber]) -> None:
    assert [
        each.text for each in diagnosed(*others, rule="subscription-without-messages") if "publishes it" in each.text
    ] == []


def test_a_publisher_that_is_quiet_for_long_is_a_note() -> None:
    """The subscription may be wrong, or there was nothing to publish: no capture shows which."""
    subscribers = [waits(Subscriber(2, 0, "orders"), 12 * SECONDS), waits(Subscriber(3, 500, "trades"), 12 * SECONDS)]
    (diagnosis,) = diagnosed(*subscribers, rule="subscription-without-messages")
    assert diagnosis.severity == "note"
    assert diagnosis.text.startswith(
        'SUB 10.0.0.2 subscribed to "orders" at PUB 10.0.0.1:5556, which sent nothing for 12'
    )
    assert diagnosis.text.endswith(" s to any subscriber")


@pytest.mark.parametrize(
    "subscriber",
    [waits(Subscriber(2, 0, "orders"), 6 * SECONDS), waits(Subscriber(2, 0, ""), 12 * SECONDS)],
    ids=["a shorter time", "a subscription to everything"],
)
def test_a_publisher_may_have_nothing_to_publish(subscriber: Subscriber) -> None:
    assert diagnosed(subscriber, rule="subscription-without-messages") == []


def speaking(host: int = 4) -> Subscriber:
    """The first publisher publishes "trades" to another subscriber."""
    subscriber = Subscriber(host, 10, "trades")
    subscriber.publish(b"trades", b"1", times=20, every=300)
    return subscriber


def test_a_topic_of_another_publisher_is_named_beside_topics_of_this_one() -> None:
    (diagnosis,) = diagnosed(
        waits(Subscriber(2, 0, "orders"), 6 * SECONDS), speaking(), served(), rule="subscription-without-messages"
    )
    assert (diagnosis.severity, diagnosis.hint.partition(";")[0]) == (
        "note",
        "if the other publisher is meant, connect to 10.0.0.1:5557",
    )
    assert diagnosis.text.endswith("none of 20 messages begins with it; PUB 10.0.0.1:5557 publishes it")


def test_one_socket_subscribes_at_each_publisher_that_it_is_connected_to() -> None:
    talks = [waits(Subscriber(2, 0, "orders"), 6 * SECONDS), speaking(), served(host=2)]
    assert diagnosed(*talks, rule="subscription-without-messages") == []


# -- a proxy that forwards messages only -------------------------------------------------------------------------------


def behind(host: int = 2) -> Subscriber:
    return waits(Subscriber(host, 0, "k", types=("SUB", "XPUB")), 4 * SECONDS)


def in_front(*, forwards: bool) -> Subscriber:
    publisher = Subscriber(3, 5, types=("PUB", "XSUB"), port=5557)
    if forwards:
        publisher.send(1, command("NULL", "SUBSCRIBE", topic="k"))
    return waits(publisher, 4 * SECONDS)


def test_a_proxy_that_passes_no_subscription_on_is_named() -> None:
    (diagnosis,) = diagnosed(behind(), in_front(forwards=False), rule="subscriptions-not-forwarded")
    assert (diagnosis.severity, diagnosis.certainty) == ("warn", "likely")
    assert diagnosis.text == (
        'The proxy XPUB 10.0.0.1:5556 forwards no subscription: SUB 10.0.0.2 subscribed to "k" there, and XSUB '
        "10.0.0.1:5557 subscribed to nothing at PUB 10.0.0.3"
    )


@pytest.mark.parametrize(
    "talks",
    [
        [behind(), in_front(forwards=True)],
        [waits(Subscriber(2, 0, types=("SUB", "XPUB")), 4 * SECONDS), in_front(forwards=False)],
        [waits(Subscriber(2, 3600, "k", types=("SUB", "XPUB")), 100), in_front(forwards=False)],
    ],
    ids=["it forwards", "nobody subscribed", "it had no time"],
)
def test_a_proxy_that_has_nothing_to_pass_on_or_does_is_not(talks: list[Subscriber]) -> None:
    assert diagnosed(*talks, rule="subscriptions-not-forwarded") == []


# -- workers that come when all is given out ---------------------------------------------------------------------------


def worker(host: int, at: int, messages: int, stays: int, every: int = 1) -> Asker:
    pull = Asker(("PULL", "PUSH"), host=host, at=at)
    for _ in range(messages):
        pull.send(1, message(b"task"))
        pull.pause(every - 1)
    pull.pause(stays)
    pull.add(0, FIN | ACK)
    pull.add(1, FIN | ACK)
    return pull


def test_a_worker_that_left_when_all_was_given_out_had_its_share_too() -> None:
    (diagnosis,) = diagnosed(worker(2, 0, 100, 20_000), worker(3, 300, 0, 5000), rule="unbalanced-push")
    assert (
        "PULL 10.0.0.3 0, which connected 300 ms later: the messages sent until then went to others"
    ) in diagnosis.text


def test_a_worker_that_left_while_more_arrived_is_not_compared() -> None:
    busy = worker(2, 0, 100, 5000, every=50)
    assert diagnosed(busy, worker(3, 5, 0, 10), rule="unbalanced-push") == []


# -- a broker whose worker left ----------------------------------------------------------------------------------------


def brokered(*, leaves: bool, workers: int = 1) -> list[Asker]:
    """A REQ asks a broker, which hands its requests to a DEALER; that leaves before the last one."""
    client = Asker(("REQ", "ROUTER"), 2)
    at_work = [Asker(("DEALER", "ROUTER"), 3 + number, 5 + number, port=5556) for number in range(workers)]
    for _ in range(6):
        client.ask(b"work")
        for worker in at_work:
            worker.send(1, message(b"work"))
            worker.send(0, message(b"done"))
        client.pause(10)
        client.answer(b"done")
        for each in (client, *at_work):
            each.pause(500)
    client.ask(b"work")
    if leaves:
        at_work[0].add(0, FIN | ACK)
        at_work[0].add(1, FIN | ACK)
    for each in (client, *at_work[leaves:]):
        each.pause(8 * SECONDS)
        each.add(1, ACK)
    return [client, *at_work]


def test_a_broker_whose_only_worker_left_is_not_to_blame() -> None:
    (diagnosis,) = diagnosed(*brokered(leaves=True), rule="request-unanswered")
    assert diagnosis.text.endswith(
        "; DEALER 10.0.0.3, to which it had sent 6 messages, closed its connection 55 ms earlier, and no other one is "
        "there"
    )
    assert diagnosis.hint.startswith("find out why that worker left, and restart it")


@pytest.mark.parametrize("talks", [brokered(leaves=False), brokered(leaves=True, workers=2)], ids=["stays", "another"])
def test_a_broker_that_has_a_worker_hangs_itself(talks: list[Asker]) -> None:
    (diagnosis,) = diagnosed(*talks, rule="request-unanswered")
    assert "worker" not in diagnosis.hint


def through_a_proxy(*, stops: bool, wanted: str = "k") -> tuple[Subscriber, Subscriber]:
    """A PUB that connects to an XSUB, and the messages of the XPUB of the same host to a SUB."""
    publisher = Subscriber(3, 5, types=("PUB", "XSUB"), port=5557)
    publisher.send(1, message(b"\x01k"))
    subscriber = Subscriber(2, 0, wanted, types=("SUB", "XPUB"))
    for at in range(100, 8000, 100):
        publisher.at(at)
        publisher.send(0, message(b"k", b"body"))
        if not stops or at < 3000:
            subscriber.at(at)
            subscriber.publish(b"k", b"body")
    return publisher, subscriber


def test_a_proxy_that_stops_is_named_with_what_it_got_meanwhile() -> None:
    (diagnosis,) = diagnosed(*through_a_proxy(stops=True), rule="proxy-drops")
    assert diagnosis.severity == "warn"
    assert diagnosis.statement.startswith("likely: The proxy XPUB 10.0.0.1:5556 sent nothing after packet")
    assert diagnosis.text.endswith("though it got 40 messages since to which SUB 10.0.0.2 is subscribed")


def test_a_proxy_had_stopped_even_if_its_subscriber_has_left() -> None:
    publisher, subscriber = through_a_proxy(stops=True)
    subscriber.at(7950)
    subscriber.close()
    (diagnosis,) = diagnosed(publisher, subscriber, rule="proxy-drops")
    assert diagnosis.text.endswith("though it got 40 messages since to which SUB 10.0.0.2 is subscribed")


def test_a_proxy_that_forwards_is_not() -> None:
    assert diagnosed(*through_a_proxy(stops=False), rule="proxy-drops") == []


def test_nor_one_whose_subscriber_cancelled() -> None:
    publisher, subscriber = through_a_proxy(stops=True)
    subscriber.at(3000)
    subscriber.cancel("k")
    assert diagnosed(publisher, subscriber, rule="proxy-drops") == []
