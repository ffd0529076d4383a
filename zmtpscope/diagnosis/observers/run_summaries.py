"""Summarise the messages of one sender in a batch, and divide messages of two sides into turns. Both take one pass."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import MessageTable

MAX_RECENT = 8

MAX_LAST = 32
"""A side rarely sends more segments before an acknowledgment."""


class RunSummary(NamedTuple):
    """A summary of the messages of one sender in a batch: their number, times, pauses and sizes.

    Times are in ns; packets are references.
    """

    messages: int
    first_ns: int
    first_end_ns: int
    last_ns: int
    last_end_ns: int
    last_order: int
    """Ordinal of the segment that completed the last message."""
    first_packet: int
    last_packet: int
    """Packets with the first octets of these messages."""
    last_packet_end: int
    longest_pause: int
    second_pause: int
    """The two longest times between the ends of successive messages, or 0."""
    longest_from: int
    """Index of the message before the longest pause."""
    largest_last: int
    """Size of the largest frame in the last message."""
    largest_before: int
    """Size of the largest frame in earlier messages, or 0."""
    recent: tuple[int, ...]
    """Ends of the last `MAX_RECENT` messages."""
    last: bytes
    """Time, packet, and offset after the last octet, of the last `MAX_LAST` messages, as signed 8-octet numbers."""


@compiled.where_possible
def summaries_of(table: MessageTable) -> list[RunSummary]:
    """Return the summary of the messages of each sender of a table, in the order of `table.by_sender`."""
    return [*map(_summary_of, table.by_sender())]


def _summary_of(run: MessageTable) -> RunSummary:
    ends, begin = run.time_ends, int(run.first[-1])
    frames = run.last[-MAX_LAST:]
    pauses = np.diff(ends)
    second, longest = sorted([0, 0, *pauses.tolist()])[-2:]
    columns = run.times[-MAX_LAST:], run.packets[-MAX_LAST:], run.bodies[frames] + run.sizes[frames]
    return RunSummary(
        messages=len(ends),
        first_ns=int(run.times[0]),
        first_end_ns=int(ends[0]),
        last_ns=int(run.times[-1]),
        last_end_ns=int(ends[-1]),
        last_order=int(run.orders[-1]),
        first_packet=int(run.packets[0]),
        last_packet=int(run.packets[-1]),
        last_packet_end=int(run.packet_ends[-1]),
        longest_pause=longest,
        second_pause=second,
        longest_from=int(pauses.argmax()) if longest else 0,
        largest_last=int(run.sizes[begin:].max()),
        largest_before=int(run.sizes[:begin].max()) if begin else 0,
        recent=tuple(ends[-MAX_RECENT:].tolist()),
        last=np.stack(columns, axis=1).tobytes(),
    )


class Turn(NamedTuple):
    """Successive messages of one side, before the other side sends.

    Their positions among its messages of the batch are `begin` until before `end`. `first_ns` and `last_ns` are the
    times of the last octets of the first and the last message.
    """

    side: int
    begin: int
    end: int
    first_ns: int
    last_ns: int


@compiled.where_possible
def turns_of(one: tuple[Int64, Int64], other: tuple[Int64, Int64]) -> list[Turn]:
    """Divide the messages of two sides into turns.

    Each argument contains the ordinals (ascending) and the times (ns) of the last octets of at least one message. In
    the same segment, side 0 precedes side 1.
    """
    orders, ends = ([columns[place].tolist() for columns in (one, other)] for place in (0, 1))
    at, side, found = [0, 0], int(orders[0][0] > orders[1][0]), list[Turn]()
    while at[side] < len(orders[side]):
        begin, other_side, end = at[side], 1 - side, len(orders[side])
        if at[other_side] < len(orders[other_side]):
            cut = bisect_left if side else bisect_right
            end = cut(orders[side], orders[other_side][at[other_side]], begin)
        found.append(Turn(side, begin, end, ends[side][begin], ends[side][end - 1]))
        at[side], side = end, other_side
    return found
