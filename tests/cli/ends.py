"""The other ends of `zmtpscope cat` for tests: sockets of libzmq, scripted servers, and cat itself as a process."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

import pytest
import zmq

from zmtpscope.cli import run

Run = Callable[..., tuple[int, str, str]]
ROOT = pathlib.Path(__file__).parent.parent.parent
PATIENCE = 20
"""Seconds after which a test has failed; none waits for it."""

MAIN = "from zmtpscope.cli import main; main()"
NULL_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL".ljust(23, b"\0") + bytes(32)


def ready(socket_type: str) -> bytes:
    """A READY of NULL."""
    body = b"\x05READY\x0bSocket-Type" + len(socket_type).to_bytes(4) + socket_type.encode()
    return bytes((4, len(body))) + body


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """What `work` returns or raises, which runs meanwhile."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


class Libzmq:
    """Makes sockets of libzmq, and closes them."""

    def __init__(self) -> None:
        self.context = zmq.Context()
        self.sockets: list[Any] = []

    def socket(self, socket_type: str, **options: Any) -> Any:
        made = self.context.socket(getattr(zmq, socket_type))
        made.rcvtimeo = made.sndtimeo = PATIENCE * 1000
        made.linger = 0
        made.reconnect_ivl = 10
        for name, value in options.items():
            setattr(made, name, value)
        self.sockets.append(made)
        return made

    def bound(self, socket_type: str, **options: Any) -> tuple[Any, str]:
        """A socket that listens, and where."""
        made = self.socket(socket_type, **options)
        return made, f"tcp://127.0.0.1:{made.bind_to_random_port('tcp://127.0.0.1')}"

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self.context.term()


class Script:
    """A TCP server that does `act` with each connection, one after the other, or with the first alone (`once`)."""

    def __init__(self, act: Callable[[socket.socket], object], *, once: bool = False) -> None:
        self.once = once
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.act = act
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            if self.once:
                self.listener.close()
            with connection:
                connection.settimeout(PATIENCE)
                with suppress(OSError):
                    self.act(connection)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE)


def receive(connection: socket.socket, size: int) -> bytes:
    """So many octets."""
    octets = b""
    while len(octets) < size:
        piece = connection.recv(size - len(octets))
        if not piece:
            raise ConnectionError
        octets += piece
    return octets


def hold(connection: socket.socket) -> None:
    """Take all that comes until the other side closes."""
    while connection.recv(1 << 16):
        pass


def cat_in_this_process(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: pathlib.Path
) -> Run:
    """Runs `zmtpscope cat`: exit code, standard output, standard error."""

    def call(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        path = folder / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = run(["cat", *map(str, arguments)])
        return code, *capfd.readouterr()

    return call


class Cat:
    """`zmtpscope cat` as a process."""

    def __init__(self, *arguments: str, stdin: bytes | int | None = None, **options: Any) -> None:
        self.process = subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE if isinstance(stdin, bytes) or stdin is None else stdin,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            env=self.environment(),
            **options,
        )
        if isinstance(stdin, bytes):
            assert self.process.stdin is not None
            self.process.stdin.write(stdin)
            self.process.stdin.close()
            self.process.stdin = None

    @staticmethod
    def command(*arguments: str) -> list[str]:
        """What is run."""
        return [sys.executable, "-c", MAIN, "cat", *arguments]

    @staticmethod
    def environment() -> dict[str, str]:
        """In which it is found."""
        return os.environ | {"PYTHONPATH": str(ROOT)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def endpoint(self) -> str:
        """Where it says that it listens."""
        line = self.line(self.process.stderr)
        assert "listening on " in line, line
        return line.split()[-1]

    def line(self, stream: Any = None) -> str:
        """The next line of its output, without its end."""
        with deadline(self.process):
            return (stream or self.process.stdout).readline().decode().removesuffix("\n")

    def say(self, text: str) -> None:
        """A line on its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, *, interrupt: bool = False) -> tuple[int, str, str]:
        """Wait for its end: exit code, and what is left of standard output and error."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), err.decode()


@contextmanager
def deadline(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Reading ends with the process, and this one does not last."""
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
