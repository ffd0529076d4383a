"""What is folded: stretches of records in the order in which they are written, and what stands in place of some."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from zmtpscope.dissect import Record
from zmtpscope.export.front import Files
from zmtpscope.export.row_lines import RowWords
from zmtpscope.export.words import scaled
from zmtpscope.records import SECOND

WRITTEN_EVERY = 10 * SECOND
"""Where lines do not wait, what repeats is written so often (capture time), and when it is over."""


ITSELF = (-1,)
"""In place of rows: what is said is one line."""


class Repeats(NamedTuple):
    """One line in place of records that repeat what was written: `last` is the last of them, `text` says how many there
    were."""

    last: Record
    text: str


Stretch = tuple[tuple[Record | RowWords | Repeats, Files], Sequence[int]]
"""Rows, (..., rows); else (..., `ITSELF`). With the files of their batch."""


class Fold(Protocol):
    """Takes what is to be written in order, and gives it back: some of it later, or `Repeats` in place of it."""

    def feed(self, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
        """What is to be written now."""

    def rest(self) -> Iterator[Stretch]:
        """What is left when nothing more comes."""


def one(record: Record, files: Files) -> Stretch:
    """A record by itself."""
    return (record, files), ITSELF


def time_of(record: Record) -> int:
    """When it is written: a connection at its end."""
    time: int = record.values["end_ns" if record.type == "connection" else "ts_ns"]
    return time


def length(nanoseconds: int) -> str:
    """`0.201 s`, `2.1 ms`: from one to the next, or how long an answer took."""
    return scaled(nanoseconds / SECOND, "s") if nanoseconds >= SECOND // 10 else scaled(nanoseconds / 1e6, "ms")
