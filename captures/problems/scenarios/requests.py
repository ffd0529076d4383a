"""Requests that hang, get lost, or are answered when nobody waits any more."""

from __future__ import annotations

import contextlib
import time

import zmq

from captures.problems.lab import CLIENT, OTHER, SERVER, Lab
from captures.problems.scenario import problem, scenario

PORT = 5555


@scenario(
    "REQ asks a ROUTER three times; the server never answers the third request, but goes on to answer another client",
    "10.0.0.2 gets two replies, then none for 2 s until the capture ends",
    problem("request-unanswered", f"{SERVER}:{PORT}", asked_by=CLIENT, request="what is it"),
)
def request_unanswered(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    for question in ("who are you", "where are you", "what is it"):
        client.send(question)
        request = server.receive()
        assert request is not None
        if question != "what is it":
            time.sleep(0.05)
            server.send(request[0], b"", "reply")
            assert client.receive() is not None
    other = lab.socket(OTHER, zmq.REQ).connect(SERVER, PORT)
    for number in range(10):
        other.send(f"other {number}")
        request = server.receive()
        assert request is not None
        server.send(request[0], b"", "reply")
        assert other.receive() is not None
        assert client.receive(0.2) is None


@scenario(
    "REQ waits 1.5 s for one of its three replies",
    "every request was answered",
    near_miss_of="request-unanswered",
)
def request_answered_slowly(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    for pause in (0.01, 1.5, 0.01):
        client.send(f"wait {pause} s")
        request = server.receive()
        assert request is not None
        time.sleep(pause)
        server.send(request[0], b"", "reply")
        assert client.receive() is not None


@scenario(
    "the capture ends 30 ms behind a request; those before it took 400 ms each",
    "five replies; the sixth comes when nobody captures any more",
    near_miss_of="request-unanswered",
)
def capture_ends_within_request(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    for number in range(6):
        client.send(f"request {number}")
        request = server.receive()
        assert request is not None
        if number < 5:
            time.sleep(0.4)
            server.send(request[0], b"", "reply")
            assert client.receive() is not None


def answer(lab: Lab, pause: float = 0.0, host: str = SERVER) -> None:
    """Run a REP that answers every request after this many seconds."""
    server = lab.socket(host, zmq.REP).bind(PORT)
    while True:
        request = server.receive(60)
        time.sleep(pause)
        server.send("reply to", *(request or []))


def ask_on(lab: Lab, target: str = SERVER) -> None:
    """Run another client, whose requests show that the server still answers."""
    client = lab.socket(OTHER, zmq.REQ).connect(target, PORT)
    for number in range(1000):
        client.send(f"other {number}")
        client.receive(60)
        time.sleep(0.3)


@scenario(
    "the REP is killed with a request open and started again: REQ connects again, and waits for ever",
    "10.0.0.2 never gets its reply, and its REQ may not send; 10.0.0.3, which connects later, is answered",
    problem("request-lost", f"{SERVER}:{PORT}", asked_by=CLIENT, request="second"),
    also_true=["peer-departed", "connection-refused", "request-unanswered"],
)
def request_lost(lab: Lab) -> None:
    first = lab.process(SERVER, answer, 0.3)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    client.send("first")
    assert client.receive() is not None
    client.send("second")
    time.sleep(0.1)
    lab.kill(first)
    time.sleep(0.2)
    lab.process(SERVER, answer)
    lab.process(OTHER, ask_on)
    assert client.receive(2.0) is None


@scenario(
    "the REP is killed between two requests and started again",
    "both requests were answered",
    near_miss_of="request-lost",
    also_true=["peer-departed", "connection-refused"],
)
def server_restarted_between_requests(lab: Lab) -> None:
    first = lab.process(SERVER, answer)
    client = lab.socket(CLIENT, zmq.REQ).watch().connect(SERVER, PORT)
    client.send("first")
    assert client.receive() is not None
    time.sleep(0.2)
    lab.kill(first)
    time.sleep(0.1)
    lab.process(SERVER, answer)
    time.sleep(0.4)
    client.send("second")
    assert client.receive() is not None


@scenario(
    "the ROUTER answers one request of a REQ twice; libzmq drops the second reply",
    "10.0.0.2 got three replies to three requests, and one reply more came over the network",
    problem("reply-to-nobody", f"{SERVER}:{PORT}", asked_by=CLIENT),
)
def reply_to_nobody(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    for question in ("one", "two", "three"):
        client.send(question)
        request = server.receive()
        assert request is not None
        server.send(request[0], b"", "reply to", question)
        reply = client.receive()
        assert reply is not None
        assert reply[-1] == question.encode()
        if question == "two":
            server.send(request[0], b"", "once more")
            time.sleep(0.2)


@scenario(
    "a ROUTER tells a DEALER things that it never asked for: no request, no reply, and nothing is wrong",
    "10.0.0.2 received all ten messages",
    near_miss_of="reply-to-nobody",
)
def server_speaks_unasked(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    client.send("hello")
    request = server.receive()
    assert request is not None
    for number in range(10):
        server.send(request[0], f"news {number}")
    assert len(client.receive_all()) == 10


def broker(lab: Lab) -> None:
    """Run a ROUTER for clients and a DEALER for a worker on 10.0.0.3, which forward messages."""
    front = lab.socket(OTHER, zmq.ROUTER).bind(PORT)
    back = lab.socket(OTHER, zmq.DEALER).bind(PORT + 1)
    zmq.proxy(front.zmq, back.zmq)


def work(lab: Lab, pauses: list[float]) -> None:
    """Run a REP behind the broker that takes the next of these pauses (seconds) for each request."""
    worker = lab.socket(SERVER, zmq.REP).connect(OTHER, PORT + 1)
    for pause in pauses:
        request = worker.receive(60)
        time.sleep(pause)
        worker.send("reply to", *(request or []))


@scenario(
    "REQ gives up after 300 ms, closes its socket and asks again with a new one; a worker behind a broker took 700 ms",
    "the reply to the first try reached the broker when its client was gone, the second try was answered",
    problem("late-reply", SERVER, asked_by=CLIENT, request="slow one"),
    also_true=["request-unanswered"],
)
def late_reply(lab: Lab) -> None:
    lab.process(OTHER, broker)
    lab.process(SERVER, work, [0.05, 0.7, 0.05])
    time.sleep(0.3)
    client = lab.socket(CLIENT, zmq.REQ).connect(OTHER, PORT)
    client.send("quick one")
    assert client.receive() is not None
    client.send("slow one")
    assert client.receive(0.3) is None
    client.close()
    client = lab.socket(CLIENT, zmq.REQ).connect(OTHER, PORT)
    client.send("slow one")
    assert client.receive() is not None


@scenario(
    "as late-reply, without a broker: REP works on the first try for 700 ms while its client is long gone",
    "the first try was never answered on its connection, the second one was",
    problem("late-reply", f"{SERVER}:{PORT}", asked_by=CLIENT, request="slow one"),
    also_true=["request-unanswered"],
)
def lazy_pirate(lab: Lab) -> None:
    lab.process(SERVER, answer, 0.7)
    for within in (0.3, 2.0):
        client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
        client.send("slow one")
        assert (client.receive(within) is None) == (within == 0.3)
        client.close()


@scenario(
    "a client makes a new REQ for each of five requests, and closes it when it has its reply",
    "every request was answered",
    near_miss_of="late-reply",
)
def socket_for_each_request(lab: Lab) -> None:
    lab.process(SERVER, answer, 0.05)
    for number in range(5):
        client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
        client.send(f"request {number}")
        assert client.receive() is not None
        client.close()


@scenario(
    "REQ asks through a broker (ROUTER and DEALER); the worker never answers the third request",
    "two replies; the third request is open on both sides of the broker until the capture ends",
    problem("request-unanswered", SERVER, asked_by=CLIENT, request="request 2"),
)
def request_unanswered_behind_broker(lab: Lab) -> None:
    def work_until_stuck(lab: Lab) -> None:
        work(lab, [0.05, 0.05])
        time.sleep(60)

    lab.process(OTHER, broker)
    lab.process(SERVER, work_until_stuck)
    time.sleep(0.3)
    client = lab.socket(CLIENT, zmq.REQ, heartbeat_ivl=500).connect(OTHER, PORT)
    for number in range(3):
        client.send(f"request {number}")
        assert (client.receive(2.0) is None) == (number == 2)


def answer_without_delimiter(lab: Lab) -> None:
    """Run a ROUTER that sends address and reply, without the empty frame between them."""
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    while True:
        request = server.receive(60)
        assert request is not None
        server.send(request[0], b"reply to", request[-1])


@scenario(
    "a REQ asks a ROUTER, which sends the reply without the empty frame in front of it: the REQ of libzmq drops the "
    "reply, closes the connection, and does not connect again; its program gives up after 0.5 s and asks again with a "
    "new socket, three times",
    "10.0.0.2 gets no reply",
    problem("delimiter-missing", f"{SERVER}:{PORT}", receiver=CLIENT),
    also_true=["request-unanswered", "peer-departed", "periodic-disconnect", "late-reply"],
)
def router_without_delimiter(lab: Lab) -> None:
    lab.process(SERVER, answer_without_delimiter)
    time.sleep(0.2)
    for number in range(3):
        client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
        client.send(f"request {number}")
        assert client.receive(0.5) is None
        client.close()


def router_with_delimiter(lab: Lab) -> None:
    """Run a ROUTER that repeats everything in front of the request: address, request id and empty frame."""
    server = lab.socket(SERVER, zmq.ROUTER).bind(PORT)
    while True:
        request = server.receive(60)
        assert request is not None
        server.send(*request[:-1], b"reply")


@scenario(
    "REQs with and without ZMQ_REQ_CORRELATE ask a ROUTER, which repeats what stands in front of the request: the "
    "empty frame, or the request id and the empty frame",
    "every request was answered",
    near_miss_of="delimiter-missing",
)
def router_with_request_id(lab: Lab) -> None:
    lab.process(SERVER, router_with_delimiter)
    time.sleep(0.2)
    for host, options in ((CLIENT, {}), (OTHER, {"req_correlate": 1, "req_relaxed": 1})):
        client = lab.socket(host, zmq.REQ, **options).connect(SERVER, PORT)
        for number in range(3):
            client.send(f"request {number}")
            assert client.receive() is not None


@scenario(
    "a DEALER asks a REP five times without an empty frame in front: the REP drops the requests without a word",
    "10.0.0.2 gets no reply; the program of the REP gets no request",
    problem("delimiter-missing", CLIENT, receiver=f"{SERVER}:{PORT}"),
)
def dealer_without_delimiter(lab: Lab) -> None:
    server = lab.socket(SERVER, zmq.REP).bind(PORT)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    for number in range(5):
        client.send(f"request {number}")
        assert client.receive(0.2) is None
    server.zmq.rcvtimeo = 100  # it can be polled, and has nothing to receive
    with contextlib.suppress(zmq.Again):
        raise AssertionError(server.zmq.recv())


@scenario(
    "a DEALER asks a REP with an empty frame in front of its requests, several at a time",
    "every request was answered",
    near_miss_of="delimiter-missing",
)
def dealer_with_delimiter(lab: Lab) -> None:
    lab.process(SERVER, answer)
    client = lab.socket(CLIENT, zmq.DEALER).connect(SERVER, PORT)
    for number in range(5):
        client.send(b"", f"request {number}")
    for _ in range(5):
        assert client.receive() is not None


def answer_after(lab: Lab, pauses: list[float]) -> None:
    """Run a REP that answers each request after the next of these pauses (seconds)."""
    server = lab.socket(SERVER, zmq.REP).bind(PORT)
    for pause in pauses:
        request = server.receive(60)
        time.sleep(pause)
        server.send("reply to", *(request or []))


def ask_one_by_one(lab: Lab, pauses: list[float]) -> None:
    lab.process(SERVER, answer_after, pauses)
    time.sleep(0.2)
    client = lab.socket(CLIENT, zmq.REQ).connect(SERVER, PORT)
    for number in range(len(pauses)):
        client.send(f"request {number}")
        assert client.receive() is not None


@scenario(
    "REQ asks a REP 96 times, which searches a list that grows: each reply takes longer than the one before",
    "every request was answered, the first ones after 1 ms, the last ones after more than 100 ms",
    problem("replies-slower", f"{SERVER}:{PORT}", asked_by=CLIENT),
)
def replies_slower(lab: Lab) -> None:
    ask_one_by_one(lab, [0.001 + 0.12 * (number / 95) ** 2 for number in range(96)])


@scenario(
    "REQ asks a REP 96 times, which takes 100 ms for every tenth request, and for eight in a row near the end",
    "every request was answered; the last ones as fast as the first",
    near_miss_of="replies-slower",
)
def replies_vary(lab: Lab) -> None:
    slow = [number % 10 == 9 or 82 <= number < 90 for number in range(96)]
    ask_one_by_one(lab, [0.1 if each else 0.001 for each in slow])
