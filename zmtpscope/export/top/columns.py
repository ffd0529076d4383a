"""The messages of a batch as columns for counting, and the displayed part of a single message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect import MessageTable
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.payloads.dissectors import TEXT
from zmtpscope.zmtp.events import MARKED

SHOWN_FRAMES, SHOWN_OCTETS = 4, 128
"""Frames of a message to keep, and octets of each frame."""


class Sums(NamedTuple):
    """Sums over messages or other records by group: index i of each column belongs to group i."""

    messages: Int64
    octets: Int64
    frames: Int64

    def part(self, which: Int64) -> Sums:
        return Sums(*(column[which] for column in self))


@dataclass(frozen=True)
class Measured:
    """Messages or other records to count, in order: a value for each in every column."""

    orders: Int64
    """Positions among those of all batches."""
    times: Int64
    """Times of the last octets; of messages of several batches never decreasing."""
    octets: Int64
    """Captured octets in message frames, without headers."""
    frames: Int64
    complete: Bool

    def __len__(self) -> int:
        return len(self.orders)

    def sums(self, groups: NDArray[Any], count: int) -> Sums:
        """Add up the records by group. `groups` has the group of each record, below `count`."""
        weights = (None, self.octets, self.frames)
        return Sums(*(np.bincount(groups, weight, count).astype(np.int64) for weight in weights))


@dataclass(frozen=True)
class Columns(Measured):
    """Messages to count. Message i is row `rows[i]` of `messages`."""

    rows: Int64
    sender_of: NDArray[Any]
    """Indexes of `messages.senders`, small integers because columns are sorted by them."""
    marked: Bool
    """The message is a subscription or a cancellation."""
    messages: MessageColumns

    @property
    def senders(self) -> list[Sender]:
        return self.messages.senders

    def part(self, which: slice | Bool) -> Columns:
        columns = (field.name for field in fields(self) if field.name != "messages")
        return replace(self, **{name: getattr(self, name)[which] for name in columns})

    @property
    def data(self) -> Columns:
        """The messages that are no subscriptions or cancellations."""
        return self.part(~self.marked) if self.marked.any() else self


def columns_of(rows: MessageColumns, before: int, latest: int, events: Sequence[tuple[int, int]]) -> Columns:
    """Return the messages of a batch as columns for counting.

    `before`: how many messages precede them in earlier batches. Times never decrease: a message is at least as late as
    `latest`, and as the `events` before it, which are (index of the next message, time).
    """
    times = np.maximum(rows.time_ends, latest)
    for place, time in events:
        if place < len(times):
            times[place] = max(int(times[place]), time)
    return Columns(
        orders=np.arange(before, before + len(rows)),
        times=np.maximum.accumulate(times),
        octets=rows.body_octets,
        frames=rows.counts,
        complete=rows.complete,
        rows=np.arange(len(rows)),
        sender_of=rows.sender_of.astype(np.min_scalar_type(len(rows.senders))),
        marked=(rows.special & MARKED) != 0,
        messages=rows,
    )


class LastMessage(NamedTuple):
    """The parts of a message that the table shows as the last message of a row."""

    time: int
    topic: bytes | None
    """First octets of the topic."""
    content: tuple[tuple[bytes | None, int], ...] | None
    """First octets of each content frame (None if not kept) and its size. None if the message is encrypted."""
    frames: int
    summary: str | None

    def read(self) -> LastMessage:
        return self


class UnreadMessage(NamedTuple):
    """The last message of a row, as a reference to its table.

    Its contents are read only when the row is shown, since most are replaced by a later message before.
    """

    table: MessageTable
    row: int
    time: int

    def read(self) -> LastMessage:
        table = self.table.part(self.row, self.row + 1)
        columns = MessageColumns.of_table(table)
        time, frames, first = self.time, len(table.sizes), int(columns.content[0])
        if not columns.is_open[0]:
            return LastMessage(time, None, None, frames, None)
        made, summary, topic = columns.made.of(0), None, table.topic(0)
        if made is not None and made.protocol not in ("", TEXT):
            summary = f"{made.protocol} {made.summary}"
        shown = range(first, min(frames, first + SHOWN_FRAMES))
        content = tuple((table.head(frame, SHOWN_OCTETS), int(table.sizes[frame])) for frame in shown)
        return LastMessage(time, None if topic is None else topic[:SHOWN_OCTETS], content, frames, summary)


def first_and_last(numbers: NDArray[Any]) -> tuple[Int64, Int64, Int64]:
    """Return the distinct numbers, and for each the index of its first and of its last occurrence."""
    places = np.arange(len(numbers))
    counts = np.bincount(numbers)
    first, last = np.empty((2, len(counts)), np.int64)
    first[numbers[::-1]] = places[::-1]
    last[numbers] = places
    different = np.flatnonzero(counts)
    return different, first[different], last[different]


def first_places(messages: MessageColumns) -> dict[int | None, int]:
    if not len(messages):
        return {}
    numbers, places, _ = first_and_last(messages.sender_of)
    found: dict[int | None, int] = {}
    for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
        conn = messages.senders[number].stream.conn
        found[conn] = min(place, found.get(conn, place))
    return found
