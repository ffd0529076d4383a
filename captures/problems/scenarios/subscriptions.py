"""Subscribers that get too little, and publishers that nobody hears."""

from __future__ import annotations

import hashlib
import json
import struct
import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab, Socket
from captures.problems.octets import GREETING, message
from captures.problems.octets import ready as octets_of_ready
from captures.problems.scenario import SCRIPTED, problem, scenario

PORT = 5556


def publish(publisher: Socket, topic: str, numbers: range, every: float = 0.01) -> None:
    for number in numbers:
        publisher.send(topic, str(number))
        time.sleep(every)


def subscriber(lab: Lab, host: str, *topics: str, **options: int) -> Socket:
    return lab.socket(host, zmq.SUB, **options).subscribe(*topics).connect(SERVER, PORT)


def ready(publisher: Socket, subscriptions: int) -> None:
    """Wait until an XPUB has this many more subscriptions."""
    for _ in range(subscriptions):
        assert publisher.receive() is not None


@scenario(
    "PUB sends prices from the start; one SUB is there in time, its sibling's subscription comes behind the first 20",
    "10.0.0.2 received all 40 messages, 10.0.0.3 the last ones only",
    problem("late-subscriber", OTHER, topic="prices", sibling=CLIENT, at_least_missed=20),
)
def late_subscriber(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.PUB).bind(PORT)
    early = subscriber(lab, CLIENT, "prices")
    time.sleep(0.3)
    publish(publisher, "prices", range(20))
    late = subscriber(lab, OTHER, "prices")
    publish(publisher, "prices", range(20, 40))
    assert len(early.receive_all()) == 40
    assert 0 < len(late.receive_all()) <= 20


@scenario(
    "as late-subscriber, and both subscriptions are there, 150 ms apart, before the first message",
    "both received all 20 messages",
    near_miss_of="late-subscriber",
)
def subscribers_in_time(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, xpub_verbose=1).bind(PORT)
    first = subscriber(lab, CLIENT, "prices")
    ready(publisher, 1)
    time.sleep(0.15)
    second = subscriber(lab, OTHER, "prices")
    ready(publisher, 1)
    publish(publisher, "prices", range(20))
    assert len(first.receive_all()) == len(second.receive_all()) == 20


