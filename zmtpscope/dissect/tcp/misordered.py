"""Correct packets with an earlier timestamp than the preceding packet of their connection.

The order of packets is taken as right: such a packet gets the time of the preceding one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from zmtpscope.capture.segments import ACK, SYN, SegmentBlock
from zmtpscope.dissect.tcp.connection import LastSeen, reverse


class Misordered(NamedTuple):
    """A row of a block whose timestamp is `ns` before that of the preceding segment."""

    row: int
    ns: int


def put_in_order(block: SegmentBlock, latest: int, last_seen: Callable[[bytes], LastSeen | None]) -> list[Misordered]:
    """Correct times that contradict the order of packets; return the corrected rows.

    `latest` is the largest time of earlier packets; `last_seen` returns the last packet of the connection with a flow
    key.
    """
    times = block.times
    if not len(times) or (times[0] >= latest and (times[1:] >= times[:-1]).all()):
        return []
    found: list[Misordered] = []
    for key, rows in _suspects(block, latest):
        found += _put_in_order(block, rows, last_seen(key))
    return sorted(found)


def _suspects(block: SegmentBlock, latest: int) -> Iterator[tuple[bytes, list[int]]]:
    """Yield (flow key, rows) of each connection in which a row may be older than the preceding one.

    `latest` is the largest time of earlier packets.
    """
    numbers: dict[bytes, int] = {}
    of_keys = [numbers.setdefault(min(key, reverse(key)), len(numbers)) for key in block.keys]
    of_rows = np.array(of_keys, np.int64)[block.flows]
    order = of_rows.argsort(kind="stable")
    times, of_rows = block.times[order], of_rows[order]
    is_first = np.diff(of_rows, prepend=-1) > 0
    is_older = np.where(is_first, times < latest, np.diff(times, prepend=latest) < 0)
    begins = np.append(np.flatnonzero(is_first), len(order)).tolist()
    keys = list(numbers)
    for number in np.unique(of_rows[is_older]).tolist():
        yield keys[number], order[begins[number] : begins[number + 1]].tolist()


def _put_in_order(block: SegmentBlock, rows: list[int], before: LastSeen | None) -> Iterator[Misordered]:
    """Correct the times of `rows`, which belong to one connection.

    A SYN with another initial sequence number opens a new one.
    """
    last, initial = before or (0, -1)
    for row in rows:
        time = int(block.times[row])
        if block.flags[row] & (SYN | ACK) == SYN and block.sequences[row] != initial:
            last, initial = time, int(block.sequences[row])
        if time < last:
            block.times[row] = last
            yield Misordered(row, last - time)
        last = max(last, time)
