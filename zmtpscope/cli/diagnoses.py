"""Diagnoses as they arise, a line each, for commands that follow a capture."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from zmtpscope.dissect import Batch
from zmtpscope.dissect.analyser import ENDED, Ongoing
from zmtpscope.export.clock import Clock
from zmtpscope.export.diagnosis.report import one_line
from zmtpscope.meaning.watch import Watch

INTERVAL, SHARE = 1.0, 20
"""Seconds between two looks, or so many times what the last one took: that grows with all that is known."""

MOST_SHOWN = 3
"""Lines that a screen has room for."""


class Diagnoses:
    """`feed` it all batches; when a look `is_due`, `news` has a line for each cause that was not told before. `last`
    are the newest of these lines."""

    def __init__(self, paint: Callable[[str, str], str]) -> None:
        self._watch = Watch()
        self._paint = paint
        self._clock = Clock("a", lambda: None)
        self._due = time.monotonic() + INTERVAL
        self.last: deque[str] = deque(maxlen=MOST_SHOWN)

    def feed(self, batch: Batch) -> None:
        """Learn from a batch."""
        self._watch.feed(batch)

    @property
    def is_due(self) -> bool:
        """Whether it is time for another look."""
        return time.monotonic() >= self._due

    def news(self, ongoing: Ongoing = ENDED) -> list[str]:
        """What is new since the last look; `ongoing` is that of the analyser, while packets still come."""
        began = time.monotonic()
        found = [one_line(diagnosis, self._clock, self._paint) for diagnosis in self._watch.news(ongoing)]
        now = time.monotonic()
        self._due = now + max(INTERVAL, SHARE * (now - began))
        self.last.extend(found)
        return found