@scenario(
    "a second SUB comes behind 20 messages of another topic; of its own topic none was sent before",
    "10.0.0.3 received all 10 messages of news",
    near_miss_of="late-subscriber",
)
def late_for_another_topic(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    first = subscriber(lab, CLIENT, "prices", "news")
    ready(publisher, 2)
    publish(publisher, "prices", range(20))
    second = subscriber(lab, OTHER, "news")
    time.sleep(0.3)
    publish(publisher, "news", range(10))
    assert len(first.receive_all()) == 30
    assert len(second.receive_all()) == 10


@scenario(
    "the only SUB comes late: PUB filters, so what it missed never was on the wire",
    "the first messages are lost, and nobody can see it",
    near_miss_of="late-subscriber",
)
def late_subscriber_alone(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.PUB).bind(PORT)
    publish(publisher, "prices", range(20))
    late = subscriber(lab, CLIENT, "prices")
    publish(publisher, "prices", range(20, 60))
    assert 0 < len(late.receive_all()) <= 40


def publisher_program(lab: Lab, topics: tuple[str, ...]) -> None:
    publisher = lab.socket(SERVER, zmq.PUB).bind(PORT)
    time.sleep(0.6)
    for number in range(8):
        for topic in topics:
            publisher.send(topic, str(number))
        time.sleep(0.02)


def listen(lab: Lab, *topics: str) -> None:
    """Run a program that reads its messages: libzmq resubscribes after a reconnect only if it does."""
    socket = subscriber(lab, OTHER, *topics)
    while True:
        socket.receive(60)


@scenario(
    "the publisher is killed and started again; SUB's program makes a new socket and forgets one of two topics",
    "prices and alerts came before, only prices after",
    problem("subscription-lost-on-reconnect", CLIENT, topic="alerts"),
    also_true=["peer-departed", "connection-refused"],
)
def subscription_lost_on_reconnect(lab: Lab) -> None:
    topics = ("prices", "alerts")
    lab.process(OTHER, listen, *topics)
    first = lab.process(SERVER, publisher_program, topics)
    socket = subscriber(lab, CLIENT, *topics)
    assert len(socket.receive_all(1.0)) == 16
    lab.kill(first)
    time.sleep(0.2)
    socket.close()
    lab.process(SERVER, publisher_program, topics)
    socket = subscriber(lab, CLIENT, "prices")
    assert len(socket.receive_all(1.0)) == 8


@scenario(
    "the publisher is restarted while SUB's program is busy for 1 s: libzmq subscribes again when that calls into it",
    "10.0.0.3, which reads all the time, has every message behind the restart, 10.0.0.2 none until it reads",
    problem("late-subscriber", CLIENT, topic="prices", sibling=OTHER, at_least_missed=8),
    also_true=["peer-departed", "connection-refused"],
)
def subscription_late_on_reconnect(lab: Lab) -> None:
    lab.process(OTHER, listen, "prices")
    first = lab.process(SERVER, publisher_program, ("prices",))
    socket = subscriber(lab, CLIENT, "prices")
    assert len(socket.receive_all(1.0)) == 8
    lab.kill(first)
    time.sleep(0.2)
    lab.process(SERVER, publisher_program, ("prices",))
    time.sleep(1.0)
    assert socket.receive_all() == []


@scenario(
    "SUB with ten topics and ZMQ_SNDHWM 4: when it connects again, libzmq drops the subscriptions that exceed it",
    "before the restart of the publisher all topics came, after it some did not",
    problem("subscription-lost-on-reconnect", CLIENT, topic="t5"),
    also_true=["peer-departed", "connection-refused"],
)
def subscriptions_over_hwm_lost_on_reconnect(lab: Lab) -> None:
    topics = tuple(f"t{number}" for number in range(10))
    lab.process(OTHER, listen, "")
    first = lab.process(SERVER, publisher_program, topics)
    socket = lab.socket(CLIENT, zmq.SUB, sndhwm=4).connect(SERVER, PORT)
    time.sleep(0.2)
    for topic in topics:
        socket.subscribe(topic)
        socket.receive(0.02)  # libzmq learns in here that there is room again
    before = {frames[0] for frames in socket.receive_all(1.0)}
    lab.kill(first)
    time.sleep(0.2)
    lab.process(SERVER, publisher_program, topics)
    after = {frames[0] for frames in socket.receive_all(1.0)}
    assert len(before) == 10 > len(after)
    assert b"t5" in before - after


@scenario(
    "the publisher is killed and started again, and libzmq subscribes again to both topics",
    "both topics came before and after",
    near_miss_of="subscription-lost-on-reconnect",
    also_true=["peer-departed", "connection-refused"],
)
def subscriptions_kept_on_reconnect(lab: Lab) -> None:
    topics = ("prices", "alerts")
    first = lab.process(SERVER, publisher_program, topics)
    socket = subscriber(lab, CLIENT, *topics)
    assert len(socket.receive_all(1.0)) == 16
    lab.kill(first)
    time.sleep(0.2)
    lab.process(SERVER, publisher_program, topics)
    assert len(socket.receive_all(1.0)) == 16


@scenario(
    "SUB cancels one of two topics, and then the publisher is killed and started again",
    "alerts came until it was cancelled",
    near_miss_of="subscription-lost-on-reconnect",
    also_true=["peer-departed", "connection-refused"],
)
def cancelled_before_reconnect(lab: Lab) -> None:
    topics = ("prices", "alerts")
    first = lab.process(SERVER, publisher_program, topics)
    socket = subscriber(lab, CLIENT, *topics)
    assert len(socket.receive_all(1.0)) == 16
    socket.cancel("alerts")
    time.sleep(0.1)
    lab.kill(first)
    time.sleep(0.2)
    lab.process(SERVER, publisher_program, topics)
    assert len(socket.receive_all(1.0)) == 8


@scenario(
    "SUB asks for Prices and for 'alerts ' with a blank behind it, PUB sends prices and alerts, which a logger gets",
    "10.0.0.2 received nothing, 10.0.0.3 all 20 messages",
    problem("subscription-without-messages", CLIENT, topic="Prices", nearest="prices"),
    problem("subscription-without-messages", CLIENT, topic="alerts ", nearest="alerts"),
)
def subscription_without_messages(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "")
    socket = subscriber(lab, CLIENT, "Prices", "alerts ")
    ready(publisher, 3)
    for number in range(10):
        publisher.send("prices", str(number))
        publisher.send("alerts", str(number))
        time.sleep(0.02)
    assert len(logger.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "SUB asks for prices and for alerts; the only alert comes at the very end",
    "all messages were received",
    near_miss_of="subscription-without-messages",
)
def subscription_answered_late(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    socket = subscriber(lab, CLIENT, "prices", "alerts")
    ready(publisher, 2)
    publish(publisher, "prices", range(50), every=0.03)
    publisher.send("alerts", "fire")
    assert len(socket.receive_all()) == 51


@scenario(
    "SUB asks for prices, and for 1.5 s the publisher has nothing to say to anybody but to answer heartbeats",
    "nothing was sent",
    near_miss_of="subscription-without-messages",
)
def publisher_silent(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    socket = subscriber(lab, CLIENT, "prices", heartbeat_ivl=300)
    ready(publisher, 1)
    assert socket.receive_all(1.5) == []


@scenario(
    "a SUB connects and never subscribes, while its sibling gets 20 messages",
    "10.0.0.2 received nothing, 10.0.0.3 all messages",
    problem("no-subscription", CLIENT, publisher=f"{SERVER}:{PORT}"),
)
def no_subscription(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    silent = lab.socket(CLIENT, zmq.SUB, heartbeat_ivl=300).connect(SERVER, PORT)
    sibling = subscriber(lab, OTHER, "prices")
    ready(publisher, 1)
    publish(publisher, "prices", range(20), every=0.15)
    assert len(sibling.receive_all()) == 20
    assert silent.receive_all() == []


@scenario(
    "a SUB connects and subscribes 400 ms later, before anything is published",
    "both subscribers received all 20 messages",
    near_miss_of="no-subscription",
)
def subscribes_later(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, xpub_verbose=1).bind(PORT)
    sibling = subscriber(lab, OTHER, "prices")
    slow = lab.socket(CLIENT, zmq.SUB).connect(SERVER, PORT)
    time.sleep(0.4)
    slow.subscribe("prices")
    ready(publisher, 2)
    publish(publisher, "prices", range(20))
    assert len(sibling.receive_all()) == len(slow.receive_all()) == 20


@scenario(
    "a C program subscribes to the topic with the NUL behind its string: sizeof where strlen was meant",
    "10.0.0.2 received nothing, the logger on 10.0.0.3 all 20 messages",
    problem("subscription-without-messages", CLIENT, topic="prices\\x00", nearest="prices"),
)
def subscription_with_nul(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "")
    socket = subscriber(lab, CLIENT, "prices\0")
    ready(publisher, 2)
    publish(publisher, "prices", range(20))
    assert len(logger.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "SUB asks for its topics as json.dumps gives them, with quotes, and as a line of a file has them, with its end",
    "10.0.0.2 received nothing, the logger on 10.0.0.3 all 20 messages",
    problem("subscription-without-messages", CLIENT, topic='"prices"', nearest="prices"),
    problem("subscription-without-messages", CLIENT, topic="Alerts\\x0d\\x0a", nearest="alerts"),
)
def subscription_in_quotes(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "")
    socket = subscriber(lab, CLIENT, json.dumps("prices"), "Alerts\r\n")
    ready(publisher, 3)
    publish(publisher, "prices", range(10))
    publish(publisher, "alerts", range(10))
    assert len(logger.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "SUB asks for all topics below sensor1, with the dot behind it, while sensor10 and sensor1x are published",
    "10.0.0.2 received nothing, which is right; the logger on 10.0.0.3 all 20 messages",
    near_miss_of="subscription-without-messages",
)
def subscription_of_quiet_branch(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "")
    socket = subscriber(lab, CLIENT, "sensor1.")
    ready(publisher, 2)
    publish(publisher, "sensor10.temperature", range(10))
    publish(publisher, "sensor1x.temperature", range(10))
    assert len(logger.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "PUB sends one frame of JSON with the topic in it; a message is matched by its first octets, so by the brace",
    "10.0.0.2, which subscribed to prices, received nothing, the logger on 10.0.0.3 all 20 messages",
    problem("subscription-without-messages", CLIENT, topic="prices"),
)
def topic_inside_of_json(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "")
    socket = subscriber(lab, CLIENT, "prices")
    ready(publisher, 2)
    for number in range(20):
        publisher.send('{"topic": "prices", "value": %d}' % number)  # noqa: UP031
        time.sleep(0.01)
    assert len(logger.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "PUB by mistake has ZMQ_INVERT_MATCHING, so it sends what nobody asked for, and SUB drops it",
    "10.0.0.2 asked for prices; prices were kept back, price came over the network and was dropped by libzmq",
    problem("topic-without-subscriber", f"{SERVER}:{PORT}", topic="price", nearest="prices"),
)
def topic_without_subscriber(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, invert_matching=1).bind(PORT)
    socket = subscriber(lab, CLIENT, "prices")
    ready(publisher, 1)
    for number in range(20):
        publisher.send("prices", str(number))
        publisher.send("price", str(number))
        time.sleep(0.01)
    assert socket.receive_all() == []


def hand_written_publisher(lab: Lab, topics: tuple[str, ...], rounds: int) -> None:
    """Run a publisher of ZMTP 3.0 that sends every message to all subscribers."""
    connection = lab.accept(lab.listener(SERVER, PORT))
    connection.sendall(GREETING + octets_of_ready("PUB"))
    time.sleep(0.3)
    for number in range(rounds):
        for topic in topics:
            lab.log("sent", [topic.encode(), str(number).encode()])
            connection.sendall(message(topic, str(number)))
        time.sleep(0.02)


@scenario(
    "a hand-written publisher (ZMTP 3.0) does not filter; SUB asks for Weather, and weather is sent",
    "10.0.0.2 received nothing: libzmq dropped all 20 messages",
    problem("topic-without-subscriber", f"{SERVER}:{PORT}", topic="weather", nearest="Weather"),
    facts=SCRIPTED | {"versions": ["3.0"]},
    also_true=["subscription-without-messages"],
)
def topic_without_subscriber_unfiltered(lab: Lab) -> None:
    lab.process(SERVER, hand_written_publisher, ("weather",), 20)
    time.sleep(0.2)
    assert subscriber(lab, CLIENT, "Weather").receive_all(1.0) == []


@scenario(
    "a hand-written publisher (ZMTP 3.0) does not filter, and SUB asks for a prefix of every topic",
    "10.0.0.2 received all 20 messages",
    near_miss_of="topic-without-subscriber",
    facts=SCRIPTED | {"versions": ["3.0"]},
)
def topics_within_prefix(lab: Lab) -> None:
    lab.process(SERVER, hand_written_publisher, ("weather.berlin", "weather.paris"), 10)
    time.sleep(0.2)
    assert len(subscriber(lab, CLIENT, "weather").receive_all(1.0)) == 20


@scenario(
    "SUB stops reading, then cancels its subscription: what had been sent by then still comes, behind the CANCEL",
    "libzmq dropped what came behind the CANCEL, as nobody wanted it any more",
    near_miss_of="topic-without-subscriber",
    also_true=["slow-receiver"],
)
def messages_under_way_behind_cancel(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    socket = subscriber(lab, CLIENT, "ticks", rcvhwm=5, rcvbuf=4096)
    ready(publisher, 1)
    for value in range(250):
        publisher.send("ticks", f"{value:090}")
    for _ in range(10):
        assert socket.receive() is not None
    socket.cancel("ticks")
    assert socket.receive_all() == []


def number(value: int) -> bytes:
    """Return a last frame of four octets, with which bitcoind numbers its messages."""
    return struct.pack("<I", value)


@scenario(
    "PUB numbers its messages; a burst of 100 exceeds its ZMQ_SNDHWM of 10, and some are dropped",
    "10.0.0.2 received 0 to 9, part of 10 to 109, and 110 to 119",
    problem("sequence-gap", f"{SERVER}:{PORT}", topic="hashblock"),
)
def sequence_gap(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, sndhwm=10).bind(PORT)
    socket = subscriber(lab, CLIENT, "hashblock")
    ready(publisher, 1)
    for value in range(120):
        publisher.send("hashblock", hashlib.sha256(number(value)).digest(), number(value))
        if not 10 <= value < 110:
            time.sleep(0.02)
    assert 20 <= len(socket.receive_all()) < 120


@scenario(
    "PUB numbers its messages, is killed and started again, and begins again at 0",
    "no number is missing within a run of the publisher",
    near_miss_of="sequence-gap",
    also_true=["peer-departed", "connection-refused"],
)
def sequence_begins_again(lab: Lab) -> None:
    def publish_numbers(lab: Lab) -> None:
        publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
        ready(publisher, 1)
        for value in range(20):
            publisher.send("hashblock", hashlib.sha256(number(value)).digest(), number(value))
            time.sleep(0.02)

    first = lab.process(SERVER, publish_numbers)
    socket = subscriber(lab, CLIENT, "hashblock")
    assert len(socket.receive_all(0.6)) == 20
    lab.kill(first)
    lab.process(SERVER, publish_numbers)
    assert len(socket.receive_all(1.0)) == 20


@scenario(
    "PUB counts over two topics, and SUB asks for one of them, so it gets every second number",
    "10.0.0.2 received all 20 messages of its topic",
    near_miss_of="sequence-gap",
)
def sequence_over_two_topics(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    socket = subscriber(lab, CLIENT, "even")
    ready(publisher, 1)
    for value in range(40):
        publisher.send("odd" if value % 2 else "even", b"body", number(value))
        time.sleep(0.01)
    assert len(socket.receive_all()) == 20


def one_after_the_other(lab: Lab, pause: float) -> None:
    """Run two SUBs on one host, the second after the first has closed its socket; a logger receives everything."""
    publisher = lab.socket(SERVER, zmq.XPUB).bind(PORT)
    logger = subscriber(lab, OTHER, "prices")
    first = subscriber(lab, CLIENT, "prices")
    ready(publisher, 1)
    time.sleep(0.2)
    publish(publisher, "prices", range(10))
    assert len(first.receive_all(0.1)) == 10
    first.close()
    publish(publisher, "prices", range(10, 30), every=pause)
    second = subscriber(lab, CLIENT, "prices")
    time.sleep(0.2)
    publish(publisher, "prices", range(30, 40))
    assert len(logger.receive_all()) == 40
    assert len(second.receive_all()) == 10


@scenario(
    "two programs on 10.0.0.2 subscribe to prices, the second 0.6 s after the first one has closed its socket",
    "the first one received 10 messages, the second one the last 10; nobody missed what it waited for",
    near_miss_of="late-subscriber",
)
def subscribers_one_after_the_other(lab: Lab) -> None:
    one_after_the_other(lab, 0.03)
