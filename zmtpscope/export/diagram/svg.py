"""Draw a diagram as SVG without external resources and scripts, for light and dark mode.

All text is escaped, and none of it is in an attribute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

from zmtpscope.export.clock import Clock
from zmtpscope.export.diagram.events import ATTEMPT, CLOSING, OPENING
from zmtpscope.export.diagram.layout import FOLD, PAUSE, REST, Diagram, Row
from zmtpscope.export.diagram.lifelines import Lifeline

# -- sizes, in pixels --------------------------------------------------------------------------------------------------

MARGIN = 20
LETTER, SMALL_LETTER = 6.9, 6.7
"""Average width of a character of a label, and of a monospaced one, at most."""
CLOSEST, WIDEST = 130, 440
"""Smallest and largest distance between lifelines."""
MIN_WANTED = 190
"""Distance that long labels may use, for any number of lifelines."""
USUAL_WIDTH = 1500
"""Width above which lifelines are closer than `WIDEST`."""
NARROWEST_NOTE = 240
HEADING_LINE, NOTE_LINE = 15, 15
ARROW, CONTENT = 30, 13
"""Height of an arrow with its label, and of its contents."""
PAUSE_HEIGHT, FOLD_HEIGHT = 34, 30
HEAD, HALF_HEAD = 8, 4
LOOP = 26

MAX_NOTE_LINES = 8

COLOURS = {
    "ground": ("#ffffff", "#0d1117"),
    "text": ("#1f2328", "#e6edf3"),
    "quiet": ("#656d76", "#8d96a0"),
    "life": ("#b6bec8", "#3d4652"),
    "head": ("#f2f5f9", "#1a212b"),
    "head-line": ("#8c98a8", "#5d6876"),
    "message": ("#0a5bc4", "#6cb0ff"),
    "said": ("#3d4753", "#b9c4d0"),
    "tcp": ("#8a929c", "#76808c"),
    "bad": ("#c62828", "#ff7b72"),
    "note": ("#eef2f7", "#1a212b"),
    "note-line": ("#b6bec8", "#3d4652"),
    "warn": ("#fff4d6", "#3a2f10"),
    "warn-line": ("#d9a514", "#b98a12"),
    "error": ("#fde7e7", "#43191b"),
    "error-line": ("#d64545", "#c94f4a"),
}
"""Each colour on a light and on a dark ground."""

NOTES = {"gap": "warn", "leftover": "warn", "warn": "warn", "error": "error"}
"""Style classes, by kind or severity; other notes are plain."""


def svg_lines(diagram: Diagram, clock: Clock) -> Iterator[str]:
    yield from _Picture(diagram, clock).lines()


class _Picture:
    def __init__(self, diagram: Diagram, clock: Clock) -> None:
        self.diagram = diagram
        packets = max((len(row.packet) for row in diagram.rows), default=0)
        many = len(diagram.connections) > 1
        self.fronts = [_front(row, clock, packets, many=many) for row in diagram.rows]
        self.gutter = round(max(map(len, self.fronts), default=0) * SMALL_LETTER) + 2 * MARGIN
        widths = [max(map(cell_len, [line.name, *line.about])) * LETTER + 24 for line in diagram.lifelines]
        self.box_widths = [max(84.0, width) for width in widths]
        self.places = self._columns()
        self.head_height = max((1 + len(line.about) for line in diagram.lifelines), default=1) * HEADING_LINE + 14
        right = max((place + width / 2 for place, width in zip(self.places, self.box_widths, strict=True)), default=0)
        self.width = round(max(right, self.gutter + NARROWEST_NOTE) + MARGIN)

    def _columns(self) -> list[float]:
        """Return the horizontal positions of lifelines.

        The labels of arrows determine the distances, within limits.
        """
        count = len(self.box_widths)
        if not count:
            return []
        widest = max(MIN_WANTED, min(WIDEST, USUAL_WIDTH / max(1, count - 1)))
        needed = [max(CLOSEST, (one + other) / 2 + 16) for one, other in pairwise(self.box_widths)]
        for row in self.diagram.rows:
            low, high = sorted((row.source, row.target))
            if row.is_arrow and high > low:
                wanted = max(cell_len(row.what) * LETTER, cell_len(row.content) * SMALL_LETTER) + 30
                for place in range(low, high):
                    needed[place] = max(needed[place], min(widest, wanted / (high - low)))
        places = [self.gutter + self.box_widths[0] / 2]
        for distance in needed:
            places.append(places[-1] + round(distance))
        return places

    def lines(self) -> Iterator[str]:
        top = MARGIN + self.head_height
        rows: list[str] = []
        breaks: list[float] = []
        y = float(top + 12)
        for row, front in zip(self.diagram.rows, self.fronts, strict=True):
            taken, drawn = self._row(row, y)
            rows += drawn
            if front:
                rows.append(_text(MARGIN, y + _baseline(row), front, "mono quiet"))
            if row.kind == PAUSE:
                breaks.append(y + taken / 2)
            y += taken
        bottom = y + 8
        height = round(bottom + MARGIN)
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{height}" '
            f'viewBox="0 0 {self.width} {height}" role="img">\n'
        )
        yield f"<title>Sequence diagram of {len(self.places)} peers</title>\n<style>\n{_style()}</style>\n"
        yield f'<rect class="ground" width="{self.width}" height="{height}"/>\n'
        for place in self.places:
            yield f'<path class="life" d="{self._life(place, top, bottom, breaks)}"/>\n'
        for line, place, width in zip(self.diagram.lifelines, self.places, self.box_widths, strict=True):
            yield from self._heading(line, place, width)
        for drawn_line in rows:
            yield drawn_line + "\n"
        yield "</svg>\n"

    def _life(self, x: float, top: float, bottom: float, breaks: Sequence[float]) -> str:
        path = f"M{x:g} {top:g}"
        for y in breaks:
            path += f"V{y - 9:g}m-4 3l8 -6m-8 15l8 -6M{x:g} {y + 9:g}"
        return f"{path}V{bottom:g}"

    def _heading(self, line: Lifeline, x: float, width: float) -> Iterator[str]:
        left = x - width / 2
        kind = "bound" if line.is_bound else "head"
        yield f'<rect class="{kind}" x="{left:g}" y="{MARGIN}" width="{width:g}" height="{self.head_height}" rx="5"/>\n'
        y = MARGIN + 7 + HEADING_LINE - 3
        yield _text(x, y, line.name, "name middle") + "\n"
        for number, about in enumerate(line.about, 1):
            yield _text(x, y + number * HEADING_LINE, about, "small quiet middle") + "\n"

    def _row(self, row: Row, y: float) -> tuple[float, list[str]]:
        if row.kind == PAUSE:
            middle = (self.places[0] + self.places[-1]) / 2 if len(self.places) > 1 else self.places[0] + 60
            return PAUSE_HEIGHT, [self._on_ground(middle, y + PAUSE_HEIGHT / 2 + 4, row.what, "small pause middle")]
        if row.is_arrow:
            return self._arrow(row, y)
        if row.kind in (FOLD, REST):
            return self._fold(row, y)
        return self._note(row, y)

    def _arrow(self, row: Row, y: float) -> tuple[float, list[str]]:
        begin, end = self.places[row.source], self.places[row.target]
        kind, line = _looks(row), y + 20
        height = ARROW + (CONTENT if row.content else 0)
        if row.source == row.target:
            path = f"M{begin:g} {line - 6:g}h{LOOP}v12h{-LOOP + HEAD}"
            left, room, anchor = begin + LOOP + 8, float(WIDEST), ""
            head = _head(begin, line + 6, goes_right=False)
        else:
            goes_right = begin < end
            path = f"M{begin:g} {line:g}H{end - HEAD if goes_right else end + HEAD:g}"
            left, room, anchor = (begin + end) / 2, abs(end - begin) - 20, " middle"
            head = _cross(end, line, goes_right) if row.kind == ATTEMPT else _head(end, line, goes_right=goes_right)
        drawn = [f'<path class="line {kind}" d="{path}"/>', f'<path class="{head[0]} {kind}" d="{head[1]}"/>']
        label, content = _fit(row.what, room / LETTER), _fit(row.content, room / SMALL_LETTER)
        whole = "  ".join(filter(None, (row.what, row.content)))
        is_cut = (label, content) != (row.what, row.content)
        drawn.append(_text(left, line - 6, label, f"label {kind}-text{anchor}", whole if is_cut else ""))
        if content:
            drawn.append(_text(left, line + 14, content, f"mono quiet{anchor}", whole if is_cut else ""))
        return height, drawn

    def _fold(self, row: Row, y: float) -> tuple[float, list[str]]:
        low, high = self.places[row.source], self.places[row.target]
        words = f"… {row.what}"
        width = max(cell_len(words) * SMALL_LETTER + 28, high - low + 28)
        left = self._left((low + high) / 2, width)
        return FOLD_HEIGHT, [
            f'<rect class="fold" x="{left:g}" y="{y + 6:g}" width="{width:g}" height="20" rx="10"/>',
            _text(left + width / 2, y + 20, words, "small quiet middle"),
        ]

    def _note(self, row: Row, y: float) -> tuple[float, list[str]]:
        low, high = self.places[row.source], self.places[row.target]
        words = "  ".join(filter(None, (row.what, row.content)))
        width = min(max(high - low - 24, NARROWEST_NOTE), 620.0)
        width = min(width, cell_len(words) * LETTER + 24)
        lines = wrap(words, max(20, int((width - 20) / LETTER)))
        if len(lines) > MAX_NOTE_LINES:
            lines = [*lines[: MAX_NOTE_LINES - 1], "…"]
        left, height = self._left((low + high) / 2, width), len(lines) * NOTE_LINE + 10
        kind = NOTES.get(row.severity or row.kind, "note")
        drawn = [f'<rect class="{kind}" x="{left:g}" y="{y + 4:g}" width="{width:g}" height="{height}" rx="3"/>']
        for number, line in enumerate(lines):
            drawn.append(_text(left + 10, y + 4 + 16 + number * NOTE_LINE, line, "small"))
        return height + 10, drawn

    def _left(self, middle: float, width: float) -> float:
        """Return the left edge of an element of this width that is centred at `middle` but stays inside the picture."""
        return max(self.gutter - 8.0, min(middle - width / 2, self.width - MARGIN / 2 - width))

    def _on_ground(self, x: float, y: float, words: str, kind: str) -> str:
        """Draw text at the position (x, y) on a background that hides the lines behind it; `kind` is its CSS class."""
        width = cell_len(words) * LETTER + 12
        area = f'<rect class="ground" x="{x - width / 2:g}" y="{y - 13:g}" width="{width:g}" height="18"/>'
        return area + _text(x, y, words, kind)


def _front(row: Row, clock: Clock, packets: int, *, many: bool) -> str:
    """Format packet number (in `packets` characters) and time of a row; with `many` connections, also their number."""
    if row.kind in (PAUSE, REST):
        return ""
    conn = f" c{row.conn}" if many and row.conn is not None else ""
    return f"{row.packet:>{packets}}  {clock(row.time).strip()}{conn}"


def _baseline(row: Row) -> float:
    return 24 if row.is_arrow else 20


def _looks(row: Row) -> str:
    if row.kind == ATTEMPT or (row.kind == CLOSING and row.what == "RST"):
        return "bad"
    if row.kind in (OPENING, CLOSING):
        return "tcp"
    return "message" if row.kind in ("message", "datagram") else "said"


def _head(x: float, y: float, *, goes_right: bool) -> tuple[str, str]:
    back = -HEAD if goes_right else HEAD
    return "tip", f"M{x:g} {y:g}l{back} {-HALF_HEAD}v{2 * HALF_HEAD}z"


def _cross(x: float, y: float, goes_right: bool) -> tuple[str, str]:
    left = x - HEAD - 4 if goes_right else x + 4
    return "line", f"M{left:g} {y - 4:g}l8 8m0 -8l-8 8"


def _fit(words: str, room: float) -> str:
    cells = max(4, int(room))
    return words if cell_len(words) <= cells else set_cell_size(words, cells - 1).rstrip() + "…"


def _text(x: float, y: float, words: str, kind: str, whole: str = "") -> str:
    """Draw a text at the position (x, y); `kind` is its CSS class, `whole` its tooltip."""
    title = f"<title>{escape(whole, quote=False)}</title>" if whole else ""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{title}{escape(words, quote=False)}</text>'


def _style() -> str:
    light, dark = ({name: pair[theme] for name, pair in COLOURS.items()} for theme in (0, 1))
    rules = [
        "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;white-space:pre}",
        ".name{font-weight:600;font-size:13px}",
        ".small{font-size:11.5px}",
        ".mono{font:11px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}",
        ".middle{text-anchor:middle}",
        ".pause{font-style:italic}",
        ".label,.mono{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}",
        ".line{fill:none;stroke-width:1.4}",
        ".tcp,.bad{stroke-dasharray:4 3}",
        ".tip{stroke:none}",
        ".life{fill:none;stroke-width:1.2}",
        ".bound{stroke-width:2}",
        ".fold{stroke-dasharray:2 3}",
        *_colours(light),
        "@media (prefers-color-scheme:dark){",
        *_colours(dark),
        "}",
    ]
    return "".join(f"{rule}\n" for rule in rules)


def _colours(colours: dict[str, str]) -> Iterator[str]:
    yield f"text{{fill:{colours['text']}}}"
    yield f".quiet,.pause{{fill:{colours['quiet']}}}"
    yield f".label,.mono{{stroke:{colours['ground']}}}"
    yield f".ground{{fill:{colours['ground']}}}"
    yield f".life{{stroke:{colours['life']}}}"
    yield f".head,.bound{{fill:{colours['head']};stroke:{colours['head-line']}}}"
    yield f".fold{{fill:{colours['ground']};stroke:{colours['note-line']}}}"
    for name in ("note", "warn", "error"):
        yield f".{name}{{fill:{colours[name]};stroke:{colours[name + '-line']}}}"
    for name in ("message", "said", "tcp", "bad"):
        yield f".line.{name}{{stroke:{colours[name]}}}.tip.{name},.{name}-text{{fill:{colours[name]}}}"
