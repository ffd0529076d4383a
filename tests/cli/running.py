"""`zmtpscope` as tests run it: its command line, and `zmtpscope cat` as a process."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE

Run = Callable[..., tuple[int, str, str]]
ROOT = pathlib.Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-c", "from zmtpscope.cli import main; main()"]


def secret_file(path: pathlib.Path, content: str | bytes, mode: int = 0o600) -> pathlib.Path:
    """A file that only we may read, unless another mode is given."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


class Cat:
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
        return [*COMMAND, "cat", *arguments]

    @staticmethod
    def environment() -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(ROOT)}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def endpoint(self) -> str:
        """Return the endpoint that the command reports."""
        line = self.line(self.process.stderr)
        assert "listening on " in line, line
        return line.split()[-1]

    def line(self, stream: Any = None) -> str:
        """The next line of its output, without its end."""
        with deadline(self.process):
            return (stream or self.process.stdout).readline().decode().removesuffix("\n")

    def write_line(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, *, interrupt: bool = False) -> tuple[int, str, str]:
        """Wait for the end; return exit code, and the rest of standard output and error."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, (out or b"").decode(), err.decode()


@contextmanager
def deadline(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Reading ends with the process, which is killed where that takes too long."""
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
