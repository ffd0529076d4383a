"""The state of a run on standard error: a progress bar, or a status line of a live capture."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import CaptureStatistics

FIRST_SHOWN = 1.0
"""Seconds until the bar is first shown."""

REDRAWN = 0.2
BAR = 24
PCAP_HEADER = 16
"""Octets before each packet of a pcap file, accurate enough for a bar."""


class Progress:
    """A progress bar, drawn by its own thread until the end of the `with` block."""

    def __init__(self, statistics: CaptureStatistics, paths: Sequence[str], shown: bool) -> None:
        self._statistics = statistics
        self._total = total_size(paths) if shown else None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True) if shown else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *error: object) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()

    def _draw(self) -> None:
        start = time.monotonic()
        wait, drawn = FIRST_SHOWN, False
        while not self._done.wait(wait):
            wait, drawn = REDRAWN, True
            octets = self._statistics.octets + PCAP_HEADER * self._statistics.packets
            line = progress_line(octets, self._total, self._statistics.packets, time.monotonic() - start)
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def progress_line(octets: int, total: int | None, packets: int, seconds: float) -> str:
    """Return a progress bar as text: `[######------] 48 % 512 MB 93.1 MB/s 1234567 packets`, without the bar if `total`
    is unknown."""
    bar = ""
    if total:
        share = min(1.0, octets / total)
        filled = round(share * BAR)
        bar = f"[{'#' * filled}{'-' * (BAR - filled)}] {share:4.0%}  "
    return f"{bar}{octets / 1e6:.0f} MB  {octets / 1e6 / max(seconds, 1e-9):.1f} MB/s  {counted(packets, 'packet')}"


def total_size(paths: Sequence[str]) -> int | None:
    """Return the size of all files, or None if one is a pipe or compressed."""
    total = 0
    for path in paths:
        if not os.path.isfile(path) or path.endswith((".gz", ".zst")):
            return None
        total += os.path.getsize(path)
    return total


INTERVAL = 0.5
"""Seconds between updates of the line."""

LAG_THAT_MATTERS = 1.0
"""Lag in seconds that is shown. Reading the file lags by at most a quarter of it."""


class State(NamedTuple):
    """The counts of the status line: packets, messages, open connections, dropped packets, and the lag of the analysis
    in seconds."""

    packets: int
    messages: int
    connections: int
    dropped: int
    lag: float


def status_text(state: State, rate: float | None = None) -> str:
    """Return the status line: `1,204 packets 310 messages (25/s) 2 connections 0 dropped lag 1.2 s`."""
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
    """A status line on a terminal; without a terminal, it does nothing."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._last: tuple[float, int] | None = None
        self._due = time.monotonic() + INTERVAL
        self._is_drawn = False

    @property
    def is_due(self) -> bool:
        return self._shown and time.monotonic() >= self._due

    def show(self, state: State) -> None:
        from shutil import get_terminal_size  # it loads all compression modules

        now = time.monotonic()
        before, messages = self._last or (now - INTERVAL, 0)
        self._last, self._due = (now, state.messages), now + INTERVAL
        rate = (state.messages - messages) / max(now - before, 1e-9)
        self._write(status_text(state, rate)[: get_terminal_size().columns - 1])
        self._is_drawn = True

    def clear(self) -> None:
        """Erase the status line, so that other output can be printed."""
        if self._is_drawn:
            self._is_drawn = False
            self._write("")

    def __enter__(self) -> StatusLine:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
