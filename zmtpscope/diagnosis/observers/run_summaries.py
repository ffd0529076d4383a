"""Facts about the messages of a run, in one pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.tables import MessageTable

MAX_RECENT = 8

MAX_LAST = 32
"""A side rarely sends more segments before an acknowledgment."""


class RunSummary(NamedTuple):
    """Facts about the messages of a run. Times are in ns; packets are references."""

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
    """Return the summary of each run of `table.by_sender`."""
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
