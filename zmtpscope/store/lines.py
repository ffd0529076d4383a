"""The lines of records for people, as they are when all in front of them have been shown.

A line depends on what was shown before it: how sides are called, how wide columns are, which hints were told. So lines
are made by a `TextLines` that has passed by what is in front of them; now and then a copy is kept, to go on from.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.text import Look, TextLines

STEP = 8192
"""Records that are passed by at once, and between two copies at least."""

MOST_COPIES = 64
"""Where there would be more, every second one goes."""

MakeBatch = Callable[[int, int, bool], Batch]
"""The records `low..high` (high excluded), with or without their octets."""


class Lines:
    """The lines of a store, as `look` has them; `batch` makes its records."""

    def __init__(self, look: Look, options: Options, batch: MakeBatch) -> None:
        self._batch = batch
        self._copies: dict[int, TextLines] = {0: TextLines(look, options)}
        """By how many records each has passed by: what goes on from there is a copy of it."""
        self._step = STEP
        self._at = 0, self._copies[0].copy()
        """Where the last line was made, and what made it."""
        self._lock = Lock()

    def lines(self, low: int, high: int) -> list[str | None]:
        """Those of the records `low..high` (high excluded); None of what is of no news."""
        with self._lock:
            text = self._text_at(low)
            lines: list[str | None] = [None] * (high - low)
            for number, line in text.lines_in_order(self._batch(low, high, True)):
                lines[number] = line
            self._at = high, text
            return lines

    def _text_at(self, row: int) -> TextLines:
        """What makes the line of `row`."""
        at, text = self._at
        nearest = max(each for each in self._copies if each <= row)
        if not nearest <= at <= row:
            at, text = nearest, self._copies[nearest].copy()
        while at < row:
            stop = min(row, at - at % self._step + self._step)
            text.pass_by(self._batch(at, stop, False))
            at = stop
            if at % self._step == 0 and at not in self._copies:
                self._keep(at, text.copy())
        return text

    def _keep(self, at: int, text: TextLines) -> None:
        self._copies[at] = text
        if len(self._copies) > MOST_COPIES:
            self._step *= 2
            self._copies = {each: text for each, text in self._copies.items() if each % self._step == 0}
