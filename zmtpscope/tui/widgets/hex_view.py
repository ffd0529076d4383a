"""The octets of one source as offsets, hex digits and characters, with a highlighted field."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from itertools import groupby
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip

from zmtpscope.tui.requests import Source
from zmtpscope.tui.widgets.columns import Cell, line_of
from zmtpscope.tui.widgets.line_view import LineView

WIDE, NARROW = 16, 8
"""Octets on a line."""
DIGITS_AT = 10
"""Column of the first octet, after the offset."""
NOTHING = Source("", 0, b"")
CHARACTERS = bytes(octet if 0x20 <= octet < 0x7F else ord(".") for octet in range(256))


def row_width(octets: int) -> int:
    return DIGITS_AT + 3 * octets + 1 + octets


class HexView(LineView):
    """A hex dump of one source, with 16 octets on a line, or 8 on a narrow screen."""

    help_title = "Octets"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "step(1)", "Next octet", show=False),
        Binding("left,h", "step(-1)", "Octet before", show=False),
    ]

    class Selected(Message):
        def __init__(self, offset: int) -> None:
            super().__init__()
            self.offset = offset

    def __init__(self) -> None:
        super().__init__()
        self._source = NOTHING
        self._stars: list[int] = []
        self._row = WIDE
        self._octet = 0
        self._lit = range(0)

    # -- interface -----------------------------------------------------------------------------------------------------

    def show(self, source: Source | None) -> None:
        """Show a source with the cursor on its first octet, or nothing (None)."""
        self._source = source or NOTHING
        self._stars = [edge for span in sorted(self._source.stars) for edge in span]
        self._octet, self._lit = 0, range(0)
        self._lay_out()

    def highlight(self, start: int, stop: int) -> None:
        """Highlight the octets from `start` to `stop`, and scroll to them. The cursor moves to the first, unless it is
        on one of them."""
        first, length = self._source.first, len(self._source.octets)
        self._lit = range(max(0, start - first), min(stop - first, length))
        if self._lit:
            if self._octet not in self._lit:
                self._octet = self._lit.start
            last = (self._lit.stop - 1) // self._row
            if last < self._octet // self._row + self.page_height:
                self._scroll_to_show(last)
            self.set_cursor(self._octet // self._row)
        self.refresh()

    @property
    def offset_selected(self) -> int:
        return self._source.first + self._octet

    @property
    def lit(self) -> bytes:
        """The highlighted octets, with 0 in place of hidden secrets."""
        return self._source.octets[self._lit.start : self._lit.stop]

    # -- the cursor ----------------------------------------------------------------------------------------------------

    def go_to(self, place: int) -> None:
        self._move(place * self._row + self._octet % self._row)

    def _move(self, octet: int) -> None:
        octet = max(0, min(octet, len(self._source.octets) - 1))
        if octet == self._octet:
            return
        self._octet = octet
        self.set_cursor(octet // self._row)
        self.refresh_place(self.cursor)
        self.post_message(self.Selected(self.offset_selected))

    def action_step(self, step: int) -> None:
        self._move(self._octet + step * (self.take_number() or 1))

    def action_last(self) -> None:
        number = self.take_number()
        self._move(len(self._source.octets) - 1 if number is None else (number - 1) * self._row)

    def action_first(self) -> None:
        self._move(((self.take_number() or 1) - 1) * self._row)

    def line_clicked(self, place: int, x: int) -> None:
        digit, letter = (x - DIGITS_AT) // 3, x - DIGITS_AT - 3 * self._row - 1
        if 0 <= digit < self._row:
            self._move(place * self._row + digit)
        elif 0 <= letter < self._row:
            self._move(place * self._row + letter)

    # -- lines ---------------------------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        super().on_resize()
        self._lay_out()

    def _lay_out(self) -> None:
        self._row = WIDE if self.width >= row_width(WIDE) else NARROW
        self.set_line_count(-(-len(self._source.octets) // self._row))
        self.set_cursor(self._octet // self._row)
        self.forget_lines()

    def look_of(self, place: int) -> Hashable:
        start = place * self._row
        stop = start + self._row
        lit = (max(start, self._lit.start), min(stop, self._lit.stop))
        return lit if lit[0] < lit[1] else None, self._octet if start <= self._octet < stop else None

    def _is_starred(self, octet: int) -> bool:
        return bisect_right(self._stars, self._source.first + octet) % 2 == 1

    def _looks(self, octets: range, ground: str) -> list[tuple[str, str]]:
        values = self._source.octets[octets.start : octets.stop]
        looks = [("value" if value else "zero", "") for value in values]
        for octet in octets if self._stars else ():
            if self._is_starred(octet):
                looks[octet - octets.start] = ("secret", "")
        for octet in range(max(octets.start, self._lit.start), min(octets.stop, self._lit.stop)):
            looks[octet - octets.start] = (looks[octet - octets.start][0], "lit")
        if ground == "cursor" and self._octet in octets:
            looks[self._octet - octets.start] = (looks[self._octet - octets.start][0], "octet")
        return looks

    def draw(self, place: int, ground: str, width: int) -> Strip:
        style = self.palette.style
        start = place * self._row
        octets = range(start, min(start + self._row, len(self._source.octets)))
        cells = [Cell(0, 8, f"{self._source.first + start:08x}", style("muted" if ground else "faint"))]
        letters = []
        at, before = start, ""
        for look, same in groupby(self._looks(octets, ground)):
            stop = at + len(list(same))
            digits, text = self._shown(at, stop, look[0] == "secret")
            first = DIGITS_AT + 3 * (at - start)
            if look[1] == before == "lit":
                digits, first = " " + digits, first - 1
            before = look[1]
            cells.append(Cell(first, first + len(digits), digits, style(*look)))
            first = DIGITS_AT + 3 * self._row + 1 + at - start
            letters.append(Cell(first, first + len(text), text, style(*look)))
            at = stop
        return line_of(cells + letters, style("value"), width)

    def _shown(self, start: int, stop: int, is_secret: bool) -> tuple[str, str]:
        if is_secret:
            return " ".join(["**"] * (stop - start)), "*" * (stop - start)
        octets = self._source.octets[start:stop]
        return octets.hex(" "), octets.translate(CHARACTERS).decode("ascii")
