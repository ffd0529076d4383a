"""The first stage: divide the packets of one file into chunks for all partitions."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from zmtpscope.capture.captures import BLOCK_SIZE, Segmenter
from zmtpscope.capture.decoder import PORTS, TCP, UDP, Fragment
from zmtpscope.capture.files import CaptureFile
from zmtpscope.capture.fragments import Fragments
from zmtpscope.capture.packets import PacketBlock
from zmtpscope.capture.segments import DATAGRAM, FILE_SHIFT, Column, SegmentBlock, SegmentRows
from zmtpscope.capture.statistics import FileReports
from zmtpscope.capture.tunnels import ON_UDP
from zmtpscope.spark.chunks import Chunk, Kind, Segments, packets_chunk, segments_chunk
from zmtpscope.spark.flows import Endpoints, FlowFilter, partitions_of

LARGEST_CHUNK, SMALLEST_CHUNK = 256 << 10, 16 << 10
"""Octets of a chunk, including its table. A partition holds one for each overlapping file."""
CHUNKS_OF_ALL_FILES = 64 << 20
"""Octets of one chunk from each file together, unless that makes chunks too small."""
MIN_AT_HAND, MAX_AT_HAND = 2 << 20, 32 << 20
"""Octets buffered before splitting: enough for a chunk for each partition."""
ROW_OCTETS = 48
"""Octets of a row in the table of a chunk."""
REMEMBERED_DATAGRAMS = 4096


def chunk_size(files: int) -> int:
    """Return the size of chunks in octets, for a run over this number of files."""
    return max(SMALLEST_CHUNK, min(LARGEST_CHUNK, CHUNKS_OF_ALL_FILES // max(1, files)))


def split(file: CaptureFile | None, index: int, splitter: Splitter, reports: FileReports) -> Iterator[Chunk]:
    """Yield the chunks of a file, and at its end one with `reports` for each partition.

    `file` is None for an unreadable file, which `reports` describe.
    """
    segmenter = Segmenter(put_together=False)
    latest, last = 0, index << FILE_SHIFT
    for packets in file.blocks(BLOCK_SIZE, reports) if file is not None else ():
        taken = np.maximum.accumulate(np.maximum(packets.times, latest))
        latest, last = int(taken[-1]), int(packets.references[-1])
        yield from splitter.add(segmenter.feed(packets), packets, taken)
        if segmenter.fragments_apart:
            yield from splitter.add_fragments(segmenter.fragments_apart, packets, taken)
    yield from splitter.flush()
    reports.packets = segmenter.statistics.packets
    report = pickle.dumps(reports)
    for partition in range(splitter.partitions):
        yield Chunk(partition, latest, last, Kind.END, 0, b"", b"", report)


class Splitter:
    """Divides packets among partitions. All packets of a connection go to one partition, IP fragments to all that may
    need them."""

    def __init__(self, partitions: int, chunk_octets: int, endpoints: tuple[Endpoints, ...] = ()) -> None:
        self.partitions = partitions
        self._wanted = FlowFilter(0, 1, endpoints)
        self._chunk_octets = chunk_octets
        self._at_hand = max(MIN_AT_HAND, min(MAX_AT_HAND, partitions * chunk_octets))
        self._waiting: list[Segments] = []
        self._waiting_octets = 0
        self._fragments = FragmentPartitions(partitions)

    def add(self, block: SegmentBlock, packets: PacketBlock, taken: Column) -> Iterator[Chunk]:
        """Add packets with the sort times `taken`, which never decrease. Yield full chunks."""
        rows = self._wanted.select(block).rows()
        if len(rows.flows):
            places = packets.references.searchsorted(rows.packets)
            self._waiting.append(Segments(rows, taken[places], block.data))
            self._waiting_octets += int((rows.stops - rows.starts).sum()) + ROW_OCTETS * len(rows.flows)
        if self._waiting_octets >= self._at_hand:
            yield from self.flush()

    def add_fragments(self, fragments: list[Fragment], packets: PacketBlock, taken: Column) -> Iterator[Chunk]:
        """Add the IP fragments among these packets, in order. Yield full chunks."""
        numbers = [self._fragments.partition(fragment) for fragment in fragments]
        for partition in range(self.partitions):
            wanted = [each.row for each, number in zip(fragments, numbers, strict=True) if number in (None, partition)]
            for begin in range(0, len(wanted), 64):
                rows = np.array(wanted[begin : begin + 64])
                some = PacketBlock(packets.data, *(column[rows] for column in packets.columns()))
                yield packets_chunk(partition, some, taken[rows])

    def flush(self) -> Iterator[Chunk]:
        if not self._waiting:
            return
        rows, taken, pieces = _joined(self._waiting)
        self._waiting, self._waiting_octets = [], 0
        of_rows = self._partitions_of_rows(rows)
        order = of_rows.argsort(kind="stable")
        of_rows = of_rows[order]
        octets = (ROW_OCTETS + rows.stops - rows.starts)[order].cumsum()
        begins = np.flatnonzero(np.diff(of_rows, prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
            while begin < end:
                before = int(octets[begin - 1]) if begin else 0
                stop = max(begin + 1, min(end, int(octets.searchsorted(before + self._chunk_octets, "right"))))
                some = order[begin:stop]
                payload = b"".join([pieces[row] for row in some.tolist()])
                yield segments_chunk(int(of_rows[begin]), rows.some(some), taken[some], payload)
                begin = stop

    def _partitions_of_rows(self, rows: SegmentRows) -> Column:
        """Return the partition of each row: that of its connection, or the first one for a datagram."""
        of_flows = partitions_of(rows.keys, self.partitions)
        return np.where(rows.flags & DATAGRAM, 0, of_flows[rows.flows])


class FragmentPartitions:
    """Assigns IP fragments to partitions.

    All fragments of a datagram go to one partition if the fragment with the ports comes first, as usual. Otherwise they
    go to all partitions. So do packets that are or may be tunnels: a partition with only some of the fragments would
    join them with the next datagram of the same identification.
    """

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._incomplete = Fragments()
        """Fragments without their octets."""
        self._known: OrderedDict[bytes, int | None] = OrderedDict()
        """Partition of each incomplete datagram; None: all partitions have a part of it."""

    def partition(self, fragment: Fragment) -> int | None:
        """Return the partition of an IP fragment; None: all partitions."""
        key, begins = fragment.key, fragment.begins
        if key in self._incomplete.waiting:
            number = self._known.pop(key, None)
        else:
            number = None if begins is None else self._of_first(key, begins)
        self._incomplete.add(key, fragment.offset, not fragment.is_last, b"", fragment.size, fragment.time)
        if key in self._incomplete.waiting:
            self._known[key] = number
            if len(self._known) > REMEMBERED_DATAGRAMS:
                self._known.popitem(last=False)
        return number

    def _of_first(self, key: bytes, begins: bytes) -> int | None:
        addresses, protocol = split_fragment_key(key)
        if len(begins) < PORTS or protocol not in (TCP, UDP):
            return None
        if protocol == UDP:
            return None if int.from_bytes(begins[2:]) in ON_UDP else 0
        return int(partitions_of([addresses + begins], self._partitions)[0])


def split_fragment_key(key: bytes) -> tuple[bytes, int]:
    """Return the two parts of a fragment key: addresses with protocol, and the identification of 2 octets (IPv4) or 4
    (IPv6)."""
    size = 8 if len(key) < 32 else 32
    return key[:size], key[size]


def _joined(parts: Sequence[Segments]) -> tuple[SegmentRows, Column, list[bytes]]:
    pieces: list[bytes] = []
    keys: list[bytes] = []
    flows = []
    for rows, _, data in parts:
        pieces += [data[start:stop] for start, stop in zip(rows.starts.tolist(), rows.stops.tolist(), strict=True)]
        flows.append(rows.flows + len(keys))
        keys += rows.keys
    columns = zip(*(part.rows[2:] for part in parts), strict=True)
    rows = SegmentRows(keys, np.concatenate(flows), *map(np.concatenate, columns))
    return rows, np.concatenate([part.taken for part in parts]), pieces
