"""Format batches with a template: one line per record, in the order of JSON lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

from zmtpscope.dissect import Batch, FrameTable, Options, Record
from zmtpscope.dissect.records.batch import Arrangement
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.clock import Clock
from zmtpscope.export.values import record_values
from zmtpscope.filter.fields import CAPTURE_START
from zmtpscope.templates.cells import Cells, shown_by
from zmtpscope.templates.template import Template

ROWS = 1 << 16
"""Number of rows to format at once."""


class TemplateLines:
    """Formats the records of a run with a template. `first_time()` returns the time (ns) of the first packet."""

    def __init__(
        self, template: Template, clock: Clock, options: Options, first_time: Callable[[], int | None]
    ) -> None:
        self.template = template
        self.options = options
        self.first_time = first_time
        self.records = template.records
        self._moves = clock.moves
        self._cells = {
            operand: Cells(operand, shown_by(operand, clock), template.separators, moves=clock.moves)
            for operand in template.operands
        }

    def lines(self, batch: Batch) -> Iterator[str]:
        """Yield the lines of a batch, several at a time."""
        start, order = self.first_time(), batch.arranged()
        between, at = order.between, 0
        frames: Iterator[dict[str, Any]] = iter(())
        if batch.frames and "frame" in self.records:
            frames = FrameRowColumns.of(batch).records()

        def line(item: Record | FrameTable) -> str:
            if (item.type if isinstance(item, Record) else "frame") not in self.records:
                return ""
            record = record_values(item, self.options) if isinstance(item, Record) else next(frames)
            return self._line({**record, CAPTURE_START: start})

        for low, high in self._chunks(order) if "message" in self.records else ():
            pieces: list[str] | None = None
            begin = low
            while begin < high:
                while at < len(between) and between[at][0] == begin:
                    yield line(between[at][1])
                    at += 1
                if pieces is None:  # after the previous lines, which its times can depend on
                    pieces = self._pieces(_part(order, low, high, batch.files, self.options), start)
                end = min(high, between[at][0]) if at < len(between) else high
                yield "".join(pieces[(begin - low) * self._width : (end - low) * self._width])
                begin = end
        for _, item, _ in between[at:]:
            yield line(item)

    @property
    def _width(self) -> int:
        return len(self.template.texts) + len(self.template.operands)

    def _chunks(self, order: Arrangement) -> Iterator[tuple[int, int]]:
        """Yield ranges (low, high) of message rows to format at once.

        If a line depends on the line before it, no record of another type may lie between the rows of a range.
        """
        count = len(order.places)
        edges = {*range(0, count, ROWS), count}
        if self._moves:
            edges.update(place for place, _, _ in order.between)
        return pairwise(sorted(edges))

    def _line(self, record: dict[str, Any]) -> str:
        cells = {operand: cells.of_record(record) for operand, cells in self._cells.items()}
        shown = [cells[operand] for operand in self.template.operands]
        return "".join(chain.from_iterable(zip(self.template.texts, [*shown, ""], strict=True)))

    def _pieces(self, columns: MessageColumns, start: int | None) -> list[str]:
        pieces = [""] * (self._width * len(columns))
        for place, text in enumerate(self.template.texts):
            if text:
                pieces[2 * place :: self._width] = [text] * len(columns)
        cells = {operand: cells.of_rows(columns, start) for operand, cells in self._cells.items()}
        for place, operand in enumerate(self.template.operands):
            pieces[2 * place + 1 :: self._width] = cells[operand]
        return pieces


def _part(order: Arrangement, low: int, high: int, files: Sequence[str | None], options: Options) -> MessageColumns:
    return MessageColumns(order.tables, order.places[low:high], files, options)
