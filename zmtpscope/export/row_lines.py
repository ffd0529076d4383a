"""Lines of message and frame rows, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from zmtpscope import compiled
from zmtpscope.dissect import FrameRun, MessageRun, Options
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.row_columns import RowColumns
from zmtpscope.export.front import Front
from zmtpscope.export.rows import RunWords
from zmtpscope.export.sides_column import Column


class RowWords:
    """Rows of runs in words, whichever run each is of. `width` is that of the terminal, if there is one."""

    def __init__(self, columns: RowColumns[Any], options: Options, width: int | None) -> None:
        self.columns = columns
        self.options = options
        self.width = width
        self._words: dict[int, RunWords] = {}
        """By run."""
        self.compiled: object = None
        """What the compiled `lines_of` has of the rows."""

    @cached_property
    def run_of(self) -> list[int]:
        """Which run each row is of."""
        runs: list[int] = self.columns.run_of.tolist()
        return runs

    def run(self, row: int) -> MessageRun | FrameRun:
        """The run of a row."""
        run: MessageRun | FrameRun = self.columns.runs[self.run_of[row]]
        return run

    def stream(self, row: int) -> Stream:
        """Who sent a row to whom."""
        return self.run(row).stream

    def place_in_run(self, row: int) -> int:
        """Which row of its run it is."""
        return int(self.columns.row_of[row])

    def packet_and_time(self, row: int) -> tuple[int, int]:
        """The packet reference of a row, and its time."""
        return int(self.columns.packets[row]), int(self.columns.times[row])

    def describe(self, row: int, used: int) -> str:
        """A row in words; `used` characters stand in front of it."""
        run = self.run_of[row]
        words = self._words.get(run)
        if words is None:
            words = self._words[run] = RunWords(self.columns.runs[run], self.options, self.width)
        return words.describe(self.place_in_run(row), used)


@compiled.where_possible
def lines_of(words: RowWords, rows: Sequence[int], names: Sequence[Column], front: Front) -> list[str]:
    """The lines of rows, each with its newline, where there is no terminal; `names` say who sends each to whom."""
    lines = []
    for row, (who, _) in zip(rows, names, strict=True):
        packet, time = words.packet_and_time(row)
        place = front.paint("dim", front.of_row(packet, time, words.columns.files))
        lines.append(f"{place}{who}{words.describe(row, 0)}\n")
    return lines
