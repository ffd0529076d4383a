"""Connections that do not come about, and those that do not last."""

from __future__ import annotations

import contextlib
import signal
import socket as sockets
import struct
import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, THIRD, Lab
from captures.problems.octets import keep_packets, source
from captures.problems.scenario import SCRIPTED, problem, scenario

PORT = 5555
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with which TCP closes with RST."""
NOT_ZMTP = {"versions": [], "handshake": "not ZMTP"}


def echo(lab: Lab, port: int, **options: int) -> None:
    """Send every message back."""
    server = lab.socket(SERVER, zmq.ROUTER, **options).bind(port)
    while True:
        message = server.receive(60)
        if message is not None:
            server.send(*message)


@scenario(
    "ROUTER answers heartbeats of a DEALER (every 200 ms, time-out 600 ms) until its process is stopped (SIGSTOP)",
    "600 ms behind its first PING without a PONG the DEALER closed the connection, and connected again to the kernel",
    problem("heartbeat-timeout", f"{SERVER}:{PORT}", asked_by=CLIENT, timeout_ms=600),
    facts={"handshake": "any", "versions": []},
    also_true=["handshake-timeout"],
)
def heartbeat_timeout(lab: Lab) -> None:
    server = lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, heartbeat_ivl=200, heartbeat_timeout=600).watch().connect(SERVER, PORT)
    client.send("hello")
    assert client.receive() is not None
    time.sleep(1.0)
    lab.kill(server, signal.SIGSTOP)
    assert client.events("DISCONNECTED", count=1, within=3) == 1
    time.sleep(1.0)


@scenario(
    "as heartbeat-timeout, but the process of the ROUTER is stopped for 300 ms only",
    "the PONG came late and in time, and the connection lived on",
    near_miss_of="heartbeat-timeout",
)
def heartbeat_answered_late(lab: Lab) -> None:
    server = lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, heartbeat_ivl=200, heartbeat_timeout=600).connect(SERVER, PORT)
    client.send("hello")
    assert client.receive() is not None
    time.sleep(0.7)
    lab.kill(server, signal.SIGSTOP)
    time.sleep(0.3)
    lab.kill(server, signal.SIGCONT)
    time.sleep(0.7)
    client.send("still there")
    assert client.receive() is not None


@scenario(
    "DEALER tries to connect to port 5599, where nobody listens; the ROUTER is on 5555",
    "14 attempts, every one refused",
    problem("connection-refused", f"{SERVER}:5599", tried_by=CLIENT, count=14),
    facts=NOT_ZMTP,
)
def connection_refused(lab: Lab) -> None:
    lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200).watch().connect(SERVER, 5599)
    assert client.events("CONNECT_RETRIED", count=14) == 14
    client.close()


@scenario(
    "DEALER tries to connect, and the ROUTER is started 700 ms later",
    "connected as soon as somebody listened",
    near_miss_of="connection-refused",
)
def server_started_later(lab: Lab) -> None:
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200).connect(SERVER, PORT)
    client.send("hello")
    time.sleep(0.7)
    lab.process(SERVER, echo, PORT)
    assert client.receive(3) is not None


def relay(lab: Lab, lives: list[float]) -> None:
    """Run a load balancer on OTHER: connections to its port are forwarded to the server, and reset after this many
    seconds."""
    listener = lab.listener(OTHER, PORT)
    for life in lives:
        client, _ = listener.accept()
        server = lab.connection(OTHER, SERVER, PORT)
        end = time.monotonic() + life
        client.setblocking(False)
        server.setblocking(False)
        while time.monotonic() < end:
            for one, other in ((client, server), (server, client)):
                with contextlib.suppress(BlockingIOError):
                    other.sendall(one.recv(1 << 16))
            time.sleep(0.002)
        for each in (client, server):
            each.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, RESET)
            each.close()


@scenario(
    "a load balancer on 10.0.0.3 between DEALER and ROUTER resets every connection 1.5 s after it was made",
    "the DEALER lost its connection four times, 1.5 s after each start, and connected again at once",
    problem("periodic-disconnect", OTHER, seconds=1.5, count=4),
    also_true=["peer-departed"],
)
def periodic_disconnect(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    lab.process(OTHER, relay, [1.5] * 4 + [60.0])
    client = lab.socket(CLIENT, zmq.DEALER).watch().connect(OTHER, PORT)
    for number in range(4):
        client.send(f"message {number}")
        assert client.receive() is not None
        assert client.events("DISCONNECTED", count=1) == 1
    time.sleep(0.5)


@scenario(
    "as periodic-disconnect, but the connections last 0.3, 2.1, 0.9 and 1.4 s",
    "the DEALER lost its connection four times, without a period",
    problem("peer-departed", OTHER, count=4),
    near_miss_of="periodic-disconnect",
)
def disconnects_without_period(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    lab.process(OTHER, relay, [0.3, 2.1, 0.9, 1.4, 60.0])
    client = lab.socket(CLIENT, zmq.DEALER).watch().connect(OTHER, PORT)
    for number in range(4):
        client.send(f"message {number}")
        assert client.receive() is not None
        assert client.events("DISCONNECTED", count=1) == 1
    time.sleep(0.5)


@scenario(
    "a firewall drops what is sent to 10.0.0.1; the DEALER has ZMQ_CONNECT_TIMEOUT 1200 ms",
    "three attempts, none was answered",
    problem("connection-unanswered", f"{SERVER}:{PORT}", tried_by=CLIENT, count=3),
    facts=NOT_ZMTP,
)
def connection_unanswered(lab: Lab) -> None:
    lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    lab.forget(CLIENT, SERVER)
    client = lab.socket(CLIENT, zmq.DEALER, connect_timeout=1200).watch().connect(SERVER, PORT)
    assert client.events("CLOSED", count=3) == 3
    client.close()


@scenario(
    "the first SYN to 10.0.0.1 is lost, and TCP sends it again after 1 s",
    "the DEALER connected at its first attempt, 1 s late",
    near_miss_of="connection-unanswered",
)
def connection_answered_late(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    lab.forget(CLIENT, SERVER)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    client.send("hello")
    time.sleep(0.3)
    lab.remember(CLIENT, SERVER)
    assert client.receive(3.0) is not None


@scenario(
    "three DEALERs talk to a ROUTER every 100 ms; the process of one of them is killed",
    "10.0.0.3 left after 1 s, the others stayed",
    problem("peer-departed", OTHER, cause="its process was killed"),
)
def peer_departed(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    clients = {host: lab.process(host, talk, host) for host in (CLIENT, OTHER, THIRD)}
    time.sleep(1.0)
    lab.kill(clients[OTHER])
    time.sleep(1.0)


def talk(lab: Lab, host: str) -> None:
    """Run a DEALER that sends a message every 100 ms and receives it back."""
    client = lab.socket(host, zmq.DEALER).connect(SERVER, PORT)
    for number in range(1000):
        client.send(f"{host} {number}")
        client.receive(60)
        time.sleep(0.1)


@scenario(
    "the ROUTER of three DEALERs is killed, and nobody starts it again",
    "all three lost their connection at once, and were refused from then on",
    problem("peer-departed", f"{SERVER}:{PORT}", cause="its process was killed"),
    also_true=["connection-refused"],
)
def server_departed(lab: Lab) -> None:
    server = lab.process(SERVER, echo, PORT)
    for host in (CLIENT, OTHER, THIRD):
        lab.process(host, talk, host)
    time.sleep(1.0)
    lab.kill(server)
    time.sleep(1.0)


@scenario(
    "the cable of 10.0.0.1 is pulled: nobody says goodbye, TCP repeats what it has, and heartbeats remain unanswered",
    "the DEALER gave up its connection after its heartbeat time-out of 600 ms",
    problem("heartbeat-timeout", f"{SERVER}:{PORT}", asked_by=CLIENT, timeout_ms=600),
    also_true=["connection-unanswered", "peer-departed"],
    facts={"handshake": "any"},
)
def cable_pulled(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, heartbeat_ivl=200, heartbeat_timeout=600).watch().connect(SERVER, PORT)
    client.send("hello")
    assert client.receive() is not None
    time.sleep(0.5)
    lab.unplug(SERVER)
    assert client.events("DISCONNECTED", count=1) == 1
    time.sleep(1.5)


@scenario(
    "the cable of 10.0.0.1 is out for 500 ms while a DEALER sends: TCP sends again what was lost",
    "every message was received, some late",
    near_miss_of="capture-loss",
)
def cable_out_for_a_moment(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    time.sleep(0.2)
    for number in range(60):
        if number == 20:
            lab.unplug(SERVER)
        if number == 45:
            lab.unplug(SERVER, plugged=True)
        client.send(f"message {number}")
        time.sleep(0.02)
    assert len(server.receive_all(2.0)) == 60


@scenario(
    "a load balancer without servers accepts and resets every connection; the DEALER has ZMQ_RECONNECT_IVL 5 ms",
    "60 connections in less than 2 s, none of which got anywhere",
    problem("handshake-failing", CLIENT, server=f"{OTHER}:{PORT}", count=60),
    facts=SCRIPTED | {"versions": [], "handshake": "none"},
    also_true=["peer-departed"],
)
def reconnect_storm(lab: Lab) -> None:
    listener = lab.listener(OTHER, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=5).connect(OTHER, PORT)
    for _ in range(60):
        connection = lab.accept(listener)
        connection.recv(64)
        connection.setsockopt(sockets.SOL_SOCKET, sockets.SO_LINGER, RESET)
        connection.close()
    client.close()


@scenario(
    "as reconnect-storm, but the load balancer has no server for the first three connections only",
    "the fourth connection stayed",
    near_miss_of="handshake-failing",
    facts={"handshake": "any"},
    also_true=["peer-departed"],
)
def reconnects_few(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    lab.process(OTHER, relay, [0.0] * 3 + [60.0])
    time.sleep(0.2)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=50).connect(OTHER, PORT)
    client.send("hello")
    assert client.receive(3.0) is not None


@scenario(
    "the server is started again every 1.5 s by its supervisor, as it ends by itself (FIN)",
    "the DEALER lost its connection four times, 1.5 s apart",
    problem("periodic-disconnect", f"{SERVER}:{PORT}", seconds=1.5, count=4),
    also_true=["peer-departed", "connection-refused"],
)
def server_restarts_periodically(lab: Lab) -> None:
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=20).watch().connect(SERVER, PORT)
    for number in range(4):
        server, begin = lab.process(SERVER, echo, PORT), time.monotonic()
        client.send(f"message {number}")
        assert client.receive() is not None
        time.sleep(begin + 1.5 - time.monotonic())
        lab.kill(server)
        assert client.events("DISCONNECTED", count=1) == 1


def talk_for_a_while(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    for number in range(30):
        client.send(f"message {number}")
        assert client.receive() is not None
        time.sleep(0.02)


@scenario(
    "only what 10.0.0.2 sent was captured: a mirror port with one direction",
    "every message was echoed",
    problem("one-sided-capture", CLIENT),
    facts={"versions": [], "handshake": "any", "whole": False, "received_at_least": 0},
    change=keep_packets(lambda number, ip: source(ip) == CLIENT),
)
def one_sided_capture(lab: Lab) -> None:
    talk_for_a_while(lab)


@scenario(
    "messages go one way, from PUSH to PULL, and all packets were captured",
    "all 30 messages came",
    near_miss_of="one-sided-capture",
)
def messages_one_way(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    for number in range(30):
        client.send(f"message {number}")
        assert server.receive() is not None
        time.sleep(0.02)


@scenario(
    "the capturing tool lost every packet from the 40th to the 49th",
    "every message was echoed",
    problem("capture-loss", "the capture"),
    facts={"whole": False, "received_at_least": 40},
    change=keep_packets(lambda number, ip: not 40 <= number < 50),
)
def capture_loss(lab: Lab) -> None:
    talk_for_a_while(lab)


@scenario(
    "three DEALERs talk to a ROUTER every 100 ms, and all stay",
    "every message was answered",
    near_miss_of="peer-departed",
)
def peers_stay(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    for host in (CLIENT, OTHER, THIRD):
        lab.process(host, talk, host)
    time.sleep(1.5)


@scenario(
    "the host of the ROUTER loses its power and is started again: the next message of the DEALER is answered by RST",
    "the DEALER learned of it when it sent, connected again, and was answered",
    problem("peer-departed", f"{SERVER}:{PORT}", cause="its host was restarted"),
)
def server_rebooted(lab: Lab) -> None:
    server = lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER).watch().connect(SERVER, PORT)
    client.send("before")
    assert client.receive() is not None
    lab.switch_off(SERVER)
    lab.kill(server)
    time.sleep(0.5)
    lab.process(SERVER, echo, PORT)
    time.sleep(1.0)
    client.send("lost")
    assert client.events("DISCONNECTED", count=1) == 1
    client.send("after")
    assert client.receive() is not None


@scenario(
    "DEALER announces a TTL of 500 ms in its PINGs (every 200 ms), and its process is stopped (SIGSTOP)",
    "the ROUTER closed the connection 500 ms behind the last PING",
    problem("heartbeat-timeout", CLIENT, asked_by=f"{SERVER}:{PORT}", ttl_ms=500),
)
def heartbeat_ttl_over(lab: Lab) -> None:
    def announce(lab: Lab) -> None:
        lab.socket(CLIENT, zmq.DEALER, heartbeat_ivl=200, heartbeat_ttl=500, heartbeat_timeout=5000).connect(
            SERVER, PORT
        )

    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    client = lab.process(CLIENT, announce)
    time.sleep(1.0)
    lab.kill(client, signal.SIGSTOP)
    time.sleep(1.2)


@scenario(
    "DEALER tries to connect, and the ROUTER is started 1.8 s later",
    "connected as soon as somebody listened",
    problem("listener-late", f"{SERVER}:{PORT}", tried_by=CLIENT),
)
def listener_late(lab: Lab) -> None:
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200).connect(SERVER, PORT)
    client.send("hello")
    time.sleep(1.8)
    lab.process(SERVER, echo, PORT)
    assert client.receive(3) is not None


@scenario(
    "DEALER was connected, and its ROUTER is killed and started again 1.5 s later",
    "refused while nobody listened, then connected again",
    near_miss_of="listener-late",
    also_true=["peer-departed", "connection-refused"],
)
def listener_back(lab: Lab) -> None:
    server = lab.process(SERVER, echo, PORT)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200).connect(SERVER, PORT)
    client.send("before")
    assert client.receive(3) is not None
    lab.kill(server)
    time.sleep(1.5)
    lab.process(SERVER, echo, PORT)
    time.sleep(0.5)
    client.send("after")
    assert client.receive(3) is not None
