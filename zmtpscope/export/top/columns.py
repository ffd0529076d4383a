"""The messages of a batch as columns, in the order of the schema, and single ones as far as they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect import MessageRun
from zmtpscope.dissect.records.batch import Arrangement, Int64
from zmtpscope.dissect.records.rows import envelope_length
from zmtpscope.export.rows import GROUPED
from zmtpscope.payloads.registry import TEXT
from zmtpscope.zmtp.events import ENCRYPTED, MARKED

SHOWN_FRAMES, SHOWN_OCTETS = 4, 128
"""So much is kept of the content of a message: frames, and octets of each."""


class Columns(NamedTuple):
    """The messages of a batch; message i is row `row_of[i]` of `runs[run_of[i]]`."""

    runs: list[MessageRun]
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


def columns_of(order: Arrangement, before: int, latest: int, events: Sequence[tuple[int, int]]) -> Columns:
    """The columns of a batch, in front of which there were so many messages; `latest` is the time of what came last,
    `events` are places and times of what else no message behind may be earlier than."""
    runs, run_of, row_of, _ = order
    if not runs:
        nothing = np.empty(0, np.int64)
        return Columns([], run_of, row_of, nothing, nothing, nothing, nothing, np.empty(0, np.bool_))
    counts = [len(run.first) for run in runs]
    frame_counts = [len(run.sizes) for run in runs]
    bases = np.repeat(np.cumsum([0, *frame_counts[:-1]]), counts)
    places = np.cumsum([0, *counts[:-1]])[run_of] + row_of
    first = np.concatenate([run.first for run in runs]) + bases
    frames = np.concatenate([run.last for run in runs]) + bases + 1 - first
    octets = np.add.reduceat(np.concatenate([_sizes(run) for run in runs]), first)
    flags = np.concatenate([run.flags for run in runs])[first]
    times = np.concatenate([run.time_ends for run in runs])[places]
    times = np.maximum(times, latest)
    for place, time in events:
        if place < len(times):
            times[place] = max(int(times[place]), time)
    return Columns(
        runs,
        run_of.astype(np.min_scalar_type(len(runs))),
        row_of,
        np.arange(before, before + len(row_of)),
        np.maximum.accumulate(times),
        frames[places],
        octets[places],
        (flags[places] & MARKED) != 0,
    )


def _sizes(run: MessageRun) -> Int64:
    """Octets of each frame: what the last one announces may not be there."""
    there = run.end - int(run.bodies[-1])
    if run.sizes[-1] <= there:
        return run.sizes
    sizes = run.sizes.copy()
    sizes[-1] = max(there, 0)
    return sizes


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
        run, row, time = self
        first, last = int(run.first[row]), int(run.last[row])
        frames = last - first + 1
        if run.flags[first] & ENCRYPTED:
            return LastMessage(time, None, None, frames, None)
        made = None if run.payloads is None else run.payloads[row]
        summary = None
        if made is not None and made.protocol not in ("", TEXT):
            summary = f"{made.protocol} {made.summary}"
        topic = run.topic(row)
        begin = first
        if last > first:
            begin += 1 if run.socket_type in GROUPED else envelope_length(run, first, last) or 0
        shown = range(begin, min(last, begin + SHOWN_FRAMES - 1) + 1)
        content = tuple((run.head(frame, SHOWN_OCTETS), int(run.sizes[frame])) for frame in shown)
        return LastMessage(time, None if topic is None else topic[:SHOWN_OCTETS], content, frames, summary)
