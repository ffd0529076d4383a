"""A progress bar on standard error for long jobs."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from zmtpscope.capture import CaptureStatistics
from zmtpscope.words import counted

FIRST_SHOWN = 1.0
"""Seconds until the bar is first shown."""

INTERVAL = 0.2
BAR = 24
PCAP_HEADER = 16
"""Octets before each packet of a pcap file, accurate enough for a bar."""


class Progress:
    """Draws the counters of a run from its own thread, until the `with` block ends."""

    def __init__(self, statistics: CaptureStatistics, paths: Sequence[str], shown: bool) -> None:
        self._statistics = statistics
        self._total = total_size(paths) if shown else None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True) if shown else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()

    def _draw(self) -> None:
        start = time.monotonic()
        wait, drawn = FIRST_SHOWN, False
        while not self._done.wait(wait):
            wait, drawn = INTERVAL, True
            octets = self._statistics.octets + PCAP_HEADER * self._statistics.packets
            line = progress_line(octets, self._total, self._statistics.packets, time.monotonic() - start)
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def progress_line(octets: int, total: int | None, packets: int, seconds: float) -> str:
    """`[######------] 48 % 512 MB 93.1 MB/s 1234567 packets`, without a bar if the total is unknown."""
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
