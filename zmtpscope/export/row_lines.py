"""Format lines of message and frame rows, many at once."""

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
    """Descriptions of the rows of many runs. `width` is the terminal width, or None."""

    def __init__(self, columns: RowColumns[Any], options: Options, width: int | None) -> None:
        self.columns = columns
        self.options = options
        self.width = width
        self._words: dict[int, RunWords] = {}
        """Formatters by run."""
        self.compiled: object = None
        """Cached state of the compiled `lines_of`."""

    @cached_property
    def run_of(self) -> list[int]:
        """Return the index of the run of each row."""
        runs: list[int] = self.columns.run_of.tolist()
        return runs

    def run(self, row: int) -> MessageRun | FrameRun:
        """Return the run of a row."""
        run: MessageRun | FrameRun = self.columns.runs[self.run_of[row]]
        return run

    def stream(self, row: int) -> Stream:
        """Return the stream of a row."""
        return self.run(row).stream

    def place_in_run(self, row: int) -> int:
        """Return the index of a row in its run."""
        return int(self.columns.row_of[row])

    def packet_and_time(self, row: int) -> tuple[int, int]:
        """Return the packet reference and the time of a row."""
        return int(self.columns.packets[row]), int(self.columns.times[row])

    def describe(self, row: int, used: int) -> str:
        """Describe a row, after `used` characters of its line."""
        run = self.run_of[row]
        words = self._words.get(run)
        if words is None:
            words = self._words[run] = RunWords(self.columns.runs[run], self.options, self.width)
        return words.describe(self.place_in_run(row), used)


@compiled.where_possible
def lines_of(words: RowWords, rows: Sequence[int], names: Sequence[Column], front: Front) -> list[str]:
    """Return the lines of rows with newlines, without a terminal. `names` are the sender and receiver of each row."""
    lines = []
    for row, (who, _) in zip(rows, names, strict=True):
        packet, time = words.packet_and_time(row)
        place = front.paint("dim", front.of_row(packet, time, words.columns.files))
        lines.append(f"{place}{who}{words.describe(row, 0)}\n")
    return lines
