"""Common parts of the filters that replace repeated records by one line with their number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.dissect import Record
from zmtpscope.export.front import Files
from zmtpscope.export.rows import RowWords
from zmtpscope.export.words import scaled
from zmtpscope.records import SECOND

WRITTEN_EVERY = 10 * SECOND
"""Time between two lines about the same repetition, if lines do not wait."""


ITSELF = (-1,)


class Repeats(NamedTuple):
    """One line for several equal records. `last` is the last record, `text` includes their number."""

    last: Record
    text: str


RowRange = tuple[tuple[Record | RowWords | Repeats, Files], Sequence[int]]
"""Rows of one batch, or a single record or line with `ITSELF`; with the files of the batch."""


def one(record: Record, files: Files) -> RowRange:
    return (record, files), ITSELF


def conn_of(record: Record) -> int | None:
    return None if record.stream is None else record.stream.conn


def time_of(record: Record) -> int:
    """Return the time (ns) at which a record is printed: its own time, or for a connection its end."""
    return int(record.own["end_ns"]) if record.type == "connection" else record.ts_ns


def length(nanoseconds: int) -> str:
    """Format a duration: `0.201 s`, `2.1 ms`."""
    return scaled(nanoseconds / SECOND, "s") if nanoseconds >= SECOND // 10 else scaled(nanoseconds / 1e6, "ms")
