"""Records in the order of time, as far as a bounded wait allows it.

Records come in the order of the packets that made them decidable, and are dated by the packet of their first octet: a
greeting waits for the other side's, a message for its end. So each waits here until so many records, or octets in them,
were decided after it; then nothing earlier is expected. What comes later still is let out at once.

The order is a function of the sequence of records alone. The *watermark* of a record is the latest time among those
that need not wait for it any more; its key is its own time, or the watermark if that is not earlier. Records are sorted
by key. Of one key, those that are not late come first, by packet; the others as they were decided. Watermarks never
fall, so whatever has a key up to the latest one is final.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Batch, FrameRun, Record
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.export.front import Files

RECORDS, OCTETS = 4096, 8 << 20
"""What waits, at most. The batch that a row is of is there as long as one of its rows waits."""

HOLDING_OCTETS = frozenset({"greeting", "command", "datagram"})
"""Records that hold the octets they stand for; gaps and leftovers only say how many there were."""

EARLIEST = -(1 << 63)
SORTED_AT_ONCE = 62
"""Bits of a time and a packet number that are sorted as one number."""

LATE = 1 << 62
"""In place of a packet number: behind all packets."""

Item = Record | MessageColumns | FrameRun
"""A record; the messages of a batch, which are rows; a run of frames, which are rows, too."""

T = TypeVar("T")


class _Columns(NamedTuple):
    """Records as columns: in which item and which row of it, when, in which packet, decided by which segment, holding
    how many octets."""

    items: Int64
    rows: Int64
    times: Int64
    packets: Int64
    ordinals: Int64
    octets: Int64


class TimeOrder(Generic[T]):
    """Lets records wait: at most `records` of them (0: none waits for another packet), and about `octets`. `source_of`
    is asked once for each item, with the files of its batch, what shall stand for it."""

    def __init__(self, source_of: Callable[[Item, Files], T], *, records: int = RECORDS, octets: int = OCTETS) -> None:
        self._source_of = source_of
        self._records, self._octets = records, octets
        self._sources: list[T] = []
        """What waiting records are of."""
        nothing = np.empty(0, np.int64)
        self._waiting = nothing, nothing, nothing, nothing
        """Key, packet, item and row of each that waits, in order."""
        self._recent = nothing, nothing, nothing
        """Time, ordinal and sum of octets so far of the last records, waiting or not, which watermarks look back at."""
        self._latest = EARLIEST
        """The latest time of those in front of them."""

    def feed(self, batch: Batch) -> list[tuple[T, list[int]]]:
        """What need not wait any more when the records of `batch` are there, in order: (the source of an item, its
        rows); those of a record are [-1]."""
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
        stretches = self._stretches(item_of[:final], row_of[:final])
        left, item_of = np.unique(item_of[final:], return_inverse=True)
        self._sources = [self._sources[source] for source in left.tolist()]
        self._waiting = keys[final:], packets[final:], item_of, row_of[final:]
        return stretches

    def finish(self) -> list[tuple[T, list[int]]]:
        """What still waits: nothing more comes."""
        _, _, items, rows = self._waiting
        return self._stretches(items, rows)

    def _watermarks(self, columns: _Columns) -> Int64:
        """Those of new records, and of the one that will be next."""
        before, sums = len(self._recent[0]), self._recent[2]
        past = sums[-1] if before else 0
        times = np.concatenate((self._recent[0], columns.times))
        ordinals = np.concatenate((self._recent[1], columns.ordinals))
        sums = np.concatenate((sums, past + np.cumsum(columns.octets)))
        places = np.arange(before, len(times) + 1)
        # at each place, how many of those in front of it need not wait for what stands there
        passed = np.maximum(places - self._records, 0)
        if sums[-1] - sums[0] >= self._octets:
            behind = np.append(sums[before:], sums[-1]) - self._octets
            passed = np.maximum(passed, np.searchsorted(sums, behind, "right"))
        passed = np.minimum(passed, _begins(ordinals)[before:])
        latest = np.maximum.accumulate(np.append(self._latest, times))  # latest[i]: of the first i
        kept = max(0, len(times) - self._records)
        self._latest = int(latest[kept])
        self._recent = times[kept:], ordinals[kept:], sums[kept:]
        return latest[passed]

    def _stretches(self, source_of: Int64, row_of: Int64) -> list[tuple[T, list[int]]]:
        """Records that follow one another, rows of one item taken together."""
        cuts = np.flatnonzero(source_of[1:] != source_of[:-1]) + 1
        edges, rows = [0, *cuts.tolist(), len(source_of)], row_of.tolist()
        sources = [self._sources[source] for source in source_of[edges[:-1]].tolist()] if rows else []
        return [(source, rows[low:high]) for source, low, high in zip(sources, edges, edges[1:], strict=False)]


def _columns_of(batch: Batch) -> tuple[_Columns, list[Item]]:
    """The records of a batch in their order (those that one packet decided: by time), and what they are of."""
    arranged = batch.arranged()
    items: list[Item] = []
    columns = _Columns(*[np.empty(0, np.int64)] * 6)
    if arranged.runs:
        rows = MessageColumns.of_arrangement(arranged, batch.files)
        items.append(rows)
        packets, places = rows.packets & PACKET_MASK, np.arange(len(rows))
        columns = _Columns(np.zeros_like(places), places, rows.times, packets, rows.of_rows("orders"), rows.lengths)
    if arranged.between:
        numbers: dict[int, int] = {}
        for _, item, _ in arranged.between:
            if numbers.setdefault(id(item), len(items)) == len(items):
                items.append(item)
        places = np.array([place for place, _, _ in arranged.between])
        others = [(numbers[id(item)], *_of_one(item, index)) for _, item, index in arranged.between]
        values = np.array(others, np.int64)
        columns = _Columns(*[np.insert(column, places, values[:, at]) for at, column in enumerate(columns)])
    times, ordinals = columns.times, columns.ordinals
    if np.any((times[1:] < times[:-1]) & (ordinals[1:] == ordinals[:-1])):
        order = np.lexsort((times, ordinals))
        columns = _Columns(*[column[order] for column in columns])
    return columns, items


def _begins(ordinals: Int64) -> Int64:
    """For each place, and the one behind the last, where those begin that the same segment decided."""
    places = np.arange(len(ordinals) + 1)
    places[1:-1] *= ordinals[1:] != ordinals[:-1]
    return np.maximum.accumulate(places)


def _order_of(keys: Int64, packets: Int64) -> Int64 | None:
    """The order by key and packet, what is alike as it stands; None: it is in order."""
    low, first = int(keys.min()), int(packets.min())
    late = int(np.max(packets, where=packets < LATE, initial=first)) + 1
    bits = (late - first).bit_length()
    if (int(keys.max()) - low).bit_length() + bits > SORTED_AT_ONCE:
        return np.lexsort((packets, keys))
    both = ((keys - low) << bits) + (np.minimum(packets, late) - first)
    return np.argsort(both, kind="stable") if np.any(both[1:] < both[:-1]) else None


def _of_one(item: Record | FrameRun, index: int) -> tuple[int, int, int, int, int]:
    """Row, time, packet, ordinal and octets of a record, or of a frame, whose octets are those of its message."""
    if isinstance(item, FrameRun):
        return index, int(item.times[index]), int(item.packets[index]) & PACKET_MASK, int(item.orders[index]), 0
    values = item.values
    if item.type == "connection":
        return index, values["end_ns"], LATE, item.order[0], 0
    octets = values["length"] if item.type in HOLDING_OCTETS else 0
    return index, values["ts_ns"], values["packet"] or 0, item.order[0], min(octets or 0, OCTETS)
