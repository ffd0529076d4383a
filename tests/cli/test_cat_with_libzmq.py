"""`zmtpscope cat` against libzmq: every stable socket type in both roles, every version, every mechanism."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.cli.running import Run, secret_file
from tests.libzmq import CLIENT, SERVER, Libzmq, Logins
from tests.waiting import PATIENCE, in_thread


@pytest.fixture
def secret(tmp_path: pathlib.Path) -> Callable[[str], pathlib.Path]:
    return functools.partial(secret_file, tmp_path / "secret")


class Talk(NamedTuple):
    """The arguments of cat, the actions of the other socket, and the expected output."""

    theirs: str
    arguments: list[str]
    act: Callable[[Any], object]
    output: str = ""
    acted: object = None
    stdin: bytes = b""
    options: dict[str, Any] = {}  # noqa: RUF012


def answer(socket: Any) -> object:
    parts = socket.recv_multipart()
    socket.send_multipart([part.upper() for part in parts])
    return parts


def ask(socket: Any) -> object:
    socket.send_multipart([b"hello", b"there"])
    return socket.recv_multipart()


def give(socket: Any) -> None:
    for parts in ([b"one"], [b"two", b"", b"three"]):
        socket.send_multipart(parts)


def take(socket: Any) -> object:
    return [socket.recv_multipart() for _ in range(2)]


def publish(socket: Any) -> object:
    subscribed = socket.recv()
    socket.send(b"another")
    give(socket)
    return subscribed


def subscribe_and_say(socket: Any) -> object:
    socket.send(b"\1o")
    published = socket.recv_multipart()
    socket.send(b"up")
    return published


TALKS = {
    "REQ": Talk("REP", ["hello", "-c", "1"], answer, "HELLO\n", [b"hello"]),
    "REP": Talk("REQ", ["ok", "-c", "1"], ask, "hello\tthere\n", [b"ok"]),
    "DEALER": Talk(
        "ROUTER",
        ["--identity", "A", "--part", "", "--part", "hello", "-c", "1"],
        lambda socket: socket.send_multipart(socket.recv_multipart()),
        "\thello\n",
    ),
    "ROUTER": Talk(
        "DEALER",
        ["--echo", "-c", "1"],
        ask,
        "A\\xff\\\\\thello\tthere\n",
        [b"hello", b"there"],
        options={"routing_id": b"A\xff\\"},
    ),
    "PUSH": Talk("PULL", [], take, "", [[b"one"], [b"two"]], stdin=b"one\ntwo"),
    "PULL": Talk("PUSH", ["-c", "2"], give, "one\ntwo\t\tthree\n"),
    "PUB": Talk("SUB", [], take, "", [[b"one"], [b"two"]], stdin=b"one\ntwo\n", options={"subscribe": b""}),
    "SUB": Talk("XPUB", ["-c", "2", "--subscribe", "o", "--subscribe", "two"], publish, "one\ntwo\t\tthree\n", b"\1o"),
    "XPUB": Talk("XSUB", ["one", "--wait", "0.5"], subscribe_and_say, "\1o\nup\n", [b"one"]),
    "XSUB": Talk("XPUB", ["-c", "2", "--subscribe", "o", "--subscribe", "t"], publish, "one\ntwo\t\tthree\n", b"\1o"),
    "PAIR": Talk("PAIR", ["hello", "-c", "1"], answer, "HELLO\n", [b"hello"]),
}


@pytest.mark.parametrize("listens", [False, True], ids=["connects", "listens"])
@pytest.mark.parametrize("socket_type", TALKS)
def test_every_stable_socket_type(
    socket_type: str, listens: bool, libzmq: Libzmq, cat: Run, tmp_path: pathlib.Path
) -> None:
    talk = TALKS[socket_type]
    if listens:
        endpoint = f"ipc://{tmp_path}/socket"
        socket = libzmq.socket(talk.theirs, **talk.options)
        socket.connect(endpoint)
    else:
        socket, endpoint = libzmq.bound(talk.theirs, **talk.options)
    acting = in_thread(lambda: talk.act(socket))
    where = [endpoint, "--bind"] if listens else [endpoint]
    code, out, err = cat(socket_type.lower(), *where, *talk.arguments, stdin=talk.stdin)
    assert (code, out) == (0, talk.output), err
    assert acting.result(PATIENCE) == talk.acted
    assert err == (f"zmtpscope: listening on {endpoint}\n" if listens else "")


@pytest.mark.parametrize("version", ["1.0", "2.0", "3.0", "3.1"])
@pytest.mark.parametrize("socket_type", ["REQ", "PUSH", "SUB", "PUB"])
def test_every_version(socket_type: str, version: str, libzmq: Libzmq, cat: Run) -> None:
    talk = TALKS[socket_type]
    socket, endpoint = libzmq.bound(talk.theirs, **talk.options)
    acting = in_thread(lambda: talk.act(socket))
    code, out, err = cat(socket_type.lower(), endpoint, "--zmtp", version, *talk.arguments, stdin=talk.stdin)
    assert (code, out) == (0, talk.output), err
    # a subscriber of 1.0 cannot ask for anything, so it is sent everything
    everything = (socket_type, version) == ("SUB", "1.0")
    assert acting.result(PATIENCE) == (b"\1" if everything else talk.acted)


class TestPlain:
    @pytest.fixture
    def server(self, libzmq: Libzmq, logins: Logins) -> tuple[Any, str]:
        """A REP that lets admin in."""
        return libzmq.bound("REP", "PLAIN")

    def test_login(self, server: tuple[Any, str], cat: Run, secret: Callable[[str], pathlib.Path]) -> None:
        in_thread(lambda: answer(server[0]))
        assert cat("req", server[1], "hello", "--plain-file", secret("admin:secret\n")) == (0, "HELLO\n", "")

    def test_a_wrong_password_is_14(
        self, server: tuple[Any, str], cat: Run, secret: Callable[[str], pathlib.Path]
    ) -> None:
        code, out, err = cat("req", server[1], "hello", "--plain-file", secret("admin:wr0ng\n"))
        assert (code, out) == (14, "")
        assert "ERROR '400'" in err
        assert "wr0ng" not in err

    def test_a_server_with_security_is_13_without_credentials(self, server: tuple[Any, str], cat: Run) -> None:
        code, out, err = cat("req", server[1], "hello")
        assert (code, out) == (13, "")
        assert "mechanism" in err  # libzmq closes before or after it reports the reason

    def test_we_are_the_server(
        self, libzmq: Libzmq, cat: Run, secret: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
    ) -> None:
        endpoint = f"ipc://{tmp_path}/socket"
        refused = libzmq.socket("REQ", "PLAIN", plain_password=b"wr0ng")
        refused.connect(endpoint)
        socket = libzmq.socket("REQ", "PLAIN")
        socket.connect(endpoint)
        asking = in_thread(lambda: ask(socket))
        code, out, err = cat("rep", endpoint, "--bind", "ok", "-c", "1", "--plain-users", secret("x:y\nadmin:secret\n"))
        assert (code, out) == (0, "hello\tthere\n")
        assert asking.result(PATIENCE) == [b"ok"]
        assert "wr0ng" not in err


class TestCurve:
    def test_with_the_key_of_the_server(self, libzmq: Libzmq, cat: Run) -> None:
        socket, endpoint = libzmq.bound("REP", "CURVE")
        in_thread(lambda: answer(socket))
        assert cat("req", endpoint, "hello", "--server-key", SERVER.public) == (0, "HELLO\n", "")

    def test_with_a_wrong_key_is_14(self, libzmq: Libzmq, cat: Run) -> None:
        endpoint = libzmq.endpoint("REP", "CURVE")
        code, out, err = cat("req", endpoint, "hello", "--server-key", CLIENT.public)
        assert (code, out) == (14, "")
        assert "the server key probably belongs to another server" in err

    def test_we_are_the_server(
        self, libzmq: Libzmq, cat: Run, secret: Callable[[str], pathlib.Path], tmp_path: pathlib.Path
    ) -> None:
        endpoint = f"ipc://{tmp_path}/socket"
        socket = libzmq.socket("PUSH", "CURVE")
        socket.connect(endpoint)
        socket.send(b"sealed")
        code, out, err = cat("pull", endpoint, "--bind", "-c", "1", "--curve-server", secret(SERVER.secret))
        assert (code, out) == (0, "sealed\n"), err


def test_the_dialogue_is_recorded_with_its_keys(
    libzmq: Libzmq, cat: Run, zmtpscope: Run, tmp_path: pathlib.Path
) -> None:
    socket, endpoint = libzmq.bound("REP", "CURVE")
    in_thread(lambda: answer(socket))
    capture, keys = tmp_path / "out.pcapng", tmp_path / "out.keys"
    code, out, shown = cat("req", endpoint, "hello", "--server-key", SERVER.public, "--show", "-w", capture)
    assert (code, out) == (0, "HELLO\n")
    assert keys.stat().st_mode & 0o77 == 0
    assert "decrypted message 0+5 octets  HELLO" in shown
    code, read, err = zmtpscope("read", capture, "--keys", keys)
    assert (code, read, err) == (0, shown, "")
    code, _, err = cat("req", endpoint, "hello", "-w", capture)
    assert code == 2
    assert "--force" in err
    assert "closed by" in zmtpscope("read", capture)[1]
