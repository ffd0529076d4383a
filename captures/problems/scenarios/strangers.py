"""Programs on a ZeroMQ port that do not speak ZMTP, or an old one."""

from __future__ import annotations

import http.server
import socket as sockets
import ssl
import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab
from captures.problems.octets import greeting_20, handshake, message, read
from captures.problems.scenario import SCRIPTED, problem, scenario
from captures.problems.scenarios.connections import PORT, echo

MIXED = SCRIPTED | {"handshake": "any"}


def greet(lab: Lab, number: int = 1) -> None:
    """Run a DEALER that exchanges messages with the server this many times."""
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    for each in range(number):
        client.send(f"hello {each}")
        assert client.receive() is not None


@scenario(
    "10.0.0.3 tries the ports 5550 to 5559, and of the one that is open it reads the banner",
    "one port was open, and gave the first ten octets of a greeting",
    problem("scanner", OTHER, ports=10),
    facts=MIXED,
    also_true=["connection-refused"],
)
def scanner(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    greet(lab)
    for port in range(5550, 5560):
        try:
            with lab.connection(OTHER, SERVER, port) as connection:
                connection.settimeout(0.3)
                assert connection.recv(64)[:1] == b"\xff"
                connection.sendall(b"\r\n\r\n")
                time.sleep(0.1)
        except ConnectionRefusedError:
            assert port != PORT


@scenario(
    "two DEALERs connect to two ports of 10.0.0.1, say hello, and leave",
    "both were answered",
    near_miss_of="scanner",
)
def short_visits(lab: Lab) -> None:
    for port in (PORT, PORT + 1):
        lab.process(SERVER, echo, port)
        time.sleep(0.2)
        client = lab.socket(OTHER, zmq.DEALER).connect(SERVER, port)
        client.send("hello")
        assert client.receive() is not None
        client.close()


@scenario(
    "a browser asks the port of a ROUTER by HTTP, three times, while a DEALER talks to it",
    "the browser gave up after 400 ms, and the DEALER was answered",
    problem("foreign-client", OTHER, server=f"{SERVER}:{PORT}", speaks="HTTP", count=3),
    facts=MIXED,
)
def foreign_client(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    greet(lab)
    for _ in range(3):
        with lab.connection(OTHER, SERVER, PORT) as connection:
            connection.sendall(b"GET /status HTTP/1.1\r\nHost: 10.0.0.1:5555\r\nUser-Agent: curl/7.88.1\r\n\r\n")
            time.sleep(0.4)
    greet(lab)


@scenario(
    "a client with TLS asks the port of a ROUTER: Python's ssl",
    "libzmq took TLS for ZMTP 1.0 and gave three pieces of it to the program; the DEALER was answered",
    problem("foreign-client", OTHER, server=f"{SERVER}:{PORT}", speaks="TLS"),
    facts=MIXED | {"received_at_least": 4},
)
def foreign_client_tls(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    greet(lab)
    connection = lab.connection(OTHER, SERVER, PORT)
    try:
        ssl.create_default_context().wrap_socket(connection, server_hostname="zmq.example")
        raise AssertionError("the ROUTER speaks TLS")
    except (ssl.SSLError, OSError):
        connection.close()
    greet(lab)


@scenario(
    "a web server runs on port 8080 of the host that has a ROUTER on 5555; each is asked by its own client",
    "both were answered",
    near_miss_of="foreign-client",
    facts=SCRIPTED,
)
def web_server_beside(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    lab.process(SERVER, web_server)
    time.sleep(0.5)
    greet(lab)
    with lab.connection(OTHER, SERVER, 8080) as connection:
        connection.sendall(b"GET /none HTTP/1.0\r\n\r\n")
        assert read(connection, 12) == b"HTTP/1.0 404"
        while connection.recv(1 << 16):
            pass
    greet(lab)


def web_server(lab: Lab) -> None:
    with lab.on(SERVER):
        server = http.server.HTTPServer((SERVER, 8080), http.server.SimpleHTTPRequestHandler)
    server.serve_forever()


@scenario(
    "a hand-written PUSH of ZMTP 2.0 (libzmq 3.2) sends to a PULL of libzmq 4.3.5, which goes down to 2.0 for it",
    "all five messages came, without any of the security and heartbeats of 3.x",
    problem("downgrade", CLIENT, server=f"{SERVER}:{PORT}", version="2.0"),
    facts=SCRIPTED | {"versions": ["2.0"]},
)
def downgrade(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    with lab.connection(CLIENT, SERVER, PORT) as client:
        client.sendall(greeting_20("PUSH"))
        read(client, 14)
        for number in range(5):
            lab.log("sent", [f"message {number}".encode()])
            client.sendall(message(f"message {number}"))
            assert server.receive() is not None


@scenario(
    "PUSH and PULL of libzmq 4.3.5 agree on 3.1",
    "all five messages came",
    near_miss_of="downgrade",
)
def newest_version(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    for number in range(5):
        client.send(f"message {number}")
        assert server.receive() is not None


@scenario(
    "a load balancer's health check opens and closes a TCP connection to the ROUTER every 300 ms and says nothing",
    "the ROUTER goes on to serve its DEALER",
    problem("scanner", OTHER, server=f"{SERVER}:{PORT}", count=6),
    facts=MIXED,
)
def health_check(lab: Lab) -> None:
    lab.process(SERVER, echo, PORT)
    time.sleep(0.2)
    for _ in range(6):
        lab.connection(OTHER, SERVER, PORT).shutdown(sockets.SHUT_RDWR)
        time.sleep(0.3)
    greet(lab)


@scenario(
    "a hand-written PUSH sets a reserved bit in the flags of every frame (80); libzmq reads on and does not mind",
    "all five messages came",
    problem("protocol-violation", CLIENT, server=f"{SERVER}:{PORT}"),
    facts=SCRIPTED | {"versions": ["3.0"]},
)
def protocol_violation(lab: Lab) -> None:
    push_by_hand(lab, b"\x80")


@scenario(
    "a hand-written PUSH that does everything right",
    "all five messages came",
    near_miss_of="protocol-violation",
    facts=SCRIPTED | {"versions": ["3.0"]},
)
def hand_written_client(lab: Lab) -> None:
    push_by_hand(lab, b"\x00")


def push_by_hand(lab: Lab, flags: bytes) -> None:
    """Return five messages of ZMTP 3.0 with these flags."""
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    with lab.connection(CLIENT, SERVER, PORT) as client:
        handshake(client, "PUSH")
        for number in range(5):
            body = f"message {number}".encode()
            lab.log("sent", [body])
            client.sendall(flags + bytes([len(body)]) + body)
            assert server.receive() is not None
