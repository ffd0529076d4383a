"""Peers that are not let in, and those that should not be."""

from __future__ import annotations

import os
import pickle
import time
from typing import Any

import zmq

from captures.problems.lab import CLIENT, SERVER, Lab
from captures.problems.scenario import problem, scenario

PORT = 5555
REFUSED = {"handshake": "none"}


@scenario(
    "DEALER has the wrong CURVE server key: that of an earlier installation",
    "the ROUTER drops every HELLO, the DEALER tries again",
    problem("wrong-server-key", CLIENT, server=f"{SERVER}:{PORT}"),
    facts=REFUSED,
)
def wrong_server_key(lab: Lab) -> None:
    lab.curve_server(SERVER, zmq.ROUTER, PORT)
    earlier, _ = zmq.curve_keypair()
    public, secret = zmq.curve_keypair()
    keys = {"curve_serverkey": earlier, "curve_publickey": public, "curve_secretkey": secret}
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=300, handshake_ivl=1000, **keys).connect(SERVER, PORT)
    assert client.receive(1.6) is None


@scenario(
    "as wrong-server-key, with the right one",
    "the request was answered",
    near_miss_of="wrong-server-key",
    facts={"sealed": True},
)
def right_server_key(lab: Lab) -> None:
    server, right = lab.curve_server(SERVER, zmq.ROUTER, PORT)
    public, secret = zmq.curve_keypair()
    keys = {"curve_serverkey": right, "curve_publickey": public, "curve_secretkey": secret}
    client = lab.socket(CLIENT, zmq.DEALER, **keys).connect(SERVER, PORT)
    client.send("hello")
    request = server.receive()
    assert request is not None
    server.send(*request)
    assert client.receive() is not None


@scenario(
    "a DEALER logs in by PLAIN with a wrong password, and its program tries again with a new socket; ZAP answers 400",
    "refused six times",
    problem("login-refused", CLIENT, server=f"{SERVER}:{PORT}", status="400"),
    facts=REFUSED,
)
def login_refused(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "400")
    lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    login = {"plain_username": b"admin", "plain_password": b"wrong"}
    for _ in range(6):
        client = lab.socket(CLIENT, zmq.DEALER, **login).watch().connect(SERVER, PORT)
        assert client.events("HANDSHAKE_FAILED_AUTH", count=1) == 1
        client.close()
        time.sleep(0.3)


@scenario(
    "the first login is refused (400), the second accepted: the account was just being made",
    "the request was answered",
    near_miss_of="login-refused",
    facts={"handshake": "any"},
    also_true=["login-refused"],
)
def login_accepted_at_second_try(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "400" if number == 1 else "200")
    server = lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    login = {"plain_username": b"admin", "plain_password": b"right"}
    first = lab.socket(CLIENT, zmq.DEALER, **login).watch().connect(SERVER, PORT)
    assert first.events("HANDSHAKE_FAILED_AUTH", count=1) == 1
    client = lab.socket(CLIENT, zmq.DEALER, **login).connect(SERVER, PORT)
    client.send("hello")
    request = server.receive()
    assert request is not None
    server.send(*request)
    assert client.receive() is not None


PLAIN = {"plain_username": b"admin", "plain_password": b"right"}


@scenario(
    "the ROUTER wants PLAIN, the DEALER has no mechanism at all (NULL)",
    "one side closes behind the greetings; where that is the ROUTER, the DEALER tries again",
    problem("mechanism-mismatch", CLIENT, server=f"{SERVER}:{PORT}", mechanisms=["NULL", "PLAIN"]),
    facts=REFUSED | {"versions": []},
)
def mechanism_mismatch(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "200")
    server = lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200).connect(SERVER, PORT)
    client.zmq.send(b"hello")
    assert server.receive(1.5) is None


@scenario(
    "the ROUTER wants PLAIN and the DEALER has it; the ZAP handler takes 400 ms to answer 200",
    "the message was answered",
    near_miss_of="no-zap-handler",
)
def login_slow(lab: Lab) -> None:
    def answer(number: int) -> str:
        time.sleep(0.4)
        return "200"

    lab.logins(SERVER, answer)
    server = lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, **PLAIN).connect(SERVER, PORT)
    client.send("hello")
    request = server.receive()
    assert request is not None
    server.send(*request)
    assert client.receive() is not None


@scenario(
    "the ZAP handler of the server fails (500) whoever logs in",
    "the DEALER gives up behind the ERROR",
    problem("authentication-failing", f"{SERVER}:{PORT}", asked_by=CLIENT, status="500"),
    facts=REFUSED,
)
def authentication_failing(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "500")
    lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, **PLAIN).watch().connect(SERVER, PORT)
    assert client.events("HANDSHAKE_FAILED_AUTH", count=1) == 1


@scenario(
    "the ZAP handler of the server cannot tell for now (300), which the server keeps back; ZMQ_HANDSHAKE_IVL is 500 ms",
    "three connections came to nothing: the DEALER gave up behind 500 ms, or the ROUTER closed",
    problem("authentication-failing", f"{SERVER}:{PORT}", asked_by=CLIENT, status="300"),
    facts=REFUSED,
    also_true=["handshake-timeout"],
)
def authentication_failing_for_now(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "300")
    lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, handshake_ivl=500, **PLAIN).watch().connect(SERVER, PORT)
    assert client.events("DISCONNECTED", count=3) == 3
    client.close()


