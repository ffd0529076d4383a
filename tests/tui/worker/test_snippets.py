"""Copies of a record: line, JSON, octets, and commands and programs that send it."""

from __future__ import annotations

import base64
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.running import Cat, Run
from tests.libzmq import Libzmq
from tests.readings import CAPTURES
from tests.tui.workers import Asker, worker_of
from tests.waiting import PATIENCE
from zmtpscope.live.cat.message_input import Notation, typed_octets
from zmtpscope.tui.choices import COPY_FORMS
from zmtpscope.tui.client import RequestFailed
from zmtpscope.tui.requests import CopyTextOf, ListSpec, OpenList, Rows
from zmtpscope.tui.worker.sending import Sending
from zmtpscope.tui.worker.snippets import FORMS, cat_arguments, pyzmq_lines


def number_of(worker: Asker, filter: str) -> int:
    worker.ask(OpenList("found", ListSpec(("message", "command", "greeting", "finding", "datagram"), filter)))
    return worker.ask(Rows("found", 0, 1)).rows[0].number


def test_every_format_exists() -> None:
    assert list(COPY_FORMS) == list(FORMS)


def test_the_line_and_the_json_of_a_message_are_those_of_read(zmtpscope: Run) -> None:
    path, filter = CAPTURES / "patterns" / "pubsub.pcap", 'record == message && topic == "a.topic"'
    with worker_of(str(path)) as worker:
        number = number_of(worker, filter)
        line, text = (worker.ask(CopyTextOf(number, form)) for form in ("line", "json"))
    _, lines, _ = zmtpscope("read", "--wide", path, "-Y", filter)
    assert line == lines.splitlines()[0]
    _, lines, _ = zmtpscope("read", "--json", path, "-Y", filter)
    assert json.loads(text) == json.loads(lines.splitlines()[0])


def test_octets_equal_the_stream_and_passwords_are_starred() -> None:
    with worker_of("patterns/pubsub.pcap") as worker:
        number = number_of(worker, 'topic == "a.topic"')
        as_hex, as_base64, as_c = (worker.ask(CopyTextOf(number, form)) for form in ("hex", "base64", "c"))
        octets = bytes.fromhex(as_hex)
        assert b"a.topic" in octets
        assert base64.b64decode(as_base64) == octets
        assert bytes(int(each, 16) for each in as_c.strip("{}\n, ").replace(",", " ").split()) == octets
    with worker_of("security/plain-accepted.pcap") as worker:
        number = number_of(worker, "password")
        assert b"***" in bytes.fromhex(worker.ask(CopyTextOf(number, "hex")))


class Case(NamedTuple):
    """A message of a capture, and the socket that receives it again."""

    capture: str
    filter: str
    receiver: str
    connects: bool
    act: Callable[[Any], object] = lambda receiver: None
    behind_envelope: bool = False
    """Whether the receiver removes the envelope."""


def subscribe(receiver: Any) -> None:
    receiver.subscribe(b"")


def ask(receiver: Any) -> None:
    receiver.send(b"?")


MESSAGES = {
    "text": Case("patterns/pushpull.pcap", "kind == data", "PULL", True),
    "with an envelope": Case(
        "patterns/broker-mixed-versions.pcap", "parts == 4 && socket_type == DEALER", "DEALER", True
    ),
    "octets": Case("patterns/frame-sizes.pcap", "kind == data && size > 200 && size < 300", "PULL", False),
    "published": Case("patterns/pubsub.pcap", "kind == data", "SUB", True, subscribe),
    "with an identity": Case("patterns/dealer-router-identities.pcap", "socket_type == DEALER", "ROUTER", False),
    "routed": Case("patterns/dealer-router-identities.pcap", "socket_type == ROUTER", "DEALER", True),
    "asked": Case("patterns/reqrep.pcap", "socket_type == REQ && kind == data", "ROUTER", False),
    "answered": Case("patterns/reqrep.pcap", "socket_type == REP && kind == data", "REQ", True, ask, True),
}


@pytest.mark.parametrize("form", ["cat", "pyzmq"])
@pytest.mark.parametrize("name", MESSAGES)
def test_a_copied_command_sends_the_same_frames(libzmq: Libzmq, name: str, form: str) -> None:
    case = MESSAGES[name]
    with worker_of(case.capture) as worker:
        number = number_of(worker, f"record == message && {case.filter}")
        record = json.loads(worker.ask(CopyTextOf(number, "json")))
        text = worker.ask(CopyTextOf(number, form))
    frames = [base64.b64decode(body) for body in record["bodies"]]
    assert ("bind" in text) is case.connects
    receiver = libzmq.socket(case.receiver)
    with Running(text, form, receiver, connects=case.connects):
        case.act(receiver)
        received = receiver.recv_multipart()
    if case.receiver == "ROUTER":
        identity = received.pop(0)
        assert identity == b"dealer-1" or name != "with an identity"
    assert received == (frames[frames.index(b"") + 1 :] if case.behind_envelope else frames)


@pytest.mark.parametrize("form", ["cat", "pyzmq"])
@pytest.mark.parametrize(
    ("capture", "filter"),
    [("patterns/pubsub.pcap", "name == SUBSCRIBE"), ("patterns/xpub-xsub.pcap", "kind == subscribe")],
)
def test_a_copied_subscription_subscribes(libzmq: Libzmq, capture: str, filter: str, form: str) -> None:
    with worker_of(capture) as worker:
        number = number_of(worker, filter)
        topic = json.loads(worker.ask(CopyTextOf(number, "json")))["topic"]
        text = worker.ask(CopyTextOf(number, form))
    publisher = libzmq.socket("XPUB")
    with Running(text, form, publisher, connects=False):
        assert publisher.recv() == b"\x01" + topic.encode()


