"""A terminal in which tests run `zmtpscope` and press keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from tests.cli.running import COMMAND, ROOT
from tests.waiting import PATIENCE

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
HOME = "\x1b[H"
"""First octets of a whole screen drawn by Rich."""


class Terminal:
    """A process with a terminal of this size as its standard streams."""

    def __init__(self, *arguments: str, columns: int = 80, lines: int = 24, stdin: bytes | None = None) -> None:
        self._master, slave = pty.openpty()
        self._lines = lines
        self.resize(columns, lines)
        self.first_modes = self.modes
        self.written = ""
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=slave if stdin is None else subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(1, termios.TIOCSCTTY, 0),  # so that /dev/tty is this one
        )
        os.close(slave)
        if self.process.stdin is not None and stdin is not None:
            self.process.stdin.write(stdin)
            self.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as ssh does when its connection breaks."""
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def resize(self, columns: int, lines: int) -> None:
        self._lines = lines
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._master)

    @property
    def screen(self) -> list[str]:
        """Return the lines of the last screen, without colours."""
        return _CONTROL.sub("", self.written.rpartition(HOME)[2]).replace("\r", "").split("\n")

    def wait_for(self, *texts: str, first: str = "") -> list[str]:
        """Wait until the screen contains these texts and its first row begins with `first`; return the screen."""
        end = time.monotonic() + PATIENCE
        while not self._has(texts, first):
            assert time.monotonic() < end, f"not on the screen: {texts} {first}\n" + "\n".join(self.screen)
            self._read(0.1)
        return self.screen

    def read_until(self, text: str) -> None:
        """Wait until `text` is written to the terminal, outside of screens."""
        end = time.monotonic() + PATIENCE
        while text not in self.written:
            assert time.monotonic() < end, self.written
            self._read(0.1)

    def _has(self, texts: Sequence[str], first: str) -> bool:
        screen = self.screen
        is_whole = len(screen) == self._lines
        return is_whole and screen[2].startswith(first) and all(any(text in line for line in screen) for text in texts)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code, and the output after the last screen."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end
            self._read(0.1)
        while self._read(0):
            pass
        behind = self.written.rpartition("\x1b[?1049l")[2]
        return self.process.returncode, _CONTROL.sub("", behind).replace("\r", "")

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            octets = os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.written += octets.decode("utf-8", "replace")
        return bool(octets)
