"""Merge the chunks of one partition into blocks, in the order in which a single run reads all files.

As in `capture/merge.py`, packets are sorted by sort time (the largest time so far in their file), then by file and
packet number. Chunks arrive in the order of their first packets, and chunks of one file do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zmtpscope.capture.captures import Segmenter
from zmtpscope.capture.merge import join
from zmtpscope.capture.segments import DATAGRAM, ORDINALS, Column, SegmentBlock, SegmentRows
from zmtpscope.spark.chunks import Chunk, Kind, Packets, Segments, packets_of, segments_of
from zmtpscope.spark.flows import FlowFilter

BLOCK_OCTETS = 1 << 20

Limit = tuple[int, int]
"""Sort time and packet reference."""


class TakenBlock(NamedTuple):
    """A block with the sort times of its segments and datagrams."""

    segments: SegmentBlock
    taken: Column
    taken_datagrams: Column


class Merger:
    """Merges the chunks of one partition. Pass all chunks in order to `take`, then call `finish`."""

    def __init__(self, flows: FlowFilter) -> None:
        self._flows = flows
        """The partition's share of reassembled datagrams."""
        self._segments: list[Segments] = []
        self._packets: list[Packets] = []
        self._octets = 0
        """Octets of chunks since the last block."""
        self._segmenter = Segmenter()
        self.ordinal = 0

    def take(self, chunk: Chunk) -> Iterator[TakenBlock]:
        """Add a chunk. Yield the blocks of packets before it, to which no more packets can be added."""
        if self._octets >= BLOCK_OCTETS:
            yield from self._blocks((chunk.taken, chunk.packet))
        self._octets += len(chunk.octets) + len(chunk.table)
        if chunk.kind == Kind.SEGMENTS:
            self._segments.append(segments_of(chunk))
        elif chunk.kind == Kind.PACKETS:
            self._packets.append(packets_of(chunk))

    def finish(self) -> Iterator[TakenBlock]:
        yield from self._blocks(None)

    def _blocks(self, limit: Limit | None) -> Iterator[TakenBlock]:
        self._octets = 0
        packets, self._packets = _split_packets(self._packets, limit)
        segments, self._segments = _split_segments(self._segments, limit)
        if packets:
            segments.append(self._put_together(packets))
        segments = [part for part in segments if len(part.taken)]
        if segments:
            rows, taken, data = _merged(segments)
            block = SegmentBlock.from_columns(data, rows, self.ordinal, latest=int(taken[-1]))
            self.ordinal += ORDINALS * len(block)
            is_datagram = (rows.flags & DATAGRAM) != 0
            yield TakenBlock(block, taken[~is_datagram], taken[is_datagram])

    def _put_together(self, parts: list[Packets]) -> Segments:
        """Return the segments of fragmented packets after reassembly. The sort time of a datagram is that of its last
        fragment."""
        parts.sort(key=_first_reference)
        packets = join([(part.packets, part.taken) for part in parts])
        taken = np.sort(np.concatenate([part.taken for part in parts]))
        block = self._flows.select(self._segmenter.feed(packets))
        rows = block.rows()
        order = packets.references.argsort()
        places = order[packets.references.searchsorted(rows.packets, sorter=order)]
        return Segments(rows, taken[places], block.data)


def _split_packets(parts: list[Packets], limit: Limit | None) -> tuple[list[Packets], list[Packets]]:
    before, behind = [], []
    for packets, taken in parts:
        count = _count_before(taken, packets.references, limit)
        if count:
            before.append(Packets(packets[:count], taken[:count]))
        if count < len(taken):
            behind.append(Packets(packets[count:], taken[count:]))
    return before, behind


def _split_segments(parts: list[Segments], limit: Limit | None) -> tuple[list[Segments], list[Segments]]:
    before, behind = [], []
    for rows, taken, data in parts:
        count = _count_before(taken, rows.packets, limit)
        if count:
            before.append(Segments(rows.some(slice(0, count)), taken[:count], data))
        if count < len(taken):
            behind.append(Segments(rows.some(slice(count, None)), taken[count:], data))
    return before, behind


def _count_before(taken: Column, references: Column, limit: Limit | None) -> int:
    if limit is None:
        return len(taken)
    low, high = int(taken.searchsorted(limit[0])), int(taken.searchsorted(limit[0], "right"))
    return low + int(references[low:high].searchsorted(limit[1]))


def _merged(parts: list[Segments]) -> tuple[SegmentRows, Column, bytes]:
    """Return the rows of all parts in order, their sort times, and their octets."""
    numbers: dict[bytes, int] = {}
    tables, octets, position = [], [], 0
    for rows, _, data in parts:
        flows = np.array([numbers.setdefault(key, len(numbers)) for key in rows.keys], np.int64)[rows.flows]
        begin, end = int(rows.starts.min()), int(rows.stops.max())
        shift = position - begin
        tables.append(rows._replace(flows=flows, starts=rows.starts + shift, stops=rows.stops + shift))
        octets.append(data[begin:end])
        position += end - begin
    columns = zip(*(table[1:] for table in tables), strict=True)
    joined = SegmentRows(list(numbers), *map(np.concatenate, columns))
    taken = np.concatenate([part.taken for part in parts])
    order = np.lexsort((joined.packets, taken))
    return joined.some(order), taken[order], b"".join(octets)


def _first_reference(part: Packets) -> int:
    return int(part.packets.references[0])