class Running:
    """A copied command or program, with the port of `peer` in place of the captured one."""

    def __init__(self, text: str, form: str, peer: Any, *, connects: bool) -> None:
        if connects:
            with socket.create_server(("127.0.0.1", 0)) as server:
                port = server.getsockname()[1]
            peer.connect(f"tcp://127.0.0.1:{port}")
        else:
            port = peer.bind_to_random_port("tcp://127.0.0.1")
        start = text.index("tcp://")
        end = min(place for mark in " '\n" if (place := text.find(mark, start)) >= 0)
        text = f"{text[:start]}tcp://127.0.0.1:{port}{text[end:]}"
        self._command = [sys.executable, "-c", text] if form == "pyzmq" else Cat.command(*shlex.split(text)[2:])

    def __enter__(self) -> None:
        self._process = subprocess.Popen(self._command, env=Cat.environment(), stderr=subprocess.DEVNULL)

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)


@pytest.mark.parametrize(
    ("capture", "filter", "sentence"),
    [
        ("patterns/pubsub.pcap", "record == greeting", "only messages and subscriptions"),
        ("patterns/client-server.pcap", "record == message && socket_type == SERVER", "only to whom it has heard from"),
        ("patterns/websocket-reqrep.pcap", "record == message", "WebSocket"),
        ("patterns/frame-sizes.pcap", "size > 70000", "save it as a file"),
        ("security/curve-4.3.5.pcap", "kind == encrypted", "give the keys"),
        ("patterns/radio-dish-udp.pcap", "record == datagram", "only messages and subscriptions"),
        ("damage/holes.pcap", "record == message && !complete", "not all octets of it are there"),
    ],
)
def test_a_sentence_explains_why_nothing_can_send_it(capture: str, filter: str, sentence: str) -> None:
    with worker_of(capture) as worker, pytest.raises(RequestFailed, match=sentence):
        worker.ask(CopyTextOf(number_of(worker, filter), "cat"))


HOSTILE = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"@/etc/passwd", b"-c", b"\\x00"]),
    st.text("'\"\\$`;&|\n\r\x1b()@-#%{}!x0", max_size=12).map(str.encode),
)
SENDINGS = st.builds(
    Sending,
    st.sampled_from(["PUSH", "DEALER", "RADIO", "PUB"]),
    st.booleans(),
    st.sampled_from(["127.0.0.1", "::1"]),
    st.just(5555),
    st.sampled_from([None, "CURVE", "PLAIN"]),
    HOSTILE,
    st.tuples(HOSTILE, HOSTILE),
    st.just(()),
)
SUBSCRIPTIONS = st.builds(
    Sending,
    st.sampled_from(["SUB", "XSUB"]),
    st.booleans(),
    st.just("127.0.0.1"),
    st.just(5555),
    st.none(),
    st.just(b""),
    st.just(()),
    st.tuples(HOSTILE),
)


@given(SENDINGS | SUBSCRIPTIONS)
def test_no_octets_break_out_of_a_command(sending: Sending) -> None:
    words = cat_arguments(sending)
    text = shlex.join(words)
    assert text.isascii()
    assert text.isprintable()
    seen = subprocess.run(["sh", "-c", f"printf '%s\\n' {text}"], capture_output=True, check=True).stdout.decode()
    assert seen == "".join(f"{word}\n" for word in words)
    options = list(pairwise(words))
    parts = [value for option, value in options if option == "--part"]
    if sending.parts and len(parts) == 2:
        notation = Notation("--hex" in words, None, sending.socket_type == "RADIO")
        assert notation.given(parts) == list(sending.parts)
    if sending.topics:
        assert typed_octets(dict(options)["--subscribe"].encode()) == sending.topics[0]
    elif sending.identity:
        assert typed_octets(dict(options)["--identity"].encode()) == sending.identity


class Recorder:
    """Replaces zmq, its contexts and sockets; records the calls of a socket."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.identity = b""

    def __getattr__(self, name: str) -> Any:
        def call(*values: object, **named: object) -> None:
            self.calls.append((name, [*values, *named.values()]))

        return call

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@given(SENDINGS | SUBSCRIPTIONS)
def test_no_octets_break_out_of_a_program(sending: Sending) -> None:
    text = "\n".join(pyzmq_lines(sending))
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    made = Recorder()
    context = Recorder()
    context.socket = lambda kind: made
    module = SimpleNamespace(Context=lambda: context, **{sending.socket_type: None})
    names = {"zmq": module, "time": SimpleNamespace(sleep=lambda seconds: None), "print": lambda value: None}
    exec(text.replace("import zmq", "").replace("import time", ""), names)
    where = f"tcp://{'[::1]' if ':' in sending.host else sending.host}:5555"
    expected: list[tuple[str, object]] = [("bind" if sending.listens else "connect", [where])]
    if sending.socket_type == "SUB":
        expected += [("subscribe", [sending.topics[0]]), ("recv_multipart", [])]
    elif sending.socket_type == "XSUB":
        expected += [("send", [b"\x01" + sending.topics[0]]), ("recv_multipart", [])]
    elif sending.socket_type == "RADIO":
        expected.append(("send", [sending.parts[1], sending.parts[0]]))
    else:
        expected.append(("send_multipart", [list(sending.parts)]))
    assert made.calls == expected
    assert made.identity == sending.identity
