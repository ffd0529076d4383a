"""The chunks of one partition become blocks, in the order in which one run reads all files.

That is the order of `capture/merge.py`: by the time that a packet counts as taken at, then by file and number. Chunks
come in the order of their first packets, and those of one file do not overlap. So what waits is a block, and a chunk of
each file that overlaps others.
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
"""Octets that make a block."""

Limit = tuple[int, int]
"""The time that a packet counts as taken at, and its reference."""


class TakenBlock(NamedTuple):
    """A block, and the times that its segments and datagrams count as taken at."""

    segments: SegmentBlock
    taken: Column
    taken_datagrams: Column


class Merger:
    """Makes blocks of the chunks of one partition: `take` all of them in order, then `finish`."""

    def __init__(self, flows: FlowFilter) -> None:
        self._flows = flows
        """What the partition takes of datagrams that are put together here: others are for other partitions."""
        self._segments: list[Segments] = []
        self._packets: list[Packets] = []
        self._octets = 0
        """Of chunks that came since the last block."""
        self._segmenter = Segmenter()
        """Puts fragments together."""
        self.ordinal = 0

    def take(self, chunk: Chunk) -> Iterator[TakenBlock]:
        """The next chunk: all in front of it has come."""
        if self._octets >= BLOCK_OCTETS:
            yield from self._blocks((chunk.taken, chunk.packet))
        self._octets += len(chunk.octets) + len(chunk.table)
        if chunk.kind == Kind.SEGMENTS:
            self._segments.append(segments_of(chunk))
        elif chunk.kind == Kind.PACKETS:
            self._packets.append(packets_of(chunk))

    def finish(self) -> Iterator[TakenBlock]:
        """No more chunks will come."""
        yield from self._blocks(None)

    def _blocks(self, limit: Limit | None) -> Iterator[TakenBlock]:
        """What stands in front of `limit`: a block, or nothing."""
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
        """What comes out of fragments for this partition, each taken with the last packet of its datagram."""
        parts.sort(key=_first_reference)
        packets = join([(part.packets, part.taken) for part in parts])
        taken = np.sort(np.concatenate([part.taken for part in parts]))
        block = self._flows.select(self._segmenter.feed(packets))
        rows = block.rows()
        order = packets.references.argsort()
        places = order[packets.references.searchsorted(rows.packets, sorter=order)]
        return Segments(rows, taken[places], block.data)


def _split_packets(parts: list[Packets], limit: Limit | None) -> tuple[list[Packets], list[Packets]]:
    """What stands in front of `limit`, and what does not."""
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
    """How many packets of one file stand in front of `limit`."""
    if limit is None:
        return len(taken)
    low, high = int(taken.searchsorted(limit[0])), int(taken.searchsorted(limit[0], "right"))
    return low + int(references[low:high].searchsorted(limit[1]))


def _merged(parts: list[Segments]) -> tuple[SegmentRows, Column, bytes]:
    """The rows of all parts in order, the times that they count as taken at, and their octets."""
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
