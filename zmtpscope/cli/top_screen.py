"""The screen of `zmtpscope top`, controlled by keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from zmtpscope.cli.keyboard import Keyboard
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.top.rows import Row
from zmtpscope.export.top.table import help_table, table_of
from zmtpscope.export.top.view import PLURALS, View
from zmtpscope.words import counted

REDRAWN = 0.25
"""Seconds between redraws while there are new numbers."""

FRAME = 3
"""Around the rows: title, headings, keys."""

KEYS = "t c p rows  < > sort  / filter  enter pin  space pause  h help  q quit"


class TopScreen:
    """Shows the rows that `rows` returns for a kind, below `title`, as keys select, and then lines of `diagnoses`,
    which are safe to show."""

    def __init__(
        self,
        view: View,
        rows: Callable[[str], list[Row]],
        title: Callable[[], str],
        diagnoses: Sequence[str] = (),
    ) -> None:
        self.view = view
        self._diagnoses = diagnoses
        self._rows = rows
        self._title = title
        self._console = Console(highlight=False, markup=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._keyboard = Keyboard()
        self._held: dict[str, list[Row]] | None = None
        """Frozen rows, if the screen is paused."""
        self._shown: list[Row] = []
        self._drawn = 0.0
        self._size = self._console.size
        self._is_old = True
        """Whether there are new numbers since the last redraw."""

    def __enter__(self) -> Self:
        self._keyboard.__enter__()
        self._live.__enter__()
        self.draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)
        self._keyboard.__exit__(kind, error, trace)

    @property
    def has_keys(self) -> bool:
        return self._keyboard.is_there

    def change(self) -> None:
        """Note that the numbers have changed."""
        self._is_old = True

    def wait(self, seconds: float) -> bool:
        """Redraw if needed and handle keys for this time; return False to leave."""
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
            self._held = {kind: self._rows(kind) for kind in PLURALS}
        return goes_on

    @property
    def _page(self) -> int:
        return max(1, self._console.size.height - FRAME - len(self._diagnoses))

    def draw(self) -> None:
        """Draw everything, at the current size of the terminal."""
        size = self._console.size  # if it changes during drawing, everything is drawn again
        width, page, view = size.width, self._page, self.view
        rows = self._rows(view.kind) if self._held is None else self._held[view.kind]
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
        view = self.view
        order = f"by {view.column.name}{', reversed' if view.reverse else ''}"
        words = [self._title(), f"{counted(len(self._shown), view.kind, PLURALS[view.kind])} {order}"]
        words += [f'with "{safe_text(view.filter)}"'] if view.filter else []
        words += ["PAUSED"] if view.paused else []
        return Text("  ".join(words), style="bold", no_wrap=True, overflow="ellipsis")

    def _key_line(self) -> Text:
        typed = self.view.typed
        if typed is not None:
            return Text(f"show names that contain: {safe_text(typed)}_", no_wrap=True, overflow="ellipsis")
        return Text(KEYS, style="dim", no_wrap=True, overflow="ellipsis")
