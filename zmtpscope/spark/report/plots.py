"""Draw plots as SVG for a page, in the colours of the page, with text that can be selected.

Each plot is drawn twice, for a wide and for a narrow page.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from zmtpscope.spark.report import units
from zmtpscope.words import cut

SERIES = ("series-1", "series-2", "series-3", "series-4", "series-5", "series-6")
NAMES = ("text", "muted", "grid", *SERIES, "error", "warn", "note", "chat")
COLOURS = {name: f"#0{number:02x}a0b" for number, name in enumerate(NAMES)}
VARIABLES = {colour: f"var(--{name})" for name, colour in COLOURS.items()}
COLOUR = re.compile("#[0-9a-f]{6}")

SVG, XLINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}"
LEFT_OUT = (f"{SVG}metadata", f"{SVG}style")
"""The metadata, and a style rule that would apply to the whole page."""

WIDE, NARROW = 8.6, 3.6
"""Widths of plots in inches of 80 pixels."""
ROW = 0.46
"""Height of a row of bars, in inches."""
LONGEST_LABEL = {WIDE: 90, NARROW: 42}

SETTINGS: dict[str, Any] = {
    "axes.edgecolor": COLOURS["grid"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "font.size": 9,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.labelcolor": COLOURS["text"],
    "svg.fonttype": "none",
    "svg.hashsalt": "zmtpscope",
    "text.color": COLOURS["text"],
    "text.parse_math": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
}

Format = Callable[[float], str]


class Plot(NamedTuple):
    """A plot drawn for two widths; `alternative` describes it in words."""

    wide: str
    narrow: str
    alternative: str


class Part(NamedTuple):
    """One series of a bar chart: a value for each label, with its name in the legend."""

    name: str | None
    values: Sequence[float]
    colours: Sequence[str]
    """One colour for all labels, or one for each."""


class Range(NamedTuple):
    least: float
    p50: float
    p90: float
    p99: float
    largest: float


class Panel(NamedTuple):
    title: str
    values: Sequence[float]
    format: Format
    colour: str


def curves(alternative: str, starts: Sequence[int], width: float, panels: Sequence[Panel]) -> Plot:
    """Plot values over time, with a panel for each quantity. `starts` of intervals are in microseconds, `width` is in
    seconds.

    Consecutive intervals form a period. Several periods are drawn side by side, each with its start time.
    """
    begins = [0, *(place for place in range(1, len(starts)) if starts[place] - starts[place - 1] > width * 1.5e6)]
    is_one = len(begins) == 1
    edges = [_day(start) for start in (*starts, starts[-1] + round(width * 1e6))]
    if not is_one:
        edges = [float(place) for place in range(len(starts) + 1)]

    def draw(figure: Figure, inches: float) -> None:
        every_axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, panel in zip(every_axes, panels, strict=True):
            axes.stairs(panel.values, edges, fill=True, color=COLOURS[panel.colour], linewidth=0)
            axes.set_title(panel.title, loc="left", fontsize=9.5)
            axes.yaxis.set_major_formatter(_formatter(panel.format))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.set_ylim(bottom=0)
            axes.margins(x=0)
            for begin in begins[1:]:
                axes.axvline(begin, color=COLOURS["muted"], linewidth=0.8, linestyle="--")
        if is_one:
            _time_axis(every_axes[-1], inches)
        else:
            shown = _apart(begins, len(starts) / (6 if inches == WIDE else 2.5))
            labels = [units.moment(starts[begin])[:19].replace(" ", "\n") for begin in shown]
            every_axes[-1].set_xticks(shown, labels, ha="left")

    return _plot(alternative, draw, 1.75 * len(panels))


def bars(alternative: str, labels: Sequence[str], parts: Sequence[Part], format: Format) -> Plot:
    """Draw horizontal bars with stacked parts, the label above and the total at the end."""

    def draw(figure: Figure, inches: float) -> None:
        axes = figure.subplots()
        ends = [0.0] * len(labels)
        for part in parts:
            colours = [COLOURS[part.colours[row % len(part.colours)]] for row in range(len(labels))]
            axes.barh(range(len(labels)), part.values, 0.34, left=ends, color=colours, label=part.name)
            ends = [end + value for end, value in zip(ends, part.values, strict=True)]
        largest = max(ends, default=0) or 1
        for row, end in enumerate(ends):
            axes.text(end + largest * 0.01, row, format(end), va="center", fontsize=8.5, color=COLOURS["muted"])
        axes.set_xlim(0, largest * (1.14 if inches == WIDE else 1.26))
        axes.xaxis.set_major_formatter(_formatter(format))
        axes.xaxis.set_major_locator(MaxNLocator(6 if inches == WIDE else 3))
        _label_rows(axes, labels, inches)
        if len(parts) > 1:
            figure.legend(loc="outside upper right", ncols=len(parts), fontsize=8.5)

    return _plot(alternative, draw, 0.5 + ROW * len(labels) + 0.25 * (len(parts) > 1))


def ranges(alternative: str, labels: Sequence[str], rows: Sequence[Range], format: Format) -> Plot:
    """Plot ranges on a logarithmic axis: a thin line from minimum to maximum, a thick one up to the 90th percentile,
    and marks at the median and the 99th percentile."""
    # a logarithmic axis has no 0
    floor = min((value for row in rows for value in row if value > 0), default=1.0)
    shown = [Range(*(max(value, floor) for value in row)) for row in rows]

    def draw(figure: Figure, inches: float) -> None:
        axes = figure.subplots()
        for place, row in enumerate(shown):
            axes.plot([row.least, row.largest], [place, place], color=COLOURS["series-1"], linewidth=1.4)
            axes.plot([row.least, row.p90], [place, place], color=COLOURS["series-1"], linewidth=6)
            axes.plot([row.p50], [place], "o", color=COLOURS["text"], markersize=5.5)
            axes.plot([row.p99], [place], "|", color=COLOURS["text"], markersize=11, markeredgewidth=1.6)
        lowest, highest = min(row.least for row in shown), max(row.largest for row in shown)
        axes.set_xscale("log")
        axes.set_xlim(lowest / 1.6, highest * 1.6)
        axes.xaxis.set_major_locator(LogLocator(numticks=8 if inches == WIDE else 4))
        axes.xaxis.set_major_formatter(_formatter(format))
        axes.xaxis.set_minor_formatter(NullFormatter())
        if highest < lowest * 10:
            axes.xaxis.set_major_locator(MaxNLocator(5 if inches == WIDE else 3))
        _label_rows(axes, labels, inches)

    return _plot(alternative, draw, 0.5 + ROW * len(labels))


def columns(alternative: str, labels: Sequence[str], parts: Sequence[Part], format: Format) -> Plot:
    """Draw vertical bars side by side, with stacked parts."""

    def draw(figure: Figure, inches: float) -> None:
        axes = figure.subplots()
        ends = [0.0] * len(labels)
        for part in parts:
            axes.bar(
                range(len(labels)), part.values, 0.86, bottom=ends, color=COLOURS[part.colours[0]], label=part.name
            )
            ends = [end + value for end, value in zip(ends, part.values, strict=True)]
        every = -(-len(labels) // (14 if inches == WIDE else 5))
        axes.set_xticks(range(0, len(labels), every), labels[::every])
        axes.tick_params(axis="x", length=0)
        axes.xaxis.grid(False)
        axes.yaxis.set_major_formatter(_formatter(format))
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.margins(x=0.01)
        figure.legend(loc="outside upper right", ncols=6 if inches == WIDE else 3, fontsize=8.5)

    return _plot(alternative, draw, 2.9)


def spans(
    alternative: str, labels: Sequence[str], rows: Sequence[tuple[int, int | None]], colours: Sequence[str]
) -> Plot:
    """Plot periods from start to end, in microseconds. A start without end is a mark."""
    first, last = min(start for start, _ in rows), max(end or start for start, end in rows)
    margin = max((last - first) // 20, 500_000)

    def draw(figure: Figure, inches: float) -> None:
        axes = figure.subplots()
        for place, ((start, end), colour) in enumerate(zip(rows, colours, strict=True)):
            if end is None:
                axes.plot([_day(start)], [place], ">", color=COLOURS[colour], markersize=7)
            else:
                axes.plot([_day(start), _day(end)], [place, place], color=COLOURS[colour], linewidth=6)
        axes.set_xlim(_day(first - margin), _day(last + margin))
        _time_axis(axes, inches)
        _label_rows(axes, labels, inches)

    return _plot(alternative, draw, 0.5 + ROW * len(labels))


def _apart(places: Sequence[int], distance: float) -> list[int]:
    """Select places for labels so that they do not overlap: at least `distance` apart."""
    found = list(places[:1])
    for place in places[1:]:
        if place - found[-1] >= distance:
            found.append(place)
    return found


def _day(microseconds: int) -> float:
    """Convert microseconds since 1970 to days, the unit of matplotlib."""
    return microseconds / 86_400e6


def _time_axis(axes: Axes, inches: float) -> None:
    locator = AutoDateLocator(minticks=4, maxticks=10) if inches == WIDE else AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _label_rows(axes: Axes, labels: Sequence[str], inches: float) -> None:
    """Write labels left-aligned above their rows, so that long ones fit."""
    longest = LONGEST_LABEL[inches]
    for row, label in enumerate(labels):
        axes.text(0, row - 0.28, cut(label, longest), transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5)
    axes.set_ylim(len(labels) - 0.6, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)


def _formatter(format: Format) -> FuncFormatter:
    return FuncFormatter(lambda value, _: format(value))


def _plot(alternative: str, draw: Callable[[Figure, float], None], height: float) -> Plot:
    wide, narrow = (_svg(draw, inches, height, alternative) for inches in (WIDE, NARROW))
    return Plot(wide, narrow, alternative)


def _svg(draw: Callable[[Figure, float], None], width: float, height: float, alternative: str) -> str:
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a character missing in local fonts may exist in the reader's
        figure = Figure((width, height), layout="constrained")
        draw(figure, width)
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(written.getvalue(), alternative)


def _for_page(drawn: str, alternative: str) -> str:
    """Change a drawing for the page: use the colours and fonts of the page, and ids that no other drawing uses."""
    root = ElementTree.fromstring(drawn)
    mark = sha256(f"{alternative}: {drawn}".encode()).hexdigest()[:8]
    for parent in root.iter():
        for child in list(parent):
            if child.tag in LEFT_OUT:
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)  # HTML has no namespaces
        attributes = {name.removeprefix(XLINK): value for name, value in element.attrib.items()}
        element.attrib.clear()
        element.attrib.update(_attributes(element.tag, attributes, mark))
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib.update({"role": "img", "aria-label": alternative})
    return ElementTree.tostring(root, encoding="unicode")


def _attributes(tag: str, attributes: dict[str, str], mark: str) -> dict[str, str]:
    if tag not in ("clipPath", "path"):
        attributes.pop("id", None)
    for name, value in attributes.items():
        if name == "id":
            attributes[name] = f"{mark}-{value}"
        elif name == "href":
            attributes[name] = f"#{mark}-{value.removeprefix('#')}"
        elif name == "clip-path":
            attributes[name] = value.replace("url(#", f"url(#{mark}-")
        elif name == "style":
            words = (word for word in value.split("; ") if not word.startswith("font-family"))
            attributes[name] = COLOUR.sub(lambda match: VARIABLES.get(match[0], match[0]), "; ".join(words))
    return attributes
