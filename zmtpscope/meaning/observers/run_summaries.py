"""Of a run of messages how many there are, when they came, how large they are, and the last ones: in one pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zmtpscope import compiled
from zmtpscope.dissect.records.batch import MessageRun

MOST_RECENT = 8
"""The times of so many messages are remembered, those that came last."""

MOST_LAST = 32
"""A side sends few segments more than are acknowledged."""


class RunSummary(NamedTuple):
    """The messages of a run. Times are in ns; packets are references."""

    messages: int
    first_ns: int
    """When the first one began ..."""
    first_end_ns: int
    """... and was complete."""
    last_ns: int
    last_end_ns: int
    """The same of the last one."""
    last_order: int
    """The ordinal of the segment that made the last one decidable."""
    first_packet: int
    last_packet: int
    """Those in which the first and the last one began, ..."""
    last_packet_end: int
    """... and the last one ended."""
    longest_pause: int
    """Between the ends of two; 0 where there are not two."""
    largest_last: int
    """Octets of the largest frame of the last one, ..."""
    largest_before: int
    """... and of those before; 0 where there are none."""
    recent: tuple[int, ...]
    """When the last `MOST_RECENT` were complete."""
    last: bytes
    """Of the last `MOST_LAST` the time, the packet and the offset after the last octet, as signed numbers of eight
    octets."""


@compiled.where_possible
def summary_of(run: MessageRun) -> RunSummary:
    """Return what is remembered of a run whatever its messages are."""
    ends, begin = run.time_ends, int(run.first[-1])
    frames = run.last[-MOST_LAST:]
    columns = run.times[-MOST_LAST:], run.packets[-MOST_LAST:], run.bodies[frames] + run.sizes[frames]
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
        longest_pause=max(0, int(np.diff(ends).max())) if len(ends) > 1 else 0,
        largest_last=int(run.sizes[begin:].max()),
        largest_before=int(run.sizes[:begin].max()) if begin else 0,
        recent=tuple(ends[-MOST_RECENT:].tolist()),
        last=np.stack(columns, axis=1).tobytes(),
    )
