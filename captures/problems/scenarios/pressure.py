"""Receivers that are slower than their senders."""

from __future__ import annotations

import contextlib
import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab, Socket
from captures.problems.scenario import problem, scenario

PORT = 5556
SMALL = {"rcvhwm": 5, "rcvbuf": 4096}
"""Options with which the buffers of a receiver are full soon."""


def flood(publisher: Socket, messages: int, every: float = 0.002) -> None:
    for number in range(messages):
        publisher.send("ticks", f"{number:0120}")
        time.sleep(every)


@scenario(
    "PUB (ZMQ_SNDHWM 10) sends 300 messages to two SUBs; the program on 10.0.0.3 stops reading after ten of them",
    "10.0.0.2 received all; the window of 10.0.0.3 closed, and PUB dropped for it what did not fit",
    problem("slow-receiver", OTHER, sibling=CLIENT, topic="ticks"),
)
def slow_receiver(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.PUB, sndhwm=10, sndbuf=4096).bind(PORT)
    fast = lab.socket(CLIENT, zmq.SUB).subscribe("ticks").connect(SERVER, PORT)
    slow = lab.socket(OTHER, zmq.SUB, **SMALL).subscribe("ticks").connect(SERVER, PORT)
    time.sleep(0.3)
    flood(publisher, 10)
    assert len(slow.receive_all()) == 10
    flood(publisher, 290)
    assert len(fast.receive_all()) == 300


@scenario(
    "as slow-receiver, but in the end the program on 10.0.0.3 reads all that is left",
    "10.0.0.2 received all 300 messages, 10.0.0.3 fewer than 200",
    problem("slow-receiver", OTHER, sibling=CLIENT, topic="ticks"),
)
def slow_receiver_recovers(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.PUB, sndhwm=10, sndbuf=4096).bind(PORT)
    fast = lab.socket(CLIENT, zmq.SUB).subscribe("ticks").connect(SERVER, PORT)
    slow = lab.socket(OTHER, zmq.SUB, **SMALL).subscribe("ticks").connect(SERVER, PORT)
    time.sleep(0.3)
    flood(publisher, 300)
    assert len(fast.receive_all()) == 300
    assert len(slow.receive_all()) < 200


@scenario(
    "as slow-receiver, but the program on 10.0.0.3 only pauses: its window closes for a moment, and nothing is dropped",
    "both received all 100 messages",
    near_miss_of="slow-receiver",
    also_true=["slow-receiver"],
)
def receiver_pauses(lab: Lab) -> None:
    publisher = lab.socket(SERVER, zmq.PUB, sndbuf=4096).bind(PORT)
    fast = lab.socket(CLIENT, zmq.SUB).subscribe("ticks").connect(SERVER, PORT)
    slow = lab.socket(OTHER, zmq.SUB, **SMALL).subscribe("ticks").connect(SERVER, PORT)
    time.sleep(0.3)
    flood(publisher, 100)
    assert len(slow.receive_all()) == len(fast.receive_all()) == 100


@scenario(
    "PUSH sends 60 messages of 1000 octets to a PULL that takes two at a time and naps for 0.1 s in between",
    "all 60 messages were received; the window closed again and again",
    near_miss_of="slow-receiver",
    also_true=["slow-receiver"],
)
def receiver_naps(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH, sndhwm=1, sndbuf=4096).bind(PORT)
    receiver = lab.socket(OTHER, zmq.PULL, rcvhwm=1, rcvbuf=4096).connect(SERVER, PORT)
    lab.thread(lambda: [sender.send(f"{number:01000}") for number in range(60)])
    for _ in range(30):
        time.sleep(0.1)
        assert receiver.receive()
        assert receiver.receive()


def never_receive(lab: Lab) -> None:
    lab.socket(OTHER, zmq.PULL, **SMALL).connect(SERVER, PORT)


@scenario(
    "PULL receives nothing; when its window has been closed for half a second, its process is killed",
    "PUSH could not send for half a second, then the connection was reset",
    near_miss_of="message-too-large",
    also_true=["slow-receiver", "peer-departed"],
)
def receiver_killed_while_full(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH, sndbuf=4096).bind(PORT)
    receiver = lab.process(OTHER, never_receive)
    for number in range(100):
        sender.send(f"{number:0120}")
    time.sleep(0.7)
    lab.kill(receiver)


@scenario(
    "PUSH (ZMQ_SNDHWM 10) sends to a PULL whose program stops reading behind ten messages",
    "the window of the PULL closed, and the PUSH could not send any more",
    problem("push-blocked", OTHER, sender=f"{SERVER}:{PORT}"),
    also_true=["slow-receiver"],
)
def push_blocked(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH, sndhwm=10, sndbuf=4096).bind(PORT)
    receiver = lab.socket(OTHER, zmq.PULL, **SMALL).connect(SERVER, PORT)
    for number in range(10):
        sender.send(f"{number:0120}")
        assert receiver.receive() is not None
    with contextlib.suppress(zmq.Again):
        for number in range(1000):
            sender.zmq.sndtimeo = 3000
            sender.send(f"{number:0120}")


