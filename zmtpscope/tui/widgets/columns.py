"""Which columns have room, and where; and texts cut to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from zmtpscope.tui.requests import TableColumn

GAP = 2
"""Cells between two columns."""
LEAST_REST = 16
"""Cells that the last column has at least, before others are left out."""
CUT = "…"


class Slot(NamedTuple):
    """A column that is shown: which one, and its cells on the line."""

    column: int
    start: int
    width: int

    @property
    def stop(self) -> int:
        return self.start + self.width


def lay_out(columns: Sequence[TableColumn], widths: Sequence[int], width: int) -> tuple[Slot, ...]:
    """Side by side as far as the width (cells) goes; the last takes the rest. Those with the highest `rank` are left
    out first where there is no room; of equals, the one that stands further to the right."""
    shown = list(range(len(columns)))
    while len(shown) > 1 and _needed(shown, widths) > width:
        out = max(shown, key=lambda index: (columns[index].rank, index))
        if not columns[out].rank:
            break
        shown.remove(out)
    slots, start = [], 0
    for index in shown:
        room = width - start
        if room <= 0:
            break
        cells = room if index == shown[-1] else min(widths[index], room)
        slots.append(Slot(index, start, cells))
        start += cells + GAP
    return tuple(slots)


def _needed(shown: Sequence[int], widths: Sequence[int]) -> int:
    *front, last = shown
    return sum(widths[index] + GAP for index in front) + min(widths[last] or LEAST_REST, LEAST_REST)


def width_of(text: str) -> int:
    """Cells that a text takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def fitted(text: str, width: int, is_number: bool = False, skip: int = 0) -> str:
    """A text in exactly `width` cells, without its first `skip` characters; cut ends are marked."""
    if skip:
        text = CUT + text[skip + 1 :] if len(text) > skip else ""
    needed = width_of(text)
    if needed > width:
        return set_cell_size(text, width - 1) + CUT if width else ""
    return " " * (width - needed) + text if is_number else text + " " * (width - needed)
