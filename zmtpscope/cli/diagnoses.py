"""Diagnoses as lines, as soon as they arise, for commands that follow a capture."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from zmtpscope.diagnosis.watch import Watch
from zmtpscope.dissect import Batch
from zmtpscope.dissect.analyser import ENDED, Ongoing
from zmtpscope.export.clock import Clock
from zmtpscope.export.diagnosis.report import one_line

INTERVAL, SHARE = 1.0, 20
"""Minimum seconds between updates, also as a multiple of the duration of the last update, which grows with the data."""

MAX_SHOWN = 3


class Diagnoses:
    """Finds new diagnoses in a live capture.

    Pass all batches to `feed`. When `is_due`, `news` returns a line for each new diagnosis. `last` are the latest
    lines.
    """

    def __init__(self, paint: Callable[[str, str], str]) -> None:
        self._watch = Watch()
        self._paint = paint
        self._clock = Clock("a", lambda: None)
        self._due = time.monotonic() + INTERVAL
        self.last: deque[str] = deque(maxlen=MAX_SHOWN)

    def feed(self, batch: Batch) -> None:
        self._watch.feed(batch)

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._due

    def news(self, ongoing: Ongoing = ENDED) -> list[str]:
        """Return a line for each diagnosis that is new since the last call.

        `ongoing` is the state of the analyser while packets still arrive (stalls, outages).
        """
        began = time.monotonic()
        found = [one_line(diagnosis, self._clock, self._paint) for diagnosis in self._watch.news(ongoing)]
        now = time.monotonic()
        self._due = now + max(INTERVAL, SHARE * (now - began))
        self.last.extend(found)
        return found
