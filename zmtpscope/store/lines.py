"""Format stored records as lines of text, as if all earlier records had been printed.

A line depends on earlier ones. A `TextLines` that has passed all earlier records formats it; copies are stored at
intervals to continue from.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.text import Look, TextLines

STEP = 8192
"""Records passed at once; minimum between two copies."""

MAX_COPIES = 64
"""Copies to keep; above, every second one is removed."""

MakeBatch = Callable[[int, int, bool], Batch]
"""Records `low..high` (high excluded), with or without their octets."""


class Lines:
    """Formats the lines of stored records as `read` does. `look` is the format; `batch` restores records."""

    def __init__(self, look: Look, options: Options, batch: MakeBatch) -> None:
        self._batch = batch
        self._copies: dict[int, TextLines] = {0: TextLines(look, options)}
        """Copies by the number of records passed to them. Each is copied before use."""
        self._step = STEP
        self._at = 0, self._copies[0].copy()
        """The record after the last line, and the `TextLines` that formatted it."""
        self._lock = Lock()

    def lines(self, low: int, high: int) -> list[str | None]:
        """Return the lines of the records `low..high` (high excluded); None for a record without a line."""
        with self._lock:
            text = self._text_at(low)
            lines: list[str | None] = [None] * (high - low)
            for number, line in text.lines_in_order(self._batch(low, high, True)):
                lines[number] = line
            self._at = high, text
            return lines

    def _text_at(self, row: int) -> TextLines:
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
        if len(self._copies) > MAX_COPIES:
            self._step *= 2
            self._copies = {each: text for each, text in self._copies.items() if each % self._step == 0}
