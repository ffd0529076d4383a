"""Chunks of segments of one file for one partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zmtpscope.capture.packets import NOWHERE, PacketBlock
from zmtpscope.capture.segments import Column, SegmentRows

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("taken", pa.int64()),
        ("packet", pa.int64()),
        ("kind", pa.int8()),
        ("rows", pa.int32()),
        ("table", pa.binary()),
        ("keys", pa.binary()),
        ("octets", pa.binary()),
    ]
)
DDL = "partition int, taken long, packet long, kind byte, rows int, table binary, keys binary, octets binary"
ORDER = ("partition", "taken", "packet")
"""The sort order of chunks. `taken` is the sort time of a packet: the largest time so far in its file."""


class Kind(IntEnum):
    SEGMENTS = 0
    PACKETS = 1
    """Packets as captured: fragments that are not reassembled yet."""
    END = 2
    """The end of a file. `taken` is the largest time of all packets of the file, `octets` its reports."""
    FACT = 3
    ROWS = 4
    OBSERVED = 5
    """Observations of one partition's connections, for diagnoses across all connections."""
    WRITTEN = 6
    """The name of a file that was written."""


class Chunk(NamedTuple):
    """Rows of one file for one partition, compact, as the shuffle moves them.

    `taken` (the sort time) and `packet` (a packet reference) belong to the first row. `octets` are the concatenated
    payloads or packets.
    """

    partition: int
    taken: int
    packet: int
    kind: int
    rows: int
    table: bytes
    keys: bytes
    octets: bytes


class Segments(NamedTuple):
    """Segments of one file, in order, with their octets in `data`. `taken` is the sort time of each."""

    rows: SegmentRows
    taken: Column
    data: bytes


class Packets(NamedTuple):
    """Packets of one file, in order. `taken` is the sort time of each."""

    packets: PacketBlock
    taken: Column


SEGMENT_FORMS = ("<u4", "<u2", "<u4", "<u4", "<u4", "<i8", "<u1", "<i8", "<i8", "<i8")
"""Flows, flags, sequence numbers, acknowledgments, lengths, octets cut off, hops, packets, times, sort times."""
PACKET_FORMS = ("<u4", "<u4", "<i8", "<i8", "<i8", "<i8")
"""Link types, lengths, missing octets, packets, times, sort times."""


def batch_of(chunks: Sequence[Chunk]) -> pa.RecordBatch:
    arrays = [pa.array([chunk[place] for chunk in chunks], field.type) for place, field in enumerate(SCHEMA)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def chunks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
    """Yield the chunks in rows of a Spark table. Octets are copied for one chunk at a time."""
    for batch in batches:
        for row in range(batch.num_rows):
            yield Chunk(*(column[row].as_py() for column in batch.columns))


def segments_chunk(partition: int, rows: SegmentRows, taken: Column, octets: bytes) -> Chunk:
    """Return a chunk of segments for a partition. `taken` are their sort times, and `octets` the
    concatenated payloads."""
    found, flows = np.unique(rows.flows, return_inverse=True)
    keys = [rows.keys[flow] for flow in found.tolist()]
    lengths = rows.stops - rows.starts
    columns = (flows, rows.flags, rows.sequences, rows.acknowledgments, lengths, rows.cut, rows.hops)
    table = _table(SEGMENT_FORMS, columns, rows.packets, rows.times, taken)
    joined = b"".join(chain.from_iterable((bytes((len(key),)), key) for key in keys))
    return Chunk(partition, int(taken[0]), int(rows.packets[0]), Kind.SEGMENTS, len(taken), table, joined, octets)


def segments_of(chunk: Chunk) -> Segments:
    columns = _columns(SEGMENT_FORMS, chunk)
    flows, flags, sequences, acknowledgments, lengths, cut, hops, packets, times, taken = columns
    keys, position = [], 0
    while position < len(chunk.keys):
        stop = position + 1 + chunk.keys[position]
        keys.append(chunk.keys[position + 1 : stop])
        position = stop
    stops = lengths.cumsum()
    starts = stops - lengths
    rows = SegmentRows(keys, flows, flags, sequences, acknowledgments, starts, stops, cut, hops, packets, times)
    return Segments(rows, taken, chunk.octets)


def packets_chunk(partition: int, packets: PacketBlock, taken: Column) -> Chunk:
    """Return a chunk of packets, as they were captured, for a partition. `taken` are their sort times."""
    spans = zip(packets.starts.tolist(), packets.stops.tolist(), strict=True)
    octets = b"".join([packets.data[start:stop] for start, stop in spans])
    columns = (packets.links, packets.stops - packets.starts, packets.missing)
    table = _table(PACKET_FORMS, columns, packets.references, packets.times, taken)
    return Chunk(partition, int(taken[0]), int(packets.references[0]), Kind.PACKETS, len(taken), table, b"", octets)


def packets_of(chunk: Chunk) -> Packets:
    links, lengths, missing, references, times, taken = _columns(PACKET_FORMS, chunk)
    stops = lengths.cumsum()
    offsets = np.full(len(stops), NOWHERE)
    return Packets(PacketBlock(chunk.octets, links, stops - lengths, stops, missing, times, references, offsets), taken)


def rows_chunk(partition: int, rows: pa.RecordBatch) -> Chunk:
    """Return a chunk of rows of a table for a partition of the last stage."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return Chunk(partition, 0, 0, Kind.ROWS, rows.num_rows, b"", b"", sink.getvalue().to_pybytes())


def rows_of(chunk: Chunk) -> Iterable[pa.RecordBatch]:
    with pa.ipc.open_stream(chunk.octets) as stream:
        yield from stream


def _table(forms: Sequence[str], columns: Sequence[Column], packets: Column, times: Column, taken: Column) -> bytes:
    """Return columns as octets that Spark compresses well.

    Increasing columns are stored as differences. Octets of equal significance are adjacent.
    """
    all_columns = (*columns, _steps(packets), _steps(times), taken - times)
    return b"".join([_planes(column.astype(form)) for column, form in zip(all_columns, forms, strict=True)])


def _columns(forms: Sequence[str], chunk: Chunk) -> list[Column]:
    found, position = [], 0
    for form in map(np.dtype, forms):
        stop = position + chunk.rows * form.itemsize
        planes = np.frombuffer(chunk.table[position:stop], np.uint8).reshape(form.itemsize, chunk.rows)
        found.append(np.ascontiguousarray(planes.T).view(form).reshape(chunk.rows).astype(np.int64))
        position = stop
    found[-3], found[-2] = found[-3].cumsum(), found[-2].cumsum()
    found[-1] += found[-2]
    return found


def _planes(column: NDArray[Any]) -> bytes:
    return column.view(np.uint8).reshape(len(column), -1).T.tobytes()


def _steps(column: Column) -> Column:
    return np.diff(column, prepend=0)
