"""The layout of columns, fitting of text to cells, and the sort order after clicks on headings."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from zmtpscope.tui.requests import Sort, TableColumn

GAP = 2
MIN_TEXT, MIN_LAST = 16, 28
"""Minimum cells of a narrowed text column, and of a last column without maximum."""
CUT = "…"
PLOTTED = "┃█▇▆▅▄▃▂▁· "
"""Characters of plots, most important first: the end of a connection, then high to low."""
FIRST_COMBINING = "\u0300"
"""Characters below this one take one cell."""
SORTED = {False: " ▲", True: " ▼"}


class Slot(NamedTuple):
    """Where a visible column is: its index, first cell on the line, and width."""

    column: int
    start: int
    width: int

    @property
    def stop(self) -> int:
        return self.start + self.width


def lay_out(columns: Sequence[TableColumn], widths: Sequence[int], width: int, margin: int = 0) -> tuple[Slot, ...]:
    """Place columns side by side after `margin`, within `width` cells. The last text column gets the rest.

    If the line is too narrow, columns of text are narrowed first, then names. If that is not enough, columns are
    hidden: the highest `rank` first, from right to left, and rank 0 never. Hidden columns that then fit are shown
    again.
    """
    shown, hidden = list(range(len(columns))), list[int]()
    least = [
        size if column.is_number or column.is_name else min(size, MIN_TEXT)
        for column, size in zip(columns, widths, strict=True)
    ]
    while len(shown) > 1 and _needed(shown, least) > width - margin:
        out = max(shown, key=lambda index: (columns[index].rank, index))
        if not columns[out].rank:
            break
        shown.remove(out)
        hidden.append(out)
    for back in reversed(hidden):
        if _needed(more := sorted([*shown, back]), least) <= width - margin:
            shown = more
    widths = _shrunk(columns, shown, widths, width - margin)
    slots, start = [], margin
    for index in shown:
        room = width - start
        if room <= 0:
            break
        takes_rest = index == shown[-1] and not columns[index].is_number
        slots.append(Slot(index, start, room if takes_rest else min(widths[index], room)))
        start = slots[-1].stop + GAP
    return tuple(slots)


def _needed(shown: Sequence[int], widths: Sequence[int]) -> int:
    *front, last = shown
    return sum(widths[index] + GAP for index in front) + (min(widths[last], MIN_TEXT) or MIN_LAST)


def _shrunk(columns: Sequence[TableColumn], shown: Sequence[int], widths: Sequence[int], width: int) -> list[int]:
    """Return the widths narrowed so that they fit, if possible: first the widest texts, then the widest names."""
    shrunk = list(widths)
    for is_name in (False, True):
        texts = [index for index in shown[:-1] if not columns[index].is_number and columns[index].is_name is is_name]
        while texts and (over := _needed(shown, shrunk) - width) > 0:
            widest = max(texts, key=shrunk.__getitem__)
            if shrunk[widest] <= MIN_TEXT:
                break
            shrunk[widest] = max(MIN_TEXT, shrunk[widest] - max(1, over // len(texts)))
    return shrunk


def scaled_plot(text: str, width: int) -> str:
    """Shrink a plot, drawn as text, to at most `width` cells.

    Each new cell stands for several old ones, and shows the character of these that comes first in `PLOTTED`.
    """
    if len(text) <= width:
        return text
    edges = [len(text) * cell // width for cell in range(width + 1)]
    return "".join(min(text[low:high], key=PLOTTED.find) for low, high in itertools.pairwise(edges))


class Cell(NamedTuple):
    """A text that fills the cells `start..stop` of a line."""

    start: int
    stop: int
    text: str
    style: Style


def line_of(cells: Iterable[Cell], between: Style, width: int) -> Strip:
    """Return a line with these cells from left to right. The style `between` fills gaps and the rest."""
    segments, at = [], 0
    for cell in cells:
        if cell.start > at:
            segments.append(Segment(" " * (cell.start - at), between))
        segments.append(Segment(cell.text, cell.style))
        at = cell.stop
    if at < width:
        segments.append(Segment(" " * (width - at), between))
    return Strip(segments, max(at, width))


def heading_line(
    columns: Sequence[TableColumn], slots: Iterable[Slot], sort: Sort | None, style: Style, width: int
) -> Strip:
    """Return the line of headings, with a mark on the sorted column."""
    cells = []
    for slot in slots:
        column = columns[slot.column]
        mark = SORTED[sort.descending] if sort is not None and sort.column == column.name else ""
        cells.append(Cell(slot.start, slot.stop, fitted(column.heading + mark, slot.width, column.is_number), style))
    return line_of(cells, style, width)


def column_at(slots: Iterable[Slot], x: int) -> int | None:
    """Return the index of the column at cell `x`, or None."""
    return next((slot.column for slot in slots if slot.start <= x < slot.stop), None)


def next_sort(column: TableColumn, sort: Sort | None) -> Sort:
    """Return the sort order after a click on a column: the reverse if it is sorted by this column, otherwise the
    largest number first."""
    if sort is not None and sort.column == column.name:
        return Sort(column.name, not sort.descending)
    return Sort(column.name, column.is_number)


def width_of(text: str) -> int:
    return len(text) if text.isascii() or max(text) < FIRST_COMBINING else cell_len(text)


def fitted(text: str, width: int, is_number: bool = False, skip: int = 0) -> str:
    """Pad or cut a text to `width` cells, without its first `skip` characters. Marks show where it is cut."""
    if skip:
        text = CUT + text[skip + 1 :] if len(text) > skip else ""
    needed = width_of(text)
    if needed > width:
        is_plain = needed == len(text) and max(text) < FIRST_COMBINING
        return "" if not width else (text[: width - 1] if is_plain else set_cell_size(text, width - 1)) + CUT
    return " " * (width - needed) + text if is_number else text + " " * (width - needed)
