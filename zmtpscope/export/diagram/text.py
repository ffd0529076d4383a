"""Draw a diagram as text: a column for each lifeline, and the texts of arrows to the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from zmtpscope.export.clock import Clock
from zmtpscope.export.diagram.events import ATTEMPT, CLOSING, OPENING
from zmtpscope.export.diagram.layout import FOLD, PAUSE, REST, Diagram, Row
from zmtpscope.export.wrap import wrap

CLOSEST, WIDEST = 6, 22
"""Smallest and largest distance between lifelines, in columns."""

MIN_WORDS = 30
"""Columns for the texts of arrows."""


class Marks(NamedTuple):
    """The characters for lines, ends of arrows, crossings, and notes on lifelines."""

    life: str
    line: str
    tcp: str
    right: str
    left: str
    starts: str
    ends: str
    crossing: str
    lost: str
    note: str
    fold: str
    loop: str
    more: str


UNICODE = Marks("│", "─", "╌", "►", "◄", "├", "┤", "┼", "✕", "◆", "⋮", "↺", "…")
ASCII = Marks("|", "-", ".", ">", "<", "|", "|", "|", "x", "*", ":", "@", "...")


class Look(NamedTuple):
    """Settings of a text diagram.

    `paint` takes a style of `export.text.STYLES` and a text. `width` is the terminal width, or None. `is_unicode`: the
    terminal can show box-drawing characters.
    """

    clock: Clock
    paint: Callable[[str, str], str]
    width: int | None = None
    is_unicode: bool = True


def text_lines(diagram: Diagram, look: Look) -> Iterator[str]:
    if diagram.rows:
        yield from _Drawing(diagram, look).lines()


class _Drawing:
    def __init__(self, diagram: Diagram, look: Look) -> None:
        self.diagram, self.look = diagram, look
        self.marks = UNICODE if look.is_unicode else ASCII
        self.names = [line.name for line in diagram.lifelines]
        self.packet_width = max(5, *(len(row.packet) for row in diagram.rows))
        self.conn_width = max((len(f"c{conn}") for conn in diagram.connections), default=0)
        self.time_width = len(look.clock(diagram.rows[0].time))
        front = self.packet_width + 1 + self.time_width + 2 + self.conn_width + bool(self.conn_width) * 2
        room = None if look.width is None else look.width - front - MIN_WORDS
        self.places = _places([cell_len(name) for name in self.names], room)
        self.has_names = self.places[-1] == _places([cell_len(name) for name in self.names], None)[-1]
        self.front = front

    @property
    def columns(self) -> int:
        """The width in characters of all lifelines, including the name of the last."""
        return self.places[-1] + 1

    def lines(self) -> Iterator[str]:
        for number, line in enumerate(self.diagram.lifelines, 1):
            name = line.name if self.has_names else f"{number} {line.name}"
            yield f"{name:<{max(map(cell_len, self.names)) + 2}}  {', '.join(line.about)}".rstrip() + "\n"
        yield "\n"
        yield self._heading() + "\n"
        for row in self.diagram.rows:
            yield self._line(row) + "\n"

    def _heading(self) -> str:
        names = self.names if self.has_names else [str(number) for number in range(1, len(self.names) + 1)]
        line = ""
        for name, place in zip(names, self.places, strict=True):
            start = max(self.front + place - cell_len(name) // 2, cell_len(line) + bool(line))
            line = set_cell_size(line, start) + name
        return line

    def _line(self, row: Row) -> str:
        look, marks, drawn = self.look, self.marks, self._drawn(row)
        time = "" if row.kind in (PAUSE, REST) else look.clock(row.time)
        conn = "" if row.conn is None else f"c{row.conn}"
        front = f"{row.packet:>{self.packet_width}} {time:>{self.time_width}}  "
        front += f"{conn:<{self.conn_width}}  " if self.conn_width else ""
        used = self.front + len(drawn) + 2
        first = look.paint("dim", front) + drawn + "  "
        style = _style(row)
        words = "  ".join(filter(None, (row.what, row.content)))
        if row.kind in (FOLD, REST):
            words = f"{marks.more} {words}"
        if row.is_arrow and not row.severity and look.width is not None and used + cell_len(words) > look.width:
            words = set_cell_size(words, max(1, look.width - used - 1)).rstrip() + "…"
        painted = words if style is None else look.paint(style, words)
        if look.width is None or (row.is_arrow and not row.severity):
            return first + painted
        return wrap(first, used, painted, look.width)

    def _drawn(self, row: Row) -> str:
        marks, places = self.marks, self.places
        cells = [" "] * self.columns
        for place in places:
            cells[place] = marks.fold if row.kind == PAUSE else marks.life
        low, high = sorted((row.source, row.target))
        if row.is_arrow and low == high:
            cells[places[low]] = marks.loop
        elif row.is_arrow:
            self._draw_arrow(row, cells)
        elif row.kind in (FOLD, REST):
            for place in places[low : high + 1]:
                cells[place] = marks.fold
        elif row.kind != PAUSE:
            for place in {places[low], places[high]}:
                cells[place] = marks.note
        return "".join(cells)

    def _draw_arrow(self, row: Row, cells: list[str]) -> None:
        marks, begin, end = self.marks, self.places[row.source], self.places[row.target]
        low, high = sorted((begin, end))
        line = marks.tcp if row.kind in (OPENING, CLOSING, ATTEMPT) else marks.line
        for cell in range(low + 1, high):
            cells[cell] = marks.crossing if cell in self.places else line
        goes_right = begin < end
        cells[begin] = marks.starts if goes_right else marks.ends
        head = marks.lost if row.kind == ATTEMPT else marks.right if goes_right else marks.left
        cells[end - 1 if goes_right else end + 1] = head


def _places(widths: list[int], room: int | None) -> list[int]:
    """Return the column of each lifeline.

    `widths` are the widths of names, which determine the distances; `room` limits the sum.
    """
    places = [0]
    for one, other in pairwise(widths):
        places.append(places[-1] + min(WIDEST, max(CLOSEST, (one + other) // 2 + 2)))
    if room is not None and places[-1] > room:
        step = max(CLOSEST // 2, room // max(1, len(widths) - 1))
        return [step * number for number in range(len(widths))]
    return places


def _style(row: Row) -> str | None:
    if row.severity:
        return row.severity
    if row.kind in (OPENING, CLOSING, FOLD, PAUSE, REST):
        return "dim"
    return row.kind if row.kind in ("greeting", "command", "gap", "leftover", "datagram") else None
