"""Sort records by time, within a bounded delay.

Each record is delayed until a given number of later records, or of octets in them, has arrived. A record that is still
later is returned at once. The *watermark* of a record is the latest time among the records that no longer wait for it.
Its key is its own time, or the watermark if that is later. Records are sorted by key; with equal keys, punctual records
precede late ones, by packet, and late ones keep the order of arrival. Watermarks never decrease, so records with a key
up to the latest watermark are final.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Batch, FrameTable, Record
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.front import Files

RECORDS, OCTETS = 4096, 8 << 20
"""Waiting records and octets. A batch stays in memory while one of its rows waits."""

HOLDING_OCTETS = frozenset({"greeting", "command", "datagram"})
"""Records with the octets of a stream; gaps and leftovers only contain the number of octets."""

EARLIEST = -(1 << 63)
SORTED_AT_ONCE = 62
"""Bits of a time and a packet number that are sorted as one number."""

LATE = 1 << 62
"""Replaces the packet number of late records: after all packets."""

Item = Record | MessageColumns | FrameTable
"""The messages of a batch, and a run of frames, are rows."""

T = TypeVar("T")


class _Columns(NamedTuple):
    """Records as columns: index of the item, row in it, time, packet, ordinal of the deciding segment, octets.

    An item is a table of messages or frames, or a single record.
    """

    items: Int64
    rows: Int64
    times: Int64
    packets: Int64
    ordinals: Int64
    octets: Int64


class TimeOrder(Generic[T]):
    """Sorts records by time, with a delay of at most `records` records and about `octets` octets.

    With `records` 0, records wait only for others of the same packet. `source_of` is called once for each table or
    single record, with the files of its batch; results refer to the object that it returns.
    """

    def __init__(self, source_of: Callable[[Item, Files], T], *, records: int = RECORDS, octets: int = OCTETS) -> None:
        self._source_of = source_of
        self._records, self._octets = records, octets
        self._sources: list[T] = []
        nothing = np.empty(0, np.int64)
        self._waiting = nothing, nothing, nothing, nothing
        """Key, packet, item and row of each waiting record, in order."""
        self._recent = nothing, nothing, nothing
        """Time, ordinal and running sum of octets of the last records, for watermarks."""
        self._latest = EARLIEST
        """Latest time of all earlier records."""

    def feed(self, batch: Batch) -> list[tuple[T, list[int]]]:
        """Return the records that no longer wait, in order, as (object of `source_of`, its rows).

        The rows of a single record are [-1].
        """
        columns, items = _columns_of(batch)
        if not items:
            return []
        first = len(self._sources)
        self._sources += [self._source_of(item, batch.files) for item in items]
        watermarks = self._watermarks(columns)
        packets = np.where(columns.times > watermarks[:-1], columns.packets, LATE)
        new = np.maximum(columns.times, watermarks[:-1]), packets, columns.items + first, columns.rows
        keys, packets, item_of, row_of = map(np.concatenate, zip(self._waiting, new, strict=True))
        order = _order_of(keys, packets)
        if order is not None:
            keys, packets, item_of, row_of = keys[order], packets[order], item_of[order], row_of[order]
        final = int(np.searchsorted(keys, watermarks[-1], "right"))
        ranges = self._ranges(item_of[:final], row_of[:final])
        left, item_of = np.unique(item_of[final:], return_inverse=True)
        self._sources = [self._sources[source] for source in left.tolist()]
        self._waiting = keys[final:], packets[final:], item_of, row_of[final:]
        return ranges

    def finish(self) -> list[tuple[T, list[int]]]:
        """Return all delayed records, in order."""
        _, _, items, rows = self._waiting
        return self._ranges(items, rows)

    def _watermarks(self, columns: _Columns) -> Int64:
        before, sums = len(self._recent[0]), self._recent[2]
        past = sums[-1] if before else 0
        times = np.concatenate((self._recent[0], columns.times))
        ordinals = np.concatenate((self._recent[1], columns.ordinals))
        sums = np.concatenate((sums, past + np.cumsum(columns.octets)))
        places = np.arange(before, len(times) + 1)
        # for each place, the number of earlier records that need not wait for it
        passed = np.maximum(places - self._records, 0)
        if sums[-1] - sums[0] >= self._octets:
            behind = np.append(sums[before:], sums[-1]) - self._octets
            passed = np.maximum(passed, np.searchsorted(sums, behind, "right"))
        passed = np.minimum(passed, _begins(ordinals)[before:])
        latest = np.maximum.accumulate(np.append(self._latest, times))  # latest[i]: latest time of the first i
        kept = max(0, len(times) - self._records)
        self._latest = int(latest[kept])
        self._recent = times[kept:], ordinals[kept:], sums[kept:]
        return latest[passed]

    def _ranges(self, source_of: Int64, row_of: Int64) -> list[tuple[T, list[int]]]:
        """Group adjacent rows of the same table: return (object of `source_of`, its rows)."""
        cuts = np.flatnonzero(source_of[1:] != source_of[:-1]) + 1
        edges, rows = [0, *cuts.tolist(), len(source_of)], row_of.tolist()
        sources = [self._sources[source] for source in source_of[edges[:-1]].tolist()] if rows else []
        return [(source, rows[low:high]) for source, low, high in zip(sources, edges, edges[1:], strict=False)]


def _columns_of(batch: Batch) -> tuple[_Columns, list[Item]]:
    """Return the records of a batch as columns in order of arrival, and the tables and records that the columns index.

    Records that became certain with the same segment are in order of time.
    """
    arranged = batch.arranged()
    items: list[Item] = []
    columns = _Columns(*[np.empty(0, np.int64)] * 6)
    if arranged.tables:
        rows = MessageColumns.of_arrangement(arranged, batch.files)
        items.append(rows)
        packets, places = rows.packets & PACKET_MASK, np.arange(len(rows))
        columns = _Columns(np.zeros_like(places), places, rows.times, packets, rows.of_rows("orders"), rows.lengths)
    if arranged.between:
        number_of: dict[Item, int] = {}
        in_front, others = list[int](), list[int]()
        for place, item, index in arranged.between:
            in_front.append(place)
            number = number_of.setdefault(item, len(items))
            if number == len(items):
                items.append(item)
            others += number, index, *_of_one(item, index)
        places, of_others = np.array(in_front), np.array(others, np.int64).reshape(-1, len(columns))
        columns = _Columns(*[np.insert(column, places, of_others[:, at]) for at, column in enumerate(columns)])
    times, ordinals = columns.times, columns.ordinals
    if np.any((times[1:] < times[:-1]) & (ordinals[1:] == ordinals[:-1])):
        order = np.lexsort((times, ordinals))
        columns = _Columns(*[column[order] for column in columns])
    return columns, items


def _begins(ordinals: Int64) -> Int64:
    """For each record (and the end) return the index of the first record that the same segment decided.

    `ordinals` are the segments that decided the records.
    """
    places = np.arange(len(ordinals) + 1)
    places[1:-1] *= ordinals[1:] != ordinals[:-1]
    return np.maximum.accumulate(places)


def _order_of(keys: Int64, packets: Int64) -> Int64 | None:
    """Return the indexes that sort records by key and packet; None if they are sorted."""
    low, first = int(keys.min()), int(packets.min())
    late = int(np.max(packets, where=packets < LATE, initial=first)) + 1
    bits = (late - first).bit_length()
    if (int(keys.max()) - low).bit_length() + bits > SORTED_AT_ONCE:
        return np.lexsort((packets, keys))
    both = ((keys - low) << bits) + (np.minimum(packets, late) - first)
    return np.argsort(both, kind="stable") if np.any(both[1:] < both[:-1]) else None


def _of_one(item: Record | FrameTable, index: int) -> tuple[int, int, int, int]:
    """Return time, packet, ordinal and octets of a record, or of the frame with this index in a table.

    The octets of a frame count in its message, so they are 0.
    """
    if isinstance(item, FrameTable):
        return int(item.times[index]), int(item.packets[index]) & PACKET_MASK, int(item.orders[index]), 0
    if item.type == "connection":
        return item.own["end_ns"], LATE, item.order[0], 0
    octets = min(item.own["length"] or 0, OCTETS) if item.type in HOLDING_OCTETS else 0
    return item.ts_ns, item.packet or 0, item.order[0], octets
