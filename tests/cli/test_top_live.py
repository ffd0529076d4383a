"""`zmtpscope top` with real peers, while they talk."""

from __future__ import annotations

import json
import pathlib
from collections import Counter

import zmq

from tests.cli.live_runs import Live, Record
from tests.cli.running import Run
from tests.cli.terminal import Terminal
from tests.live.capture.namespaces import in_namespace
from tests.waiting import PATIENCE

LOOPBACK = "ip link set lo up"
FILTERS = [b"", b"prices.", b"prices.1"]


class Top(Live):
    name = "top"


def publish(count: int) -> Counter[str]:
    """How many messages of each topic subscribers have received from a PUB; all of them are closed then."""
    context = zmq.Context()
    publisher = context.socket(zmq.XPUB)
    publisher.rcvtimeo = PATIENCE * 1000
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    subscribers = []
    for name in FILTERS:
        subscriber = context.socket(zmq.SUB)
        subscriber.rcvtimeo = PATIENCE * 1000
        subscriber.subscribe(name)
        subscriber.connect(f"tcp://127.0.0.1:{port}")
        publisher.recv()
        subscribers.append(subscriber)
    names = [b"prices.%d" % (number % 3) if number % 4 else b"news" for number in range(count)]
    received = Counter[str]()
    for number, name in enumerate(names):
        publisher.send_multipart([name, b"%d" % number])
        for subscriber, wanted in zip(subscribers, FILTERS, strict=True):
            if name.startswith(wanted):
                received[subscriber.recv_multipart()[0].decode()] += 1
    context.destroy(linger=0)
    return received


def totals(lines: list[Record]) -> Counter[str]:
    found = Counter[str]()
    for line in lines:
        found[line["topic"]] += line["messages"]
    return found


@in_namespace(LOOPBACK)
def test_topics_are_counted_as_applications_receive_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a.pcapng"
    with Top("-i", "lo", "--json", "--interval", "0.2", "-w", path) as top:
        received = publish(300) if top.begun() else Counter[str]()
        first = json.loads(top.lines_until(lambda line: True)[0])
        top.interrupt()
        code, rest, err = top.end()
    lines = [first, *map(json.loads, rest.splitlines())]
    assert code == 0
    assert "0 dropped" in err
    assert totals(lines) == received
    assert {line["topic"]: line["subscribers"] for line in lines} == {
        "news": 1, "prices.0": 2, "prices.1": 3, "prices.2": 2
    }  # fmt: skip
    with Top("--json", "--interval", "0.2", path) as again:
        assert [json.loads(line) for line in again.end()[1].splitlines()] == lines


@in_namespace(LOOPBACK)
def test_a_terminal_shows_traffic_as_it_arrives() -> None:
    with Terminal("top", "-i", "lo", "--interval", "0.2") as top:
        top.wait_for("0 topics by rate", "q quit")
        publish(40)
        top.wait_for("4 topics by rate", '"news"', '"prices.1"')
        top.press("p")
        top.wait_for("2 peers by rate", "127.0.0.1 SUB")
        top.press("q")
        code, behind = top.end()
    assert code == 0
    assert "127.0.0.1 SUB" in behind
    assert "packets captured on lo, 0 dropped" in behind


@in_namespace(LOOPBACK)
def test_a_capture_ends_at_its_limit() -> None:
    with Top("-i", "lo", "-a", "packets:100") as top:
        top.begun()
        publish(100)
        code, output, err = top.end()
    assert code == 0
    assert "TOPIC" in output
    assert "100 packets captured" in err


@in_namespace(LOOPBACK)
def test_an_interface_that_is_not_there_is_named() -> None:
    with Top("-i", "nothing") as top:
        code, output, err = top.end()
    assert (code, output) == (2, "")
    assert "nothing" in err


def test_interfaces_are_listed(zmtpscope: Run) -> None:
    assert "lo" in zmtpscope("top", "-D")[1]