@scenario(
    "PUSH waits 1 s between two bursts, which its PULL reads at once",
    "all 40 messages came",
    near_miss_of="push-blocked",
)
def push_pauses(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH).bind(PORT)
    receiver = lab.socket(OTHER, zmq.PULL).connect(SERVER, PORT)
    for burst in range(2):
        for number in range(20):
            sender.send(f"burst {burst}, message {number}")
        assert len(receiver.receive_all()) == 20
        time.sleep(0.7)


@scenario(
    "PUSH binds and sends 200 messages; one PULL was there from the start, the other comes when 190 are gone",
    "10.0.0.2 got 195 messages, 10.0.0.3 five",
    problem("unbalanced-push", CLIENT, sibling=OTHER),
)
def unbalanced_push(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH).bind(PORT)
    first = lab.socket(CLIENT, zmq.PULL).connect(SERVER, PORT)
    for number in range(190):
        sender.send(f"task {number}")
        time.sleep(0.002)
    second = lab.socket(OTHER, zmq.PULL).connect(SERVER, PORT)
    time.sleep(0.3)
    for number in range(190, 200):
        sender.send(f"task {number}")
        time.sleep(0.002)
    assert len(first.receive_all()) == 195
    assert len(second.receive_all()) == 5


@scenario(
    "two PULLs are there from the start and take turns, 100 messages in all",
    "10.0.0.2 and 10.0.0.3 got 50 messages each",
    near_miss_of="unbalanced-push",
)
def balanced_push(lab: Lab) -> None:
    sender = lab.socket(SERVER, zmq.PUSH).bind(PORT)
    first = lab.socket(CLIENT, zmq.PULL).connect(SERVER, PORT)
    second = lab.socket(OTHER, zmq.PULL).connect(SERVER, PORT)
    time.sleep(0.3)
    for number in range(100):
        sender.send(f"task {number}")
        time.sleep(0.002)
    assert len(first.receive_all()) == len(second.receive_all()) == 50


def proxy(lab: Lab, upstream: int, **options: int) -> None:
    """Run an XSUB or SUB and an XPUB on 10.0.0.3 that forward the messages of a publisher."""
    back = lab.socket(OTHER, zmq.XPUB, **options).bind(PORT)
    front = lab.socket(OTHER, upstream)
    if upstream == zmq.SUB:
        front.subscribe("")
    front.connect(SERVER, PORT)
    zmq.proxy(front.zmq, back.zmq)


def behind_proxy(lab: Lab, upstream: int, messages: int, topics: tuple[str, ...], **options: int) -> Socket:
    """Run a publisher, the proxy, and a subscriber of ticks behind it; all messages are sent at once."""
    publisher = lab.socket(SERVER, zmq.XPUB, sndhwm=0).bind(PORT)
    lab.process(OTHER, proxy, upstream, **options)
    time.sleep(0.3)
    socket = lab.socket(CLIENT, zmq.SUB, rcvhwm=0).subscribe("ticks").connect(OTHER, PORT)
    assert publisher.receive() is not None
    time.sleep(0.3)
    for number in range(messages):
        publisher.send(topics[number % len(topics)], f"{number:020}")
    return socket


@scenario(
    "an XSUB/XPUB proxy on 10.0.0.3 has ZMQ_SNDHWM 5 towards its subscribers, and the publisher sends 300 at once",
    "the proxy got all 300 messages, the subscriber behind it fewer",
    problem("proxy-drops", OTHER, publisher=f"{SERVER}:{PORT}", subscriber=CLIENT, topic="ticks"),
)
def proxy_drops(lab: Lab) -> None:
    assert len(behind_proxy(lab, zmq.XSUB, 300, ("ticks",), sndhwm=5).receive_all()) < 300


@scenario(
    "as proxy-drops, but the proxy has the ZMQ_SNDHWM that libzmq gives it",
    "all 300 messages came through",
    near_miss_of="proxy-drops",
)
def proxy_passes_everything(lab: Lab) -> None:
    assert len(behind_proxy(lab, zmq.XSUB, 300, ("ticks",)).receive_all()) == 300


@scenario(
    "a forwarder gets everything (SUB with an empty topic), and its subscriber wants one topic of three",
    "the forwarder got 300 messages, the subscriber the 100 that it wanted",
    near_miss_of="proxy-drops",
)
def proxy_filters(lab: Lab) -> None:
    assert len(behind_proxy(lab, zmq.SUB, 300, ("ticks", "news", "alerts")).receive_all()) == 100
