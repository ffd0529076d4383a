"""Failures of `zmtpscope cat`: a sentence and an exit code, within the time limit."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import time
from functools import partial

import pytest

from tests import scripted
from tests.cli.running import Cat, Run
from tests.peer_octets import command, message, ready
from tests.scripted import REFUSAL, Script, hold, receive, sending_script, served
from zmtpscope.zmtp.framing import build_frame
from zmtpscope.zmtp.greeting import build_greeting_3
from zmtpscope.zmtp.regime import Framing

WAIT = 0.5
ENOUGH = 10
"""Seconds to read 64 MiB on a busy machine."""
LIMIT = WAIT + 2
PATIENCE = ENOUGH + 15
"""Seconds that a run may take on a busy machine: one without a limit would take for ever."""

GREETING = build_greeting_3(version="3.0")
handshake = partial(scripted.handshake, greeting=GREETING)


def behind_greetings(*octets: bytes) -> Script:
    """Send this after the greetings of both sides."""

    def script(connection: socket.socket) -> None:
        connection.sendall(GREETING)
        receive(connection, 64)
        sending_script(*octets)(connection)

    return script


def behind_handshake(socket_type: str, *octets: bytes, closes: bool = False) -> Script:
    """Send this after the READY of both sides."""

    def script(connection: socket.socket) -> None:
        handshake(connection, socket_type)
        sending_script(*octets, closes=closes)(connection)

    return script


def flood_in_front_of_ready(connection: socket.socket) -> None:
    connection.sendall(GREETING)
    while True:
        connection.sendall(message(b"x") * 10_000)


def flood_of_parts(connection: socket.socket) -> None:
    handshake(connection, "REP")
    part = build_frame(Framing.V2, bytes(1 << 16), more=True)
    while True:
        connection.sendall(part)


def dies_in_the_reply(connection: socket.socket) -> None:
    handshake(connection, "REP")
    receive(connection, 2)
    connection.sendall(b"\1\0\0\x64too short")


def dies_before_the_reply(connection: socket.socket) -> None:
    handshake(connection, "REP")
    receive(connection, 2)


FAILURES: dict[str, tuple[Script, int, str]] = {
    "silent": (sending_script(), 11, "the other side sent no data within 0.5 s"),
    "closes_at_once": (sending_script(closes=True), 17, "the other side closed without sending data"),
    "web_server": (
        sending_script(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        12,
        "does not speak ZMTP: its first octets are 'HTTP/1.1",
    ),
    "secure_shell": (
        sending_script(b"SSH-2.0-OpenSSH_9.2p1\x1b[31m\r\n"),
        12,
        "does not speak ZMTP: its first octets are 53 53 48 2d 32 2e 30 2d 4f 70 65 6e 53 53 48 5f, which is SSH",
    ),
    "curve_server": (
        sending_script(build_greeting_3("CURVE", version="3.0")),
        13,
        "the other side uses mechanism CURVE, and this side NULL",
    ),
    "wrong_type": (
        behind_greetings(ready("PULL")),
        15,
        "the other side is PULL, which REQ cannot connect to; PUSH may",
    ),
    "error": (behind_greetings(REFUSAL), 14, "ERROR '400'"),
    "stops_in_the_handshake": (sending_script(GREETING), 11, "the other side did not send its READY within 0.5 s"),
    "flood_in_front_of_ready": (
        flood_in_front_of_ready,
        16,
        "Message before the sender completed its handshake",
    ),
    "flood_of_parts": (flood_of_parts, 16, "a message is larger than the limit of"),
    "endless_frame": (behind_handshake("REP", b"\2" + (1 << 63).to_bytes(8) + b"x" * 100), 16, "octet"),
    "large_frame": (
        behind_handshake("REP", b"\2" + (1 << 40).to_bytes(8) + b"x" * 100),
        16,
        "a message is larger than the limit of",
    ),
    "no_reply": (behind_handshake("REP"), 11, "no reply arrived within 0.5 s"),
    "dies_in_the_reply": (dies_in_the_reply, 17, "the other side closed inside a message"),
    "dies_before_the_reply": (
        dies_before_the_reply,
        17,
        "the other side closed the connection without answering the request",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_requests(name: str, cat: Run) -> None:
    script, exit_code, sentence = FAILURES[name]
    with served(script) as endpoint:
        begin = time.monotonic()
        code, out, err = cat("req", endpoint, "hello", "--wait", ENOUGH if name == "flood_of_parts" else WAIT)
        assert time.monotonic() - begin < PATIENCE
    assert (code, out) == (exit_code, "")
    assert err.startswith(f"zmtpscope: {endpoint}: ")
    assert sentence in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_refused(cat: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for arguments in (["req", "x"], ["push", "x"], ["pub", "x"], ["sub"], ["dealer"]):
        code, out, err = cat(arguments[0], f"tcp://127.0.0.1:{port}", *arguments[1:], "--wait", 0.2)
        assert (code, out) == (10, "")
        assert err == f"zmtpscope: tcp://127.0.0.1:{port}: connection refused: nothing listens on the port\n"


def test_no_such_host(cat: Run) -> None:
    code, _, err = cat("req", "tcp://nowhere.invalid:5555", "x", "--wait", 0.2)
    assert code == 10
    assert "nowhere.invalid:5555: " in err


def test_no_such_socket_file(cat: Run, tmp_path: pathlib.Path) -> None:
    code, _, err = cat("req", f"ipc://{tmp_path}/none", "x", "--wait", 0.2)
    assert code == 10
    assert "no such file or directory" in err


def test_an_endpoint_that_is_taken(cat: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, err = cat("pull", f"tcp://127.0.0.1:{taken.getsockname()[1]}", "--bind")
    assert code == 10
    assert "address already in use" in err


def test_a_server_that_starts_late(cat: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Cat("req", f"tcp://127.0.0.1:{port}", "hello") as asking:
        time.sleep(0.3)
        code, out, err = cat("rep", f"tcp://127.0.0.1:{port}", "ok", "--bind", "-c", 1)
        assert (code, out) == (0, "hello\n"), err
        assert asking.end() == (0, "ok\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["pull"], "no peer connected within 0.2 s"),
        (["rep", "ok"], "no peer connected within 0.2 s"),
        (["pub", "x"], "no peer connected within 0.2 s"),
    ],
)
def test_no_peer_connects(arguments: list[str], sentence: str, cat: Run) -> None:
    code, out, err = cat(arguments[0], "tcp://:0", *arguments[1:], "--bind", "--wait", 0.2)
    assert (code, out) == (11, "")
    assert sentence in err


@pytest.mark.parametrize("host", ["a" * 64, "\udcff"], ids=["long", "no text"])
def test_no_host_has_this_name(host: str, cat: Run) -> None:
    for listens in ([], ["--bind"]):
        code, out, err = cat("pull", f"tcp://{host}:5555", *listens, "--wait", 0.2)
        assert (code, out) == (10, "")
        assert err.endswith("not a valid host name\n")


def test_no_peer_subscribes(cat: Run) -> None:
    with served(behind_handshake("SUB")) as endpoint:
        code, _, err = cat("pub", endpoint, "x", "--wait", 0.2)
    assert code == 11
    assert "no peer subscribed within 0.2 s" in err


def test_unwanted_messages_are_reported_ten_times_and_counted(cat: Run) -> None:
    with served(behind_handshake("SUB", command("NULL", "SUBSCRIBE", topic="news"))) as endpoint:
        code, _, err = cat("pub", endpoint, stdin=b"sports\x1b[2J\n" * 50 + b"news\n")
    assert code == 0
    lines = err.splitlines()
    assert lines[0] == 'zmtpscope: no peer subscribed to "sports\\x1b[2J": not sent'
    assert len(lines) == 11
    assert lines[-1] == "zmtpscope: messages without a subscriber: 50 in total"


def test_a_missing_message_is_11(cat: Run) -> None:
    with served(behind_handshake("PUB", message(b"x"))) as endpoint:
        assert cat("sub", endpoint, "-c", 2, "--wait", 0.2)[:2] == (11, "x\n")
        code, out, err = cat("sub", endpoint, "--wait", 0.2)
        assert (code, out, err) == (0, "x\n", "")


def test_a_publisher_that_dies_in_the_middle(cat: Run) -> None:
    with served(behind_handshake("PUB", message(b"x"), b"\0\x64half", closes=True), once=True) as endpoint:
        code, out, err = cat("sub", endpoint, "-c", 2, "--wait", 0.3)
    assert (code, out) == (17, "x\n")
    assert "the other side closed inside a message" in err


def test_a_pull_that_goes_away_is_17(cat: Run) -> None:
    def take_a_little(connection: socket.socket) -> None:
        handshake(connection, "PULL")
        receive(connection, 1000)

    with served(take_a_little, once=True) as endpoint:
        code, _, err = cat("push", endpoint, "--wait", 0.3, stdin=b"x" * 100_000 + b"\n" + b"y\n" * 1_000_000)
    assert code in (10, 17), err


def test_expectations(cat: Run) -> None:
    def reply(connection: socket.socket) -> None:
        handshake(connection, "REP")
        while True:
            receive(connection, 2)
            receive(connection, receive(connection, 2)[1])
            connection.sendall(message(b"", b"pong", b"\x1b[m"))

    with served(reply) as endpoint:
        assert cat("req", endpoint, "ping", "--expect", "pong")[0] == 0
        assert cat("req", endpoint, "ping", "--expect", "1b5b6d", "--hex", "--part", "70")[0] == 2
        assert cat("req", endpoint, "--hex", "70", "--expect", "1b5b6d")[0] == 0
        code, out, err = cat("req", endpoint, "ping", "--expect", "po")
    assert (code, out) == (4, "pong\t\x1b[m\n")
    assert err == 'zmtpscope: received a message of 2 parts, "pong" | "\\x1b[m", without the part "po"\n'


@pytest.mark.slow
def test_single_connections_do_not_end_a_listener() -> None:
    with Cat("pull", "tcp://:0", "--bind", "-c", "1") as pulling:
        endpoint = pulling.endpoint()
        port = int(endpoint.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            hold(stranger)
        with socket.create_connection(("127.0.0.1", port)) as pusher:
            handshake(pusher, "PUSH")
            pusher.sendall(message(b"hello"))
            code, out, err = pulling.end()
    assert (code, out) == (0, "hello\n")
    assert "the other side does not speak ZMTP: its first octets are" in err


def test_a_command_that_cannot_start_keeps_an_earlier_recording(tmp_path: pathlib.Path, cat: Run) -> None:
    recorded = tmp_path / "out.pcapng"
    recorded.write_bytes(b"the last one")
    code, _, _ = cat("req", "h:1", "x", "-w", recorded, "--force")
    assert code == 2
    assert recorded.read_bytes() == b"the last one"


@pytest.mark.parametrize("closed", [False, True], ids=["full", "closed"])
def test_a_dialogue_that_cannot_be_shown_continues(closed: bool, tmp_path: pathlib.Path) -> None:
    """The output is so large that it is shown while it is sent."""
    message = tmp_path / "message"
    message.write_bytes(bytes(3 << 20))
    taken = []

    def take(connection: socket.socket) -> None:
        handshake(connection, "PULL")
        while octets := connection.recv(1 << 20):
            taken.append(len(octets))

    with served(take) as endpoint, open("/dev/full", "wb") as full:
        done = subprocess.run(
            Cat.command("push", endpoint, f"@{message}", "--show"),
            env=Cat.environment(),
            stderr=full,
            preexec_fn=partial(os.close, 2) if closed else None,
        )
    assert done.returncode == 0
    assert sum(taken) == 9 + (3 << 20)


def test_lines_that_are_no_messages(cat: Run) -> None:
    with served(behind_handshake("PULL")) as endpoint:
        code, _, err = cat("push", endpoint, "--hex", stdin=b"00\n0g\x1b\n")
    assert code == 2
    assert err.startswith("zmtpscope: line 2 of standard input: '0g\\x1b' is not hex: ")


def test_help(cat: Run) -> None:
    code, out, _ = cat("--help")
    assert code == 0
    assert "Exit codes" in out


@pytest.mark.slow
def test_a_peer_that_reads_nothing_is_not_waited_for_longer_than_asked(tmp_path: pathlib.Path, cat: Run) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(16 << 20))

    def script(connection: socket.socket) -> None:
        handshake(connection, "PULL")
        time.sleep(LIMIT)

    with served(script) as endpoint:
        code, _, err = cat("push", endpoint, f"@{file}", "--wait", 0.3)
    assert code == 11
    assert "the other side did not receive all messages within 0.3 s" in err
