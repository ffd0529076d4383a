"""A status line on standard error, updated in place."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

INTERVAL = 0.5
"""Seconds between updates of the line."""

LAG_THAT_MATTERS = 1.0
"""Seconds. Reading the file lags by at most a quarter of it."""


class State(NamedTuple):
    """Counts so far, open connections, and the lag of the newest packet in seconds."""

    packets: int
    messages: int
    connections: int
    dropped: int
    lag: float


def status_text(state: State, rate: float | None = None) -> str:
    """`1,204 packets 310 messages (25/s) 2 connections 0 dropped lag 1.2 s`."""
    words = [
        f"{state.packets:,} packets",
        f"{state.messages:,} messages" + ("" if rate is None else f" ({rate:,.0f}/s)"),
        f"{state.connections:,} connection{'' if state.connections == 1 else 's'}",
        f"{state.dropped:,} dropped",
    ]
    if state.lag >= LAG_THAT_MATTERS:
        words.append(f"lag {state.lag:.1f} s")
    return "  ".join(words)


class StatusLine:
    """Shows states on a terminal, and does nothing without one."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._last: tuple[float, int] | None = None
        self._due = time.monotonic() + INTERVAL
        self._is_drawn = False

    @property
    def is_due(self) -> bool:
        return self._shown and time.monotonic() >= self._due

    def show(self, state: State) -> None:
        now = time.monotonic()
        before, messages = self._last or (now - INTERVAL, 0)
        self._last, self._due = (now, state.messages), now + INTERVAL
        rate = (state.messages - messages) / max(now - before, 1e-9)
        self._write(status_text(state, rate)[: shutil.get_terminal_size().columns - 1])
        self._is_drawn = True

    def clear(self) -> None:
        """Remove the line from the terminal before other output."""
        if self._is_drawn:
            self._is_drawn = False
            self._write("")

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
