"""Rows of statistics for tables, and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.statistics.group import Group
from zmtpscope.export.statistics.statistics import Statistics
from zmtpscope.export.statistics.tally import Scale
from zmtpscope.export.top.counters import NEVER, OTHERS, Counts
from zmtpscope.export.top.rows import KEY_FIELDS, directions_of, name_of, with_senders
from zmtpscope.records import SECOND

PERCENTILES = (0.5, 0.9, 0.99)


class Row(NamedTuple):
    """The counters of one key, such as a topic or a peer. `key` is None for the row that merges rare keys."""

    kind: str
    key: Any
    name: str
    counts: Counts
    busiest: int
    """Messages in the busiest interval."""
    first_ns: int | None
    sizes: dict[str, int | None]
    """`min`, `p50`, `p90`, `p99` and `max` of the octets in the frames of a message."""
    sizes_exact: bool
    gaps: int
    gap_octets: int
    bars: list[int]


def rows_of(statistics: Statistics, kind: str, latest: int) -> list[Row]:
    """Return the rows with most messages first, and the row of merged keys last.

    `latest` is the time of the last packet (ns).
    """
    group = statistics.groups[kind]
    bars = int(statistics.scale.bars_until(latest))
    numbers = range(0 if group.folded else OTHERS + 1, len(group))
    rows = [row_of(group, number, bars) for number in numbers]
    names = with_senders([row.name for row in rows], [row.key for row in rows])
    rows = [row._replace(name=name) for row, name in zip(rows, names, strict=True)]
    rows.sort(key=lambda row: (row.key is None, -row.counts.messages, -row.counts.octets, row.name))
    return rows


def row_of(group: Group, number: int, bars: int) -> Row:
    sizes = group.sizes[number] if number < len(group.sizes) else None
    key = group.keys[number]
    first = int(group.first[number])
    there = sizes is not None and sizes.least <= sizes.most
    least, most = (sizes.least, sizes.most) if sizes is not None and there else (None, None)
    middle = sizes.percentiles(*PERCENTILES) if sizes is not None else [None] * len(PERCENTILES)
    names = [f"p{round(100 * part)}" for part in PERCENTILES]
    return Row(
        group.kind,
        key,
        safe_text(name_of(key, group.folded)),
        Counts(*group.total[:, number].tolist()),
        int(group.busiest[number]),
        None if first == NEVER else first,
        {"min": least, **dict(zip(names, middle, strict=True)), "max": most},
        sizes is None or sizes.is_exact,
        int(group.gaps[number]),
        int(group.gap_octets[number]),
        group.bars[number, :bars].tolist(),
    )


def line_of(row: Row, scale: Scale, seconds: float) -> bytes:
    """Format a row as a JSON line; `seconds` is the time from the first to the last packet."""
    counts = row.counts
    values = {
        "by": row.kind,
        **_key_fields(row),
        "others": row.key is None,
        "messages": row.counts.messages,
        "octets": row.counts.octets,
        "frames": counts.frames,
        **(directions_of(counts, row.kind) if row.kind in ("connection", "endpoint", "peer") else {}),
        **({"connections": counts.connections} if row.kind in ("all", "endpoint", "peer") else {}),
        "messages_per_second": _rate(row.counts.messages, seconds),
        "octets_per_second": _rate(row.counts.octets, seconds),
        "busiest_per_second": _rate(row.busiest, scale.interval_ns / SECOND),
        "sizes": row.sizes,
        "sizes_exact": row.sizes_exact,
        "gaps": row.gaps,
        "gap_octets": row.gap_octets,
        "first_ns": row.first_ns,
        "bars_start_ns": scale.start_ns,
        "bar_ns": scale.width_ns,
        "bars": row.bars,
    }
    return orjson.dumps(values, option=orjson.OPT_APPEND_NEWLINE)


def lines_of(statistics: Statistics, latest: int, most: int | None) -> Iterator[bytes]:
    """Yield JSON lines for at most `most` rows of each kind of key.

    `latest` is the time of the last packet (ns).
    """
    scale = statistics.scale
    seconds = (latest - scale.start_ns) / SECOND if scale.start_ns is not None else 0.0
    for kind in statistics.groups:
        for row in rows_of(statistics, kind, latest)[:most]:
            yield line_of(row, scale, seconds)


def _rate(number: int, seconds: float) -> float | None:
    return round(number / seconds, 3) if seconds else None


def _key_fields(row: Row) -> dict[str, Any]:
    if row.kind in KEY_FIELDS:
        fields: dict[str, Any] = KEY_FIELDS[row.kind](row.key)
        return fields
    if row.kind == "endpoint":
        return {"ip": None, "port": None} if row.key is None else row.key._asdict()
    return {"type": row.key} if row.kind == "type" else {}
