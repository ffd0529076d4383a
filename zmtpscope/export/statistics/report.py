"""Format statistics as text: totals, and a table for each kind of key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from zmtpscope.capture import CaptureProblem, CaptureStatistics
from zmtpscope.dissect import Summary
from zmtpscope.export.clock import span
from zmtpscope.export.statistics.rows import Row, rows_of
from zmtpscope.export.statistics.statistics import KINDS, Statistics
from zmtpscope.export.summary import LABEL, damage_of, labelled
from zmtpscope.export.top.table import scaled
from zmtpscope.records import SECOND
from zmtpscope.words import counted

PLURALS = {"endpoint": "endpoints", "topic": "topics", "peer": "peers", "connection": "connections", "type": "types"}
SHOWN_ROWS = 5
"""Number of rows of a kind if several kinds are shown."""

BLOCKS, ASCII_BLOCKS = "▁▂▃▄▅▆▇█", ".:-=+*%#"
NOTHING = "·"
"""Character for a bar without messages."""
ASCII_NOTHING = " "

MIN_NAME, WIDEST_NAME = 16, 60
MIN_BARS, WIDEST_BARS = len("OVER TIME"), 32


class Column(NamedTuple):
    """A column of a table.

    If not all columns fit, those with the largest `priority` are dropped. `value` takes a row, the seconds of the
    capture and the seconds of an interval, and returns the cell.
    """

    heading: str
    width: int
    priority: int
    value: Callable[[Row, float, float], str]


def _size(row: Row, seconds: float, interval: float, *, name: str) -> str:
    value, about = row.sizes[name], "" if row.sizes_exact or name == "max" else "~"
    return "-" if value is None else f"{about}{scaled(value)}"


COLUMNS = (
    Column("MESSAGES", 8, 0, lambda row, *_: scaled(row.counts.messages)),
    Column("OCTETS", 7, 2, lambda row, *_: scaled(row.counts.octets)),
    Column("MSG/S", 7, 0, lambda row, seconds, _: scaled(row.counts.messages / seconds) if seconds else "-"),
    Column("BUSIEST", 7, 3, lambda row, _, interval: scaled(row.busiest / interval)),
    Column("P50", 6, 1, partial(_size, name="p50")),
    Column("P90", 6, 5, partial(_size, name="p90")),
    Column("P99", 6, 4, partial(_size, name="p99")),
    Column("MAX", 6, 1, partial(_size, name="max")),
)
GAPS = Column("GAPS", 5, 2, lambda row, *_: scaled(row.gaps))


class Look(NamedTuple):
    """Settings of a report.

    `width` is the terminal width, or None. `is_unicode`: the terminal can show block characters.
    """

    width: int | None
    is_unicode: bool


def sparkline(bars: Sequence[int], width: int, look: Look) -> str:
    """Draw the numbers `bars` as a chart of at most `width` characters; the largest number has full height."""
    step = max(1, -(-len(bars) // width))
    sums = [sum(bars[at : at + step]) for at in range(0, len(bars), step)]
    blocks, nothing = (BLOCKS, NOTHING) if look.is_unicode else (ASCII_BLOCKS, ASCII_NOTHING)
    highest = max(sums, default=0)
    return "".join(blocks[-(-each * len(blocks) // highest) - 1] if each else nothing for each in sums)


def overview(
    statistics: Statistics,
    capture: CaptureStatistics,
    summary: Summary,
    problems: Sequence[CaptureProblem],
    look: Look,
    most: int,
) -> Iterator[str]:
    """Yield the totals, and the first `most` rows of endpoints, topics and so on."""
    first, last = capture.first_time, capture.last_time
    if first is None or last is None:
        return
    yield labelled("captured", f"{counted(capture.packets, 'packet')}, {span(first, last)}")
    rows = rows_of(statistics, "all", last)
    messages = rows[0].counts.connections if rows else 0
    yield labelled("connections", f"{summary.connections} ZMTP, {messages} of them with messages")
    for row in rows:
        yield from _all(row, statistics, (last - first) / SECOND, _damage(statistics, capture, summary, problems), look)
    for kind in KINDS[1:]:
        if kind in statistics.groups and rows_of(statistics, kind, last):
            yield ""
            yield from table(statistics, kind, capture, look, most, f"--by {kind} lists all")


def _damage(
    statistics: Statistics, capture: CaptureStatistics, summary: Summary, problems: Sequence[CaptureProblem]
) -> str:
    """Describe damage of the capture, and count incomplete messages."""
    damage = damage_of(summary, capture, problems)
    if summary.sums.unfinished:
        damage.append(f"{counted(summary.sums.unfinished, 'octet')} in unfinished units")
    if statistics.incomplete:
        damage.append(counted(statistics.incomplete, "incomplete message"))
    return "; ".join(damage) or "none"


def _all(row: Row, statistics: Statistics, seconds: float, damage: str, look: Look) -> Iterator[str]:
    rate = f", {scaled(row.counts.messages / seconds)} a second" if seconds else ""
    busiest = f", at most {scaled(row.busiest)} in {_duration(statistics.scale.interval_ns)}"
    yield labelled("messages", f"{row.counts.messages} ({counted(row.counts.frames, 'frame')}){rate}{busiest}")
    rate = f", {scaled(row.counts.octets / seconds)} a second" if seconds else ""
    yield labelled("octets", f"{row.counts.octets}{rate}")
    sizes, about = row.sizes, "" if row.sizes_exact else "about "
    if sizes["min"] is not None:
        parts = ", ".join(f"{name} {about}{sizes[name]}" for name in ("p50", "p90", "p99"))
        yield labelled("sizes", f"{sizes['min']} to {sizes['max']} octets ({parts})")
    yield labelled("damage", damage)
    room = WIDEST_BARS if look.width is None else max(MIN_BARS, look.width - LABEL - 1)
    step = -(-len(row.bars) // room)
    yield labelled("over time", sparkline(row.bars, room, look))
    yield labelled("", f"{_duration(statistics.scale.width_ns * step)} each")


def _duration(nanoseconds: int) -> str:
    return f"{nanoseconds / SECOND:g} s" if nanoseconds >= SECOND else f"{nanoseconds / 1_000_000:g} ms"


def table(
    statistics: Statistics, kind: str, capture: CaptureStatistics, look: Look, most: int | None, more: str
) -> Iterator[str]:
    """Yield the first `most` rows of one kind of key.

    If there are further rows, the last line has their number and `more`, a text about how to print them.
    """
    assert capture.first_time is not None
    assert capture.last_time is not None
    rows = rows_of(statistics, kind, capture.last_time)
    shown = rows[:most]
    spans = (capture.last_time - capture.first_time) / SECOND, statistics.scale.interval_ns / SECOND
    columns = [*COLUMNS, *([GAPS] if any(row.gaps for row in shown) else [])]
    longest = max([len(kind), *(cell_len(row.name) for row in shown)])
    bars = WIDEST_BARS
    if look.width is not None:
        while True:
            room = look.width - sum(column.width + 1 for column in columns)
            spared = max(columns, key=lambda column: column.priority)
            if room - 1 >= min(longest, MIN_NAME + 8) + MIN_BARS or not spared.priority:
                break
            columns.remove(spared)
        bars = max(MIN_BARS, min(WIDEST_BARS, room - 1 - longest))
        longest = max(1, min(longest, room - 1 - bars))
    longest = min(longest, WIDEST_NAME)
    named = {"MESSAGES": "RECORDS"} if kind == "type" else {}
    headings = " ".join(f"{named.get(column.heading, column.heading):>{column.width}}" for column in columns)
    yield f"{kind.upper():<{longest}} {headings} OVER TIME".rstrip()
    for row in shown:
        cells = " ".join(f"{column.value(row, *spans):>{column.width}}" for column in columns)
        yield f"{_cut(row.name, longest)} {cells} {sparkline(row.bars, bars, look)}".rstrip()
    if len(rows) > len(shown):
        yield f"... and {len(rows) - len(shown)} more: {more}"


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, width) if cell_len(text) <= width else f"{set_cell_size(text, width - 1)}…"
