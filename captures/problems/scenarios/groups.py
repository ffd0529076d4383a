"""Groups of RADIO and DISH. Draft sockets: they are made with a libzmq and a pyzmq that were built with them."""

from __future__ import annotations

import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab, Socket
from captures.problems.scenario import problem, scenario

PORT = 5557
DRAFT = {"made": "pyzmq 27.3.0, libzmq 4.3.6 with draft sockets"}


def radio(lab: Lab) -> Socket:
    return lab.socket(SERVER, zmq.RADIO).bind(PORT)


def dish(lab: Lab, host: str, *groups: str) -> Socket:
    """Return a DISH that has joined these groups."""
    socket = lab.socket(host, zmq.DISH).join(*groups).connect(SERVER, PORT)
    time.sleep(0.3)
    return socket


def publish(sender: Socket, group: str, numbers: range) -> None:
    for number in numbers:
        sender.send_to(group, str(number))
        time.sleep(0.01)


@scenario(
    "DISH joins Prices and pri; RADIO sends to prices, in which another DISH is, and groups have to be equal",
    "10.0.0.2 received nothing, 10.0.0.3 all 20 messages",
    problem("subscription-without-messages", CLIENT, topic="Prices", nearest="prices"),
    problem("subscription-without-messages", CLIENT, topic="pri", nearest="prices"),
    facts=DRAFT,
)
def group_without_messages(lab: Lab) -> None:
    sender, other, socket = radio(lab), dish(lab, OTHER, "prices"), dish(lab, CLIENT, "Prices", "pri")
    publish(sender, "prices", range(20))
    assert len(other.receive_all()) == 20
    assert socket.receive_all() == []


@scenario(
    "RADIO sends prices from the start; one DISH joined in time, the other one joins behind the first 20",
    "10.0.0.2 received all 40 messages, 10.0.0.3 the last ones only",
    problem("late-subscriber", OTHER, topic="prices", sibling=CLIENT, at_least_missed=20),
    facts=DRAFT,
)
def group_joined_late(lab: Lab) -> None:
    sender, early = radio(lab), dish(lab, CLIENT, "prices")
    publish(sender, "prices", range(20))
    late = lab.socket(OTHER, zmq.DISH).join("prices").connect(SERVER, PORT)
    publish(sender, "prices", range(20, 40))
    assert len(early.receive_all()) == 40
    assert 0 < len(late.receive_all()) <= 20


@scenario(
    "DISH connects and its program forgets to join a group",
    "10.0.0.2 received nothing, 10.0.0.3 all 20 messages",
    problem("no-subscription", CLIENT),
    facts=DRAFT,
)
def no_group(lab: Lab) -> None:
    sender, other, mute = radio(lab), dish(lab, OTHER, "prices"), dish(lab, CLIENT)
    time.sleep(1.0)
    publish(sender, "prices", range(20))
    assert len(other.receive_all()) == 20
    assert mute.receive_all() == []


@scenario(
    "two DISHes join before the first message: one prices, the other prices and prices.eu, which comes at the very end",
    "all messages were received",
    near_miss_of="subscription-without-messages",
    facts=DRAFT,
)
def groups_joined_in_time(lab: Lab) -> None:
    sender = radio(lab)
    first, second = dish(lab, CLIENT, "prices"), dish(lab, OTHER, "prices", "prices.eu")
    publish(sender, "prices", range(20))
    publish(sender, "prices.eu", range(1))
    assert len(first.receive_all()) == 20
    assert len(second.receive_all()) == 21


@scenario(
    "DISH is in prices and in no group whose name prices begins with, which RADIO sends to as well",
    "10.0.0.2 received the 20 messages to prices, 10.0.0.3 also those to prices.eu",
    near_miss_of="late-subscriber",
    facts=DRAFT,
)
def group_of_others(lab: Lab) -> None:
    sender, other = radio(lab), dish(lab, OTHER, "prices", "prices.eu")
    publish(sender, "prices.eu", range(20))
    socket = dish(lab, CLIENT, "prices")
    publish(sender, "prices", range(20))
    publish(sender, "prices.eu", range(20))
    assert len(other.receive_all()) == 60
    assert len(socket.receive_all()) == 20
