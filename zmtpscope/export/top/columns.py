"""The messages of a batch as columns, in the order of the schema, and single ones as far as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect import MessageRun
from zmtpscope.dissect.records.batch import Arrangement
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.payloads.dissectors import TEXT
from zmtpscope.zmtp.events import MARKED

SHOWN_FRAMES, SHOWN_OCTETS = 4, 128
"""So much is kept of the content of a message: frames, and octets of each."""


class Columns(NamedTuple):
    """The messages of a batch; message i is row `row_of[i]` of `runs[run_of[i]]`."""

    runs: Sequence[MessageRun]
    run_of: NDArray[Any]
    """Small integers, since they are sorted by."""
    row_of: Int64
    numbers: Int64
    """Places among the messages of all batches."""
    times: Int64
    """Those of the last octets, none earlier than one in front of it."""
    frames: Int64
    octets: Int64
    """In message frames, headers not counted, as far as they are there."""
    marked: NDArray[np.bool_]
    """Which messages subscribe or cancel."""

    def part(self, which: slice | NDArray[np.bool_]) -> Columns:
        """Some of the messages."""
        columns: list[NDArray[Any]] = [column[which] for column in self[1:]]
        return Columns(self.runs, *columns)


def columns_of(rows: MessageColumns, before: int, latest: int, events: Sequence[tuple[int, int]]) -> Columns:
    """The columns of a batch, in front of which there were so many messages; `latest` is the time of what came last,
    `events` are places and times of what else no message behind may be earlier than."""
    if not rows.runs:
        nothing = np.empty(0, np.int64)
        return Columns([], rows.run_of, rows.row_of, nothing, nothing, nothing, nothing, np.empty(0, np.bool_))
    times = np.maximum(rows.time_ends, latest)
    for place, time in events:
        if place < len(times):
            times[place] = max(int(times[place]), time)
    return Columns(
        rows.runs,
        rows.run_of.astype(np.min_scalar_type(len(rows.runs))),
        rows.row_of,
        np.arange(before, before + len(rows)),
        np.maximum.accumulate(times),
        rows.counts,
        rows.body_octets,
        (rows.special & MARKED) != 0,
    )


class LastMessage(NamedTuple):
    """The last message of a row, as far as it is shown."""

    time: int
    """Nanoseconds since the epoch."""
    topic: bytes | None
    """Its first octets."""
    content: tuple[tuple[bytes | None, int], ...] | None
    """Of the content frames the first octets, None where they were not kept, and the size; None: it is sealed."""
    frames: int
    summary: str | None
    """What a payload dissector says of it."""

    def read(self) -> LastMessage:
        """Itself."""
        return self


class UnreadMessage(NamedTuple):
    """The same, still in its run: most are replaced by another before anybody looks at them."""

    run: MessageRun
    row: int
    time: int

    def read(self) -> LastMessage:
        """As far as it is shown."""
        run = self.run.part(self.row, self.row + 1)
        columns = MessageColumns.of_run(run)
        time, frames, first = self.time, len(run.sizes), int(columns.content[0])
        if not columns.is_open[0]:
            return LastMessage(time, None, None, frames, None)
        made, summary, topic = columns.made.of(0), None, run.topic(0)
        if made is not None and made.protocol not in ("", TEXT):
            summary = f"{made.protocol} {made.summary}"
        shown = range(first, min(frames, first + SHOWN_FRAMES))
        content = tuple((run.head(frame, SHOWN_OCTETS), int(run.sizes[frame])) for frame in shown)
        return LastMessage(time, None if topic is None else topic[:SHOWN_OCTETS], content, frames, summary)


def first_and_last(numbers: NDArray[Any]) -> tuple[Int64, Int64, Int64]:
    """Each different number, and the first and last place where it is."""
    places = np.arange(len(numbers))
    counts = np.bincount(numbers)
    first, last = np.empty((2, len(counts)), np.int64)
    first[numbers[::-1]] = places[::-1]
    last[numbers] = places
    different = np.flatnonzero(counts)
    return different, first[different], last[different]


def first_places(order: Arrangement) -> dict[int | None, int]:
    """The place of the first message of each connection."""
    if not len(order.run_of):
        return {}
    numbers, places, _ = first_and_last(order.run_of)
    found: dict[int | None, int] = {}
    for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
        conn = order.runs[number].stream.conn
        found[conn] = min(place, found.get(conn, place))
    return found