@scenario(
    "a ROUTER with PLAIN on a host where no ZAP handler runs: libzmq closes on every HELLO",
    "the DEALER tries again and again, in vain",
    problem("no-zap-handler", f"{SERVER}:{PORT}", asked_by=CLIENT),
    facts=REFUSED,
)
def authentication_missing(lab: Lab) -> None:
    lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, reconnect_ivl=200, **PLAIN).connect(SERVER, PORT)
    assert client.receive(1.5) is None


@scenario(
    "the ZAP handler of a ROUTER with CURVE does not know the key of the DEALER (400); its program tries three times",
    "refused three times",
    problem("login-refused", CLIENT, server=f"{SERVER}:{PORT}", status="400"),
    facts=REFUSED,
)
def login_refused_by_curve(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "400")
    _, right = lab.curve_server(SERVER, zmq.ROUTER, PORT)
    public, secret = zmq.curve_keypair()
    keys = {"curve_serverkey": right, "curve_publickey": public, "curve_secretkey": secret}
    for _ in range(3):
        client = lab.socket(CLIENT, zmq.DEALER, **keys).watch().connect(SERVER, PORT)
        assert client.events("HANDSHAKE_FAILED_AUTH", count=1) == 1
        client.close()
        time.sleep(0.3)


@scenario(
    "the ROUTER has a ZAP domain with NULL, and its ZAP handler does not like the address of the DEALER (400)",
    "refused three times",
    problem("login-refused", CLIENT, server=f"{SERVER}:{PORT}", status="400"),
    facts=REFUSED,
)
def login_refused_by_address(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "400")
    lab.socket(SERVER, zmq.ROUTER, zap_domain=b"global").bind(PORT)
    for _ in range(3):
        client = lab.socket(CLIENT, zmq.DEALER).watch().connect(SERVER, PORT)
        assert client.events("HANDSHAKE_FAILED_AUTH", count=1) == 1
        client.close()
        time.sleep(0.3)


@scenario(
    "10.0.0.2 logs in by PLAIN from another host, and sends what it has to say in clear, too",
    "the message came",
    problem("clear-text", f"{SERVER}:{PORT}", mechanism="PLAIN"),
)
def clear_text(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "200")
    server = lab.socket(SERVER, zmq.PULL, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH, **PLAIN).connect(SERVER, PORT)
    client.send("card 4111 1111 1111 1111")
    assert server.receive() is not None


@scenario(
    "as clear-text, with CURVE",
    "the message came",
    near_miss_of="clear-text",
    facts={"sealed": True},
)
def sealed_text(lab: Lab) -> None:
    server, right = lab.curve_server(SERVER, zmq.PULL, PORT)
    public, secret = zmq.curve_keypair()
    keys = {"curve_serverkey": right, "curve_publickey": public, "curve_secretkey": secret}
    client = lab.socket(CLIENT, zmq.PUSH, **keys).connect(SERVER, PORT)
    client.send("card 4111 1111 1111 1111")
    assert server.receive() is not None


class Cleanup:
    """A pickle that calls os.system when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


@scenario(
    "PUSH sends pickles, one of them with a call of os.system; whoever loads them runs what is in them",
    "all three messages came",
    problem("pickle-payload", CLIENT, server=f"{SERVER}:{PORT}"),
)
def pickle_payload(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    for value in ({"price": 12}, [1, 2, 3], Cleanup()):
        client.send(pickle.dumps(value))
        assert server.receive() is not None


@scenario(
    "PUSH sends JSON and MessagePack",
    "all three messages came",
    near_miss_of="pickle-payload",
)
def json_payload(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.PULL).bind(PORT)
    client = lab.socket(CLIENT, zmq.PUSH).connect(SERVER, PORT)
    for value in ('{"price": 12}', "[1, 2, 3]", b"\x81\xa5price\x0c"):
        client.send(value)
        assert server.receive() is not None


@scenario(
    "the ZAP handler cannot tell the first time (300), and lets the DEALER in the second time (200)",
    "the message was answered, after one connection that the DEALER gave up behind 500 ms",
    near_miss_of="authentication-failing",
    facts={"handshake": "any"},
    also_true=["authentication-failing", "handshake-timeout"],
)
def authentication_recovers(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "300" if number == 1 else "200")
    server = lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER, handshake_ivl=500, **PLAIN).connect(SERVER, PORT)
    client.send("hello")
    request = server.receive()
    assert request is not None
    server.send(*request)
    assert client.receive() is not None


@scenario(
    "a host has a ROUTER with PLAIN on one port and one with NULL on the next; each gets the DEALER that fits",
    "both messages came",
    near_miss_of="mechanism-mismatch",
)
def two_mechanisms_on_a_host(lab: Lab) -> None:
    lab.logins(SERVER, lambda number: "200")
    servers = lab.socket(SERVER, zmq.ROUTER, plain_server=1).bind(PORT), lab.socket(SERVER, zmq.ROUTER).bind(PORT + 1)
    clients = lab.socket(CLIENT, zmq.DEALER, **PLAIN), lab.socket(CLIENT, zmq.DEALER)
    for number, (server, client) in enumerate(zip(servers, clients, strict=True)):
        client.connect(SERVER, PORT + number).send("hello")
        assert server.receive() is not None
