"""Read keys without blocking other work."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Self

SEQUENCES = {
    "[A": "up",
    "[B": "down",
    "OA": "up",
    "OB": "down",
    "[5~": "page up",
    "[6~": "page down",
    "[H": "home",
    "OH": "home",
    "[1~": "home",
    "[F": "end",
    "OF": "end",
    "[4~": "end",
}
"""Keys by the sequences that terminals send after ESC (xterm, Linux, screen and tmux)."""

NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace"}
_KEY = re.compile(r"\x1b(\[[0-9;]*[A-Za-z~]|O[A-Z])|\x1b|(.)", re.DOTALL)


def keys_of(typed: str) -> list[str]:
    """Return the keys of typed octets. A printable character is its own name; other keys have names; keys without a
    name are left out."""
    keys = []
    for match in _KEY.finditer(typed):
        sequence, character = match.groups()
        if character is not None:
            name = NAMES.get(character, character)
            keys += [name] if name.isprintable() else []
        elif sequence is None:
            keys.append("escape")
        elif sequence in SEQUENCES:
            keys.append(SEQUENCES[sequence])
    return keys


class Keyboard:
    """The keyboard of the terminal, also if standard input is redirected. Without a terminal there are no keys.
    Within the `with` block keys arrive immediately and are not echoed."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._opened: int | None = None
        self._before: list[Any] = []

    def __enter__(self) -> Self:
        try:
            if sys.stdin is not None and sys.stdin.isatty():
                self._fd = sys.stdin.fileno()
            else:
                self._fd = self._opened = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
        except (OSError, termios.error):
            self._fd = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        if self._opened is not None:
            os.close(self._opened)

    @property
    def is_there(self) -> bool:
        """Whether the terminal has a keyboard."""
        return self._fd is not None

    def read(self, seconds: float) -> list[str]:
        """Wait for keys for at most this time."""
        if self._fd is None or not select.select([self._fd], [], [], seconds)[0]:
            return []
        typed = os.read(self._fd, 1024)
        if not typed:
            self._fd = None  # the terminal has closed
        return keys_of(typed.decode("utf-8", "ignore"))
