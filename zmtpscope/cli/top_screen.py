"""The screen of `zmtpscope top`, controlled by keys."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from zmtpscope.cli.top_output import Numbers, Output
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.rows import Row
from zmtpscope.export.top.table import help_table, scaled, table_of
from zmtpscope.export.top.view import PLURALS, View
from zmtpscope.records import SECOND
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.export.top.rates import Interval

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
    """Return the names of the keys that a terminal sent as `typed`.

    A printable character is its own name. Keys without a name are left out.
    """
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
    """The keyboard of the terminal, even if standard input is redirected; without a terminal there are no keys.

    Within the `with` block, keys arrive immediately and are not echoed.
    """

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

    def __exit__(self, *error: object) -> None:
        if self._fd is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
        if self._opened is not None:
            os.close(self._opened)

    @property
    def is_there(self) -> bool:
        return self._fd is not None

    def read(self, seconds: float) -> list[str]:
        """Wait for keys, at most `seconds`; return their names."""
        if self._fd is None or not select.select([self._fd], [], [], seconds)[0]:
            return []
        typed = os.read(self._fd, 1024)
        if not typed:
            self._fd = None  # the terminal has closed
        return keys_of(typed.decode("utf-8", "ignore"))


REFRESH = 0.25
"""Seconds between checks of the terminal size while nothing arrives."""

REDRAWN = 0.25
"""Seconds between redraws while there are new numbers."""

FRAME = 3
"""Lines around the rows: title, headings, keys."""

KEYS = "t c p rows  < > sort  / filter  enter pin  space pause  h help  q quit"


class TopScreen(Output):
    """A table of the size of the terminal, with `title` above and `diagnoses` below, which keys change.

    The totals remain visible at the end.
    """

    is_screen = True

    def __init__(
        self,
        numbers: Numbers,
        view: View,
        most: int | None,
        title: Callable[[], str],
        diagnoses: Sequence[str] = (),
    ) -> None:
        super().__init__(numbers, view, most)
        self._diagnoses = diagnoses
        self._title = title
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keyboard = Keyboard()
        self._open = ExitStack()
        self._held: dict[str, list[Row]] | None = None
        """Rows while the screen is paused."""
        self._shown: list[Row] = []
        self._drawn = 0.0
        self._size = self._console.size
        self._is_old = True
        """Whether there are new numbers since the last redraw."""

    def __enter__(self) -> Self:
        self._open.enter_context(self._keyboard)
        self._open.enter_context(self._live)
        self.draw()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def update(self, interval: Interval | None) -> bool:
        self._is_old |= interval is not None or not self.numbers.is_live
        return interval is not None or self.wait(0)

    def finish(self, *, is_wanted: bool) -> None:
        self.draw()
        while is_wanted and self._keyboard.is_there and self.wait(REFRESH):
            pass
        self._open.close()
        self.print(self.numbers.in_all(self.view.kind))

    def wait(self, seconds: float) -> bool:
        """Handle keys for `seconds`, and redraw if needed; return False if the user leaves."""
        if self._size != self._console.size or (self._is_old and time.monotonic() - self._drawn >= REDRAWN):
            self.draw()
        for key in self._keyboard.read(seconds):
            if not self._press(key):
                return False
            self.draw()
        return True

    def _press(self, key: str) -> bool:
        goes_on = self.view.press(key, self._shown, self._page)
        if not self.view.paused:
            self._held = None
        elif self._held is None:
            self._held = {kind: self.numbers.now(kind) for kind in PLURALS}
        return goes_on

    @property
    def _page(self) -> int:
        return max(1, self._console.size.height - FRAME - len(self._diagnoses))

    def draw(self) -> None:
        """Draw everything, at the current size of the terminal."""
        size = self._console.size  # if it changes during drawing, everything is drawn again
        width, page, view = size.width, self._page, self.view
        rows = self.numbers.now(view.kind) if self._held is None else self._held[view.kind]
        self._shown = view.select(rows)
        view.follow(self._shown)
        below: RenderableType = help_table()
        lines = page + 1
        if not view.help:
            first = max(0, view.selected - page + 1)
            visible = self._shown[first : first + page]
            below = table_of(view, visible, width, view.selected - first if visible else None)
            lines = len(visible) + 1
        blank = [Text("")] * (page + 1 - lines)
        wrong = [Text(line, style="yellow", no_wrap=True, overflow="ellipsis") for line in self._diagnoses]
        self._live.update(Group(self._title_line(), below, *blank, *wrong, self._key_line()), refresh=True)
        self._drawn, self._size, self._is_old = time.monotonic(), size, False

    def _title_line(self) -> Text:
        view, rates = self.view, self.numbers.rates
        seconds = f"{self.numbers.seconds:.3f} s captured"
        if self.numbers.is_live and rates.interval_ns is not None:
            messages = rates.messages_before / (rates.interval_ns / SECOND)
            seconds = f"{self.numbers.seconds:.0f} s  {scaled(messages)} messages/s"
        order = f"by {view.column.name}{', reversed' if view.reverse else ''}"
        words = [
            safe_text(self._title()),
            seconds,
            f"{counted(len(self._shown), view.kind, PLURALS[view.kind])} {order}",
        ]
        words += [f'with "{safe_text(view.filter)}"'] if view.filter else []
        words += ["PAUSED"] if view.paused else []
        return Text("  ".join(words), style="bold", no_wrap=True, overflow="ellipsis")

    def _key_line(self) -> Text:
        typed = self.view.typed
        if typed is not None:
            return Text(f"show names that contain: {safe_text(typed)}_", no_wrap=True, overflow="ellipsis")
        return Text(KEYS, style="dim", no_wrap=True, overflow="ellipsis")
