"""Captures that do not show everything: what is missing in them must not become an accusation."""

from __future__ import annotations

import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab
from captures.problems.octets import keep_packets, source
from captures.problems.scenario import scenario
from captures.problems.scenarios import connections, requests, subscriptions

HOLED = {"whole": False, "received_at_least": 0}
MIDSTREAM = HOLED | {"versions": [], "handshake": "any", "start_captured": False}


def ask_three_times(lab: Lab) -> None:
    lab.process(SERVER, requests.answer, 0.02)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, requests.PORT)
    for question in ("first", "second", "third"):
        client.send(question)
        assert client.receive() is not None
        time.sleep(0.1)
    client.send("fourth")
    assert client.receive() is not None


@scenario(
    "REQ asks four times; the capturing tool lost the packet with the reply to the third request",
    "every request was answered",
    near_miss_of="request-unanswered",
    facts=HOLED,
    change=keep_packets(lambda number, ip: source(ip) != SERVER or b"third" not in ip),
    also_true=["capture-loss"],
)
def reply_not_captured(lab: Lab) -> None:
    ask_three_times(lab)


@scenario(
    "REQ asks four times; only what 10.0.0.2 sent was captured",
    "every request was answered",
    near_miss_of="request-unanswered",
    facts=MIDSTREAM | {"start_captured": True},
    change=keep_packets(lambda number, ip: source(ip) == CLIENT),
    also_true=["one-sided-capture"],
)
def requests_only_captured(lab: Lab) -> None:
    ask_three_times(lab)


@scenario(
    "the capture begins between a request and its reply",
    "every request was answered",
    near_miss_of="reply-to-nobody",
    facts=MIDSTREAM,
    change=keep_packets(lambda number, ip: number > 12),
)
def capture_begins_within_request(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(requests.PORT)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, requests.PORT)
    for number in range(3):
        client.send(f"request {number}")
        request = server.receive()
        assert request is not None
        time.sleep(0.2)
        server.send(request[0], b"", f"reply {number}")
        assert client.receive() is not None


@scenario(
    "SUB asked for prices before the capture began",
    "10.0.0.2 received all 20 messages",
    near_miss_of="no-subscription",
    facts=MIDSTREAM | {"subscriptions": []},
    change=keep_packets(lambda number, ip: number > 20),
)
def subscription_not_captured(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(subscriptions.PORT)
    socket = subscriptions.subscriber(lab, CLIENT, "prices")
    subscriptions.ready(publisher, 1)
    subscriptions.publish(publisher, "prices", range(20), every=0.02)
    assert len(socket.receive_all()) == 20


@scenario(
    "two SUBs of one topic; the capturing tool lost the first ten messages to one of them",
    "both received all 20 messages",
    near_miss_of="late-subscriber",
    facts=HOLED,
    change=keep_packets(lambda number, ip: not (ip[16:20] == bytes([10, 0, 0, 3]) and b"early" in ip)),
    also_true=["capture-loss"],
)
def messages_not_captured(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, xpub_verbose=1).bind(subscriptions.PORT)
    both = [subscriptions.subscriber(lab, host, "prices") for host in (CLIENT, OTHER)]
    subscriptions.ready(publisher, 2)
    for number in range(20):
        publisher.send("prices", f"{'early' if number < 10 else 'later'} {number}")
        time.sleep(0.01)
    assert [len(each.receive_all()) for each in both] == [20, 20]


@scenario(
    "DEALER asks for heartbeats every 200 ms (time-out 600 ms); the capturing tool lost every PONG behind the second",
    "every PING was answered, and when its program had done its work the DEALER closed",
    near_miss_of="heartbeat-timeout",
    facts=HOLED,
    change=keep_packets(lambda number, ip: not (number > 24 and b"\x04PONG" in ip)),
    also_true=["capture-loss"],
)
def pongs_not_captured(lab: Lab) -> None:
    lab.process(SERVER, connections.echo, connections.PORT)
    client = lab.socket(CLIENT, zmq.DEALER, heartbeat_ivl=200, heartbeat_timeout=600)
    client.connect(SERVER, connections.PORT).send("hello")
    assert client.receive() is not None
    time.sleep(1.5)
    client.close()


@scenario(
    "every message was received; the capturing tool lost the five packets with the numbers 10 to 14",
    "no number is missing",
    near_miss_of="sequence-gap",
    facts=HOLED,
    change=keep_packets(lambda number, ip: b"lost on the way to the file" not in ip),
    also_true=["capture-loss"],
)
def sequence_not_captured(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(subscriptions.PORT)
    socket = subscriptions.subscriber(lab, CLIENT, "news")
    subscriptions.ready(publisher, 1)
    for number in range(30):
        body = "lost on the way to the file" if 10 <= number < 15 else "kept"
        publisher.send("news", body.ljust(27), subscriptions.number(number))
        time.sleep(0.02)
    assert len(socket.receive_all()) == 30


@scenario(
    "the only SUB asks for Prices, and PUB sends prices: PUB filters, so nothing of it is on the wire",
    "10.0.0.2 received nothing, and nobody can see what it missed",
    near_miss_of="topic-without-subscriber",
    also_true=["subscription-without-messages"],
)
def wrong_topic_alone(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB).bind(subscriptions.PORT)
    socket = subscriptions.subscriber(lab, CLIENT, "Prices", heartbeat_ivl=300)
    subscriptions.ready(publisher, 1)
    subscriptions.publish(publisher, "prices", range(50), every=0.03)
    assert socket.receive_all() == []


@scenario(
    "DEALER sends five messages without an envelope to a ROUTER, which has nothing to say: these are no requests",
    "all five messages came",
    near_miss_of="request-unanswered",
)
def dealer_without_replies(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(requests.PORT)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, requests.PORT)
    for number in range(5):
        client.send(f"report {number}")
        assert server.receive() is not None
        time.sleep(0.2)


@scenario(
    "the cable of a SUB is pulled; PUB sends again what is not acknowledged, which is not slowness",
    "10.0.0.2 received all messages, 10.0.0.3 those before its cable was pulled",
    near_miss_of="slow-receiver",
    also_true=["peer-departed"],
)
def subscriber_vanished(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.XPUB, xpub_verbose=1).bind(subscriptions.PORT)
    both = [subscriptions.subscriber(lab, host, "prices") for host in (CLIENT, OTHER)]
    subscriptions.ready(publisher, 2)
    subscriptions.publish(publisher, "prices", range(20), every=0.02)
    lab.unplug(OTHER)
    subscriptions.publish(publisher, "prices", range(20, 60), every=0.05)
    assert [len(each.receive_all()) for each in both] == [60, 20]
