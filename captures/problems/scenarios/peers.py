"""Peers that do not get on with each other: handshakes, socket types, routing ids, frames that end a connection."""

from __future__ import annotations

import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab
from captures.problems.octets import GREETING, frame, handshake, ready
from captures.problems.scenario import SCRIPTED, problem, scenario
from captures.problems.scenarios.connections import PORT, echo


def silent_listener(lab: Lab, says: bytes) -> None:
    """Run a program that accepts connections, sends these octets, and reads no ZMTP."""
    listener = lab.listener(SERVER, PORT)
    while True:
        lab.accept(listener).sendall(says)


@scenario(
    "10.0.0.1 accepts TCP connections and never speaks; the DEALER gives up after its ZMQ_HANDSHAKE_IVL of 500 ms",
    "four connections, each closed by the DEALER 500 ms after it was made",
    problem("handshake-timeout", f"{SERVER}:{PORT}", asked_by=CLIENT, seconds=0.5),
    facts=SCRIPTED | {"versions": [], "handshake": "none"},
)
def handshake_timeout(lab: Lab) -> None:
    lab.process(SERVER, silent_listener, b"")
    time.sleep(0.2)
    client = lab.socket(CLIENT, zmq.DEALER, handshake_ivl=500).watch().connect(SERVER, PORT)
    assert client.events("DISCONNECTED", count=4) == 4


@scenario(
    "10.0.0.1 sends its greeting and stops; the DEALER gives up after its ZMQ_HANDSHAKE_IVL of 500 ms",
    "four connections, each closed by the DEALER 500 ms after it was made",
    problem("handshake-timeout", f"{SERVER}:{PORT}", asked_by=CLIENT, seconds=0.5),
    facts=SCRIPTED | {"versions": [], "handshake": "none"},
)
def handshake_stops_behind_greeting(lab: Lab) -> None:
    lab.process(SERVER, silent_listener, GREETING)
    time.sleep(0.2)
    client = lab.socket(CLIENT, zmq.DEALER, handshake_ivl=500).watch().connect(SERVER, PORT)
    assert client.events("DISCONNECTED", count=4) == 4


@scenario(
    "10.0.0.1 takes 300 ms for its greeting and 100 ms more for READY, within the ZMQ_HANDSHAKE_IVL of 500 ms",
    "the handshake was completed, and the message came",
    near_miss_of="handshake-timeout",
    facts=SCRIPTED | {"versions": ["3.0"]},
)
def handshake_slow(lab: Lab) -> None:
    listener = lab.listener(SERVER, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, handshake_ivl=500).connect(SERVER, PORT)
    connection = lab.accept(listener)
    time.sleep(0.3)
    connection.sendall(GREETING)
    time.sleep(0.1)
    connection.sendall(ready("DEALER"))
    client.send("hello")
    time.sleep(0.5)
    assert connection.recv(1 << 16).endswith(b"hello")


