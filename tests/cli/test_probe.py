"""`zmtpscope probe` against real libzmq sockets, and servers that do everything wrong."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import socket
import threading
import time
from typing import Any

import pytest
import zmq.auth

from tests.cli.running import Run, secret_file
from tests.libzmq import CLIENT, SERVER, Libzmq, Logins
from tests.peer_octets import GREETING, command, message, ready
from tests.scripted import REFUSAL, Script, hold, receive, sending_script, served
from tests.waiting import PATIENCE, in_thread
from zmtpscope.live.probe.probe import HARMLESS, JOINING
from zmtpscope.records import to_text
from zmtpscope.zmtp.greeting import build_greeting_3

STABLE = ["PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH", "XPUB", "XSUB"]


@pytest.fixture
def probe(zmtpscope: Run) -> Run:
    return functools.partial(zmtpscope, "probe")


def json_of(output: str) -> dict[str, Any]:
    [line] = output.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


# -- sockets of libzmq -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("socket_type", STABLE)
def test_every_socket_type(probe: Run, libzmq: Libzmq, socket_type: str) -> None:
    endpoint = libzmq.endpoint(socket_type)
    code, output, errors = probe(
        endpoint, "--json", "--expect", f"socket-type={socket_type}", "--expect", "version=3.1"
    )
    assert (code, errors) == (0, "")
    found = json_of(output)
    assert (found["endpoint"], found["mechanism"], found["version_in_force"]) == (endpoint, "NULL", "3.1")
    assert found["socket_type"] == socket_type
    assert found["connections"] == 1
    assert sum(piece["octets"] for piece in found["greeting"] if piece["sent"] <= 10) == 11
    assert "libzmq" in found["implementation"]
    assert found["answering_ms"] > 0
    if socket_type in HARMLESS:
        assert (found["handshake"], found["joined_as"]) == ("complete", HARMLESS[socket_type])
        assert found["ping"]["answered"]
        assert found["ping"]["context_returned"]
    else:
        assert (found["handshake"], found["joined_as"], found["ping"]) == ("withheld", None, None)


@pytest.mark.parametrize("socket_type", [each for each in STABLE if each in JOINING])
def test_joins_if_requested(probe: Run, libzmq: Libzmq, socket_type: str) -> None:
    code, output, _ = probe(
        libzmq.endpoint(socket_type), "--join", "--expect", "handshake=complete", "--expect", "ping=yes"
    )
    assert code == 0
    assert f"complete, with us as {JOINING[socket_type]}" in output


def test_the_table_of_a_probe(probe: Run, libzmq: Libzmq) -> None:
    endpoint = libzmq.endpoint("ROUTER", identity=b"broker", metadata=b"X-Service:prices")
    code, output, errors = probe(endpoint, "--expect", "identity=broker", "--expect", "property:x-service=prices")
    assert (code, errors) == (0, "")
    lines = re.sub(r"[0-9.]+ ms", "N ms", output).splitlines()
    assert lines.pop(-3) in (
        "  greeting            10 octets before ours, 1 more after 10 of ours, 53 more after 11 of ours",
        "  greeting            11 more after 10 of ours, 53 more after 11 of ours",  # it was slow
    )
    assert lines == [
        endpoint,
        "  version             3.1",
        "  mechanism           NULL",
        "  socket type         ROUTER",
        '  identity            "broker"',
        '  property X-Service  "prices"',
        "  handshake           complete, with us as REQ",
        "  heartbeat           PING answered with its context in N ms",
        "  implementation      likely libzmq 4.3.3 or newer",
        "  time                connected in N ms, greeted in N ms, READY in N ms",
    ]


def test_reports_why_it_did_not_complete_the_handshake(probe: Run, libzmq: Libzmq) -> None:
    _, push, _ = probe(libzmq.endpoint("PUSH"))
    assert "handshake       not completed\n" in push
    assert "note a PUSH sends messages to every connected peer, so the handshake was not completed -> --join" in push
    _, pair, _ = probe(libzmq.endpoint("PAIR"))
    assert "note a PAIR has one partner, so the probe did not take its place -> --join does" in pair


@pytest.mark.parametrize(("sends", "takes"), [("PUSH", "PULL"), ("DEALER", "ROUTER"), ("PAIR", "PAIR")])
def test_a_probe_takes_no_message_from_other_peers(probe: Run, libzmq: Libzmq, sends: str, takes: str) -> None:
    sender, endpoint = libzmq.bound(sends, sndtimeo=5000)
    receiver = libzmq.socket(takes, rcvtimeo=2000)
    count = 5000

    def send() -> None:
        for number in range(count):
            sender.send(str(number).encode())

    def look() -> None:
        code, output, _ = probe(endpoint)
        assert code == 0
        assert f"socket type     {sends}" in output

    sending = in_thread(send)
    try:
        look()  # messages wait for anybody who comes
        receiver.connect(endpoint)
        got = [int(receiver.recv_multipart()[-1])]
        look()  # messages are on their way
        got += [int(receiver.recv_multipart()[-1]) for _ in range(count - 1)]
    finally:
        sending.result(PATIENCE)
    assert got == list(range(count))


def test_a_publisher_sends_it_nothing(probe: Run, libzmq: Libzmq) -> None:
    publisher, endpoint = libzmq.bound("XPUB")
    assert probe(endpoint)[0] == 0
    assert not publisher.poll(50)  # no subscription came


def test_ipc(probe: Run, libzmq: Libzmq, tmp_path: pathlib.Path) -> None:
    endpoint = f"ipc://{tmp_path}/socket"
    libzmq.socket("REP").bind(endpoint)
    code, output, _ = probe(endpoint, "--expect", "socket-type=REP")
    assert code == 0
    assert output.startswith(f"{endpoint}\n  version         3.1\n")


# -- security ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", ["PLAIN", "CURVE"])
def test_a_mechanism_that_needs_credentials_is_found(probe: Run, libzmq: Libzmq, mechanism: str) -> None:
    endpoint = libzmq.endpoint("PUB", mechanism)
    code, output, errors = probe(endpoint, "--expect", f"mechanism={mechanism}")
    assert (code, errors) == (0, "")
    assert (
        f"mechanism       {mechanism}\n  socket type     not announced\n  handshake       needs credentials" in output
    )
    assert ("-> add --server-key" if mechanism == "CURVE" else "-> add --user") in output
    code, output, errors = probe(endpoint, "--expect", "socket-type=PUB", "--json")
    assert (code, json_of(output)["exit_code"]) == (4, 4)
    assert errors == f'zmtpscope: {endpoint}: socket-type is not known, and "PUB" was expected\n'


@pytest.mark.usefixtures("logins")
def test_plain(probe: Run, libzmq: Libzmq, tmp_path: pathlib.Path) -> None:
    login = secret_file(tmp_path / "login", "admin:secret")
    for socket_type in HARMLESS.keys() & {*STABLE}:
        endpoint = libzmq.endpoint(socket_type, "PLAIN")
        code, output, _ = probe(endpoint, "--plain-file", login, "--json")
        found = json_of(output)
        assert (code, found["socket_type"], found["handshake"]) == (0, socket_type, "complete")
        assert found["ping"]["context_returned"]
    push = libzmq.endpoint("PUSH", "PLAIN")
    code, output, _ = probe(push, "--plain-file", login)
    assert code == 0
    assert "not announced; it may be PAIR, REQ, DEALER, PUSH, CLIENT" in output
    assert "-> --join tries the other types" in output
    code, output, _ = probe(push, "--plain-file", login, "--join", "--expect", "socket-type=PUSH")
    assert code == 0
    assert "secret" not in output


@pytest.mark.usefixtures("logins")
def test_a_refused_login(probe: Run, libzmq: Libzmq, tmp_path: pathlib.Path) -> None:
    wrong = secret_file(tmp_path / "login", "admin:not-this")
    code, output, errors = probe(libzmq.endpoint("PUB", "PLAIN"), "--plain-file", wrong)
    assert code == 14
    assert "the other side answered HELLO with ERROR '400': authentication refused" in errors
    assert "handshake       failed" in output
    assert "not-this" not in output + errors


def test_a_login_that_the_peer_does_not_need(probe: Run, libzmq: Libzmq, tmp_path: pathlib.Path) -> None:
    login = secret_file(tmp_path / "login", "admin:secret")
    code, _, errors = probe(libzmq.endpoint("PUB"), "--plain-file", login)
    assert code == 13
    assert "the other side uses mechanism NULL, and this side PLAIN" in errors


def test_curve(probe: Run, libzmq: Libzmq) -> None:
    endpoint = libzmq.endpoint("SUB", "CURVE")
    code, output, _ = probe(endpoint, "--server-key", SERVER.public, "--expect", "socket-type=SUB", "--json")
    found = json_of(output)
    assert (code, found["handshake"], found["joined_as"]) == (0, "complete", "PUB")
    assert found["ping"]["context_returned"]
    assert "libzmq" in found["implementation"]
    code, _, errors = probe(endpoint, "--server-key", CLIENT.public)
    assert code == 14
    assert "closed after our HELLO" in errors
    assert "the server key probably belongs to another server" in errors


@pytest.mark.usefixtures("logins")
def test_a_client_key_that_is_not_known(probe: Run, libzmq: Libzmq) -> None:
    code, _, errors = probe(libzmq.endpoint("PUB", "CURVE"), "--server-key", SERVER.public)
    assert code == 14
    assert "answered INITIATE with ERROR '400'" in errors


def test_a_client_key_that_is_known(probe: Run, libzmq: Libzmq, logins: Logins, tmp_path: pathlib.Path) -> None:
    _, certificate = zmq.auth.create_certificates(tmp_path, "client")
    pathlib.Path(certificate).chmod(0o600)
    logins.keys.add(zmq.auth.load_certificate(certificate)[0].decode())
    arguments = ["--server-key", SERVER.public, "--curve-file", certificate]
    code, output, errors = probe(libzmq.endpoint("PULL", "CURVE"), *arguments)
    assert (code, errors) == (0, "")
    assert "complete, with us as PUSH" in output


# -- expectations ------------------------------------------------------------------------------------------------------


def test_expectations_that_are_not_met(probe: Run, libzmq: Libzmq) -> None:
    endpoint = libzmq.endpoint("ROUTER")
    expected = ["identity=me", "implementation=LIBZMQ", "property:X-No=1", "mechanism=CURVE"]
    code, output, errors = probe(endpoint, "--json", *(word for each in expected for word in ("--expect", each)))
    assert code == 4
    results = {each["name"]: (each["found"], each["met"]) for each in json_of(output)["expectations"]}
    assert results["identity"] == ("", False)
    assert results["implementation"][1]
    assert results["property:X-No"] == (None, False)
    assert errors.splitlines() == [
        f'zmtpscope: {endpoint}: identity is "", and "me" was expected',
        f'zmtpscope: {endpoint}: property:X-No is not known, and "1" was expected',
        f'zmtpscope: {endpoint}: mechanism is "NULL", and "CURVE" was expected',
    ]


# -- whatever goes wrong -----------------------------------------------------------------------------------------------


def flood(connection: socket.socket) -> None:
    connection.sendall(GREETING + ready("PUB"))
    large = message(bytes(1 << 16))
    while True:
        connection.sendall(large)


def drip(connection: socket.socket) -> None:
    for octet in GREETING:
        connection.sendall(bytes([octet]))
        time.sleep(0.15)


WRONG: dict[str, tuple[Script, int, str]] = {
    "silent": (sending_script(), 11, "sent no data"),
    "drips": (drip, 11, "only part of its greeting"),
    "stops behind the signature": (sending_script(GREETING[:10]), 11, "only part of its greeting"),
    "HTTP": (
        sending_script(b"HTTP/1.1 400 Bad Request\r\n"),
        12,
        "does not speak ZMTP: its first octets are 'HTTP/1.1 400 Bad",
    ),
    "SSH": (
        sending_script(b"SSH-2.0-OpenSSH_9.6\r\n"),
        12,
        "does not speak ZMTP: its first octets are 'SSH-2.0-OpenSSH_",
    ),
    "MySQL": (sending_script(bytes.fromhex("4a0000000a382e302e3300") + bytes(70)), 12, "probably does not speak ZMTP"),
    "Telnet": (
        sending_script(bytes.fromhex("fffd18fffd20fffd23fffd27")),
        12,
        "does not speak ZMTP: its first octets are ff fd 18",
    ),
    "revision 0": (
        sending_script(GREETING[:10] + b"\x00\x01"),
        13,
        "announces revision 0, which is no version of ZMTP",
    ),
    "unknown socket type": (sending_script(GREETING, ready("\x1b[31mPUB")), 16, "Unknown socket type"),
    "flood": (flood, 16, "received more than 4 MiB, the limit of a probe"),
    "2^63": (sending_script(GREETING, ready("PUB"), b"\x02\x80" + bytes(7)), 16, "Frame size above 2^63-1"),
    "2^63 for READY": (sending_script(GREETING, b"\x06\x80" + bytes(7)), 16, "Frame size above 2^63-1"),
    "PONG for READY": (sending_script(GREETING, b"\x04\x05\x04PONG"), 16, "before the sender completed its handshake"),
    "closes": (sending_script(closes=True), 17, "the other side closed without sending data"),
    "closes in the signature": (sending_script(b"\xff\x00", closes=True), 17, "2 octets"),
    "closes in the greeting": (
        sending_script(GREETING[:40], closes=True),
        17,
        "after 40 octets and before it received our mech",
    ),
    "closes behind it": (sending_script(GREETING, closes=True), 17, "the other side closed after the greetings"),
    "ERROR": (sending_script(GREETING, REFUSAL), 14, "ERROR '400': authentication refused"),
}


@pytest.mark.parametrize("name", WRONG)
def test_failures_are_reported(probe: Run, name: str) -> None:
    script, expected, words = WRONG[name]
    wait = "0.5" if expected == 11 else "60"
    with served(script) as endpoint:
        start = time.monotonic()
        code, output, errors = probe(endpoint, "--wait", wait)
        assert time.monotonic() - start < 30
    assert code == expected
    assert errors.startswith(f"zmtpscope: {endpoint}: ")
    assert words in errors
    assert errors.count("\n") == 1
    assert "\x1b" not in output + errors


def test_refused(probe: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    code, output, errors = probe(f"tcp://127.0.0.1:{port}", "--expect", "socket-type=PUB")
    assert (code, output) == (10, "")
    assert errors == f"zmtpscope: tcp://127.0.0.1:{port}: connection refused: nothing listens on the port\n"
    code, output, _ = probe(f"tcp://127.0.0.1:{port}", "--json")
    found = json_of(output)
    assert (code, found["exit_code"], found["version"]) == (10, 10, None)
    assert found["error"] == "connection refused: nothing listens on the port"


def test_no_such_path(probe: Run, tmp_path: pathlib.Path) -> None:
    code, _, errors = probe(f"ipc://{tmp_path}/none")
    assert code == 10
    assert "no such file or directory" in errors


def test_a_name_server_that_does_not_answer(probe: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    over, answered = threading.Event(), []

    def look_up(*_: object, **__: object) -> list[object]:
        over.wait(60)
        answered.append(True)
        return []

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    code, _, errors = probe("tcp://somewhere.example:5555", "--wait", "0.1")
    assert not answered
    over.set()
    assert code == 10
    assert "no answer within 0.1 s" in errors


def test_text_of_the_network_is_escaped(probe: Run) -> None:
    evil = to_text(b'\x1b]0;"\xe2\x80\xae\xff\n')
    with served(sending_script(GREETING, ready("PUSH", ("Identity", evil), ("X-Evil", evil)))) as endpoint:
        code, output, _ = probe(endpoint)
        _, as_json, _ = probe(endpoint, "--json")
    assert code == 0
    assert 'identity         "\\x1b]0;"\\u202e\\xff\\x0a"\n' in output
    assert 'property X-Evil  "\\x1b]0;"' in output
    assert json_of(as_json)["identity"] == '\x1b]0;"\u202e\\xff\n'


def closes_unless(mechanism: str) -> Script:
    """Sends its mechanism only after it has read ours, and only if both are equal."""

    def script(connection: socket.socket) -> None:
        connection.sendall(GREETING[:11])
        greeting = build_greeting_3(mechanism)
        if receive(connection, 64)[12:32] == greeting[12:32]:
            connection.sendall(greeting[11:])
            hold(connection)

    return script


@pytest.mark.parametrize("mechanism", ["PLAIN", "CURVE"])
def test_searches_for_a_mechanism_that_is_not_announced(probe: Run, mechanism: str) -> None:
    with served(closes_unless(mechanism)) as endpoint:
        code, output, _ = probe(endpoint, "--json")
    found = json_of(output)
    assert (code, found["mechanism"], found["handshake"]) == (0, mechanism, "needs credentials")
    assert found["connections"] <= 3


def test_a_mechanism_that_cannot_be_found(probe: Run, tmp_path: pathlib.Path) -> None:
    login = secret_file(tmp_path / "login", "admin:secret")
    with served(closes_unless("OTHER")) as endpoint:
        for credentials in ([], ["--plain-file", login]):
            code, _, errors = probe(endpoint, *credentials)
            assert code == 13
            assert "after 11 octets, with each of the mechanisms NULL, PLAIN and CURVE" in errors
    with served(closes_unless("CURVE")) as endpoint:
        code, _, errors = probe(endpoint, "--plain-file", login)
        assert code == 13
        assert "the other side uses mechanism CURVE, and this side PLAIN" in errors


@pytest.mark.parametrize(("theirs", "ours"), [("XPUB", "SUB"), ("PULL", "PUSH")])
def test_a_server_that_waits_for_our_ready(probe: Run, theirs: str, ours: str) -> None:
    def script(connection: socket.socket) -> None:
        connection.sendall(GREETING)
        receive(connection, 64)
        fits = ours.encode() in receive(connection, receive(connection, 2)[1])
        connection.sendall(ready(theirs) if fits else command("NULL", "ERROR", reason="Invalid socket type"))
        if fits:
            hold(connection)

    with served(script) as endpoint:
        code, output, _ = probe(endpoint, "--json")
    found = json_of(output)
    assert (code, found["socket_type"], found["joined_as"]) == (0, theirs, ours)