@scenario(
    "a hand-written client announces a frame of 2^63 octets; libzmq closes, and it tries again",
    "closed three times, each time behind the same frame",
    problem("violating-frame", CLIENT, server=f"{SERVER}:{PORT}", count=3),
    facts=SCRIPTED | {"versions": ["3.0"]},
)
def violating_frame(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    for _ in range(3):
        with lab.connection(CLIENT, SERVER, PORT) as client:
            handshake(client, "DEALER")
            lab.log("sent", [b"a good one"])
            client.sendall(frame("a good one"))
            assert server.receive() is not None
            client.sendall(b"\x02" + (1 << 63).to_bytes(8, "big"))
            while client.recv(1 << 16):
                pass
        time.sleep(0.1)


@scenario(
    "the ROUTER has ZMQ_MAXMSGSIZE 1000, a DEALER sends 2000 octets: libzmq closes, and it connects again",
    "the small messages came, the large ones did not; each of them cost a connection",
    problem("message-too-large", f"{SERVER}:{PORT}", cause="a message of 2000 octets, over its limit", count=3),
    logged=False,
)
def message_over_limit(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    limited = lab.socket(SERVER, zmq.ROUTER, maxmsgsize=1000).bind(PORT + 1)
    client = lab.socket(CLIENT, zmq.DEALER).watch().connect(SERVER, PORT + 1)
    for number in range(3):
        client.send(f"small {number}")
        assert limited.receive() is not None
        client.send("x" * 2000)
        assert client.events("DISCONNECTED", count=1) == 1
        time.sleep(0.3)


@scenario(
    "a large message of 30000 octets in one frame with a length of eight octets: nothing is wrong with it",
    "all three messages came",
    near_miss_of="violating-frame",
)
def large_message(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    for message in ("before", "x" * 30000, "after"):
        client.send(message)
        assert server.receive() is not None


@scenario(
    "two DEALERs on different hosts have the routing id worker-1; the ROUTER knows the first one only",
    "messages of 10.0.0.2 are answered, those of 10.0.0.3 never reached the program",
    problem("identity-collision", OTHER, other=CLIENT, identity="worker-1"),
)
def identity_collision(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    first = lab.socket(CLIENT, zmq.DEALER, routing_id=b"worker-1").connect(SERVER, PORT)
    first.send("from the first")
    assert first.receive() is not None
    second = lab.socket(OTHER, zmq.DEALER, routing_id=b"worker-1").connect(SERVER, PORT)
    for number in range(5):
        first.send(f"from the first {number}")
        second.send(f"from the second {number}")
        assert first.receive() is not None
        assert second.receive(0.2) is None


@scenario(
    "a DEALER with the routing id worker-1 leaves, and another one takes over its name 200 ms later",
    "both were answered",
    near_miss_of="identity-collision",
    also_true=["peer-departed"],
)
def identity_used_again(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    for host in (CLIENT, OTHER):
        client = lab.socket(host, zmq.DEALER, routing_id=b"worker-1").connect(SERVER, PORT)
        client.send(f"from {host}")
        assert client.receive() is not None
        client.close()
        time.sleep(0.2)


@scenario(
    "PUB connects to PULL: the socket types do not fit, and libzmq gives up after READY",
    "nothing was received",
    problem("wrong-pairing", CLIENT, server=f"{SERVER}:{PORT}", types=["PUB", "PULL"]),
    facts={"handshake": "incompatible"},
)
def wrong_pairing(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUB).connect(SERVER, PORT)
    for number in range(5):
        client.send("prices", str(number))
        time.sleep(0.1)
    assert server.receive_all() == []


@scenario(
    "pairings that look wrong and are allowed: DEALER with REP, XSUB with PUB, REQ with ROUTER",
    "all messages came",
    near_miss_of="wrong-pairing",
)
def unusual_pairings(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    asker = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    asker.send("request")
    assert asker.receive() is not None
    rep = lab.socket(SERVER, zmq.REP).bind(PORT + 1)
    dealer = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT + 1)
    dealer.send("", "request")
    assert rep.receive() is not None
    rep.send("reply")
    assert dealer.receive() is not None
    publisher = lab.socket(SERVER, zmq.PUB).bind(PORT + 2)
    xsub = lab.socket(CLIENT, zmq.XSUB).connect(SERVER, PORT + 2)
    xsub.zmq.send(b"\x01news")
    time.sleep(0.3)
    publisher.send("news", "one")
    assert xsub.receive() is not None


@scenario(
    "two PAIRs connect to one: PAIR talks to the first, and gives the second nothing",
    "10.0.0.2 was answered, what 10.0.0.3 sent was never read",
    problem("pair-occupied", OTHER, server=f"{SERVER}:{PORT}", other=CLIENT),
    facts={"handshake": "any"},
    also_true=["peer-departed"],
)
def pair_occupied(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PAIR).bind(PORT)
    first = lab.socket(CLIENT, zmq.PAIR).connect(SERVER, PORT)
    first.send("from the first")
    assert server.receive() is not None
    second = lab.socket(OTHER, zmq.PAIR).connect(SERVER, PORT)
    second.send("from the second")
    assert server.receive(0.5) is None
    server.send("to the first")
    assert first.receive() is not None


@scenario(
    "a PAIR leaves, and another one connects 300 ms later",
    "both were heard",
    near_miss_of="pair-occupied",
    also_true=["peer-departed"],
)
def pair_succeeded(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PAIR).bind(PORT)
    for host in (CLIENT, OTHER):
        client = lab.socket(host, zmq.PAIR).connect(SERVER, PORT)
        client.send(f"from {host}")
        assert server.receive() is not None
        client.close()
        time.sleep(0.3)
