"""Find the packets and file offsets of stream octets, from about 10 octets per segment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zmtpscope.capture.packets import NOWHERE
from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import Segments, side_number
from zmtpscope.dissect.records.columns import numbers
from zmtpscope.dissect.records.tables import Pieces
from zmtpscope.store.files import CaptureFiles, OctetsError, Spool
from zmtpscope.store.packed import Columns, Int64, Packed

SMALL = 4096
"""Tables with fewer segments are joined with the next one."""

IN_SPOOL = -2
"""Places from here downwards are in the spool: `IN_SPOOL` is its place 0."""


OF_SEGMENTS = ("lengths", "packets", "places", "heads", "tails")


class WholePacket(NamedTuple):
    """A packet, of which `octets[start:stop]` are the stream octets from offset `begin` on."""

    reference: int
    octets: bytes
    start: int
    stop: int
    begin: int


@dataclass(slots=True)
class Table(Columns):
    """The segments of some batches as packed columns.

    - `sides`: ascending side numbers (`side_number`); side i has the segments `edges[i]:edges[i + 1]`, and the first
      starts at stream offset `begins[i]`
    - `lengths`, `packets`: octets and packet reference of each segment
    - `places`: offset in the packet's file, `NOWHERE` for a hole, or `IN_SPOOL` minus an offset in the temporary file
    - `heads`, `tails`: octets of the packet before and after the segment
    """

    sides: Packed
    edges: Packed
    begins: Packed
    lengths: Packed
    packets: Packed
    places: Packed
    heads: Packed
    tails: Packed


class SegmentIndex:
    """Finds the segments that carried octets of a stream.

    Call `append` before storing the records of a batch. Lookups take a number of records: octets that arrived with
    later records are not searched.
    """

    def __init__(self, spool: Spool) -> None:
        self.files = CaptureFiles()
        self._spool = spool
        self._tables: tuple[tuple[Table, ...], tuple[int, ...]] = (), ()
        """Tables, and the number of records before each."""

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self._tables[0])

    def append(self, segments: Sequence[Segments], files: Sequence[str | None], count: int) -> None:
        """Add the segments of a batch; `files` are the names of the capture files.

        `count` is the number of records before the batch. Raises `OctetsError`.
        """
        if not segments:
            return
        columns = np.concatenate([each.places for each in segments], 1)
        lengths, packets, places, _, _ = columns
        in_spool = (places == NOWHERE) & (packets != 0)
        stops = self._spool.write(b"".join([each.octets for each in segments])) + np.cumsum(lengths[in_spool])
        places[in_spool] = IN_SPOOL - (stops - lengths[in_spool])
        table = _table(np.concatenate([each.runs for each in segments], 1), columns)
        self.files.note(files, np.unique(packets[packets > 0] >> FILE_SHIFT).tolist())
        tables, counts = list(self._tables[0]), list(self._tables[1])
        tables.append(table)
        counts.append(count)
        while (
            len(tables) > 1
            and len(tables[-2].lengths) < SMALL
            and 2 * len(tables[-1].lengths) >= len(tables[-2].lengths)
        ):
            tables[-2:] = [_joined(tables[-2:])]
            counts.pop()
        self._tables = tuple(tables), tuple(counts)

    def octets(self, stream: Stream, start: int, stop: int, count: int) -> bytes:
        """Return the octets `start..stop` of a stream, as far as they had arrived with the first `count` records.

        Raises `OctetsError` if they are gone or were never captured.
        """
        parts = []
        at = start
        for begin, end, packet, place in self._segments(stream, start, stop, count):
            low, high = max(start, begin), min(stop, end)
            if low != at or place == NOWHERE:
                break
            if place <= IN_SPOOL:
                parts.append(self._spool.read(IN_SPOOL - place + low - begin, high - low))
            else:
                parts.append(self.files.read(packet >> FILE_SHIFT, place + low - begin, high - low))
            at = high
        if at < stop:
            raise OctetsError(f"octets {at} to {stop} of a stream were not captured")
        return b"".join(parts)

    def whole_packets(self, stream: Stream, start: int, stop: int, count: int, most: int) -> list[WholePacket]:
        """Return at most `most` packets that carried the octets `start..stop` of a stream.

        Packets that are not in an unchanged file are skipped. Only octets that had arrived with the first `count`
        records are searched. Raises `OctetsError`.
        """
        found: list[WholePacket] = []
        for table, rows, begins in self._rows(stream, start, stop, count):
            columns = [getattr(table, name).take(rows).tolist() for name in OF_SEGMENTS]
            for begin, length, packet, place, head, tail in zip(begins, *columns, strict=False):
                if place >= 0 and len(found) < most:
                    octets = self.files.read(packet >> FILE_SHIFT, place - head, head + length + tail)
                    found.append(WholePacket(packet, octets, head, head + length, begin))
        return found

    def pieces(self, stream: Stream, start: int, stop: int, count: int) -> Pieces:
        found = list(self._segments(stream, start, stop, count))
        begin = found[0][0] if found else start
        return Pieces(begin, [end for _, end, _, _ in found], [packet for _, _, packet, _ in found])

    def _segments(self, stream: Stream, start: int, stop: int, count: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the segments with the octets `start..stop` of a stream, in order, as (begin, end, packet, place).

        `begin` and `end` are stream offsets; the place is that of `Table.places`. Only octets that had arrived with the
        first `count` records are searched.
        """
        for table, rows, begins in self._rows(stream, start, stop, count):
            lengths = table.lengths.take(rows).tolist()
            packets, places = table.packets.take(rows).tolist(), table.places.take(rows).tolist()
            for begin, length, packet, place in zip(begins, lengths, packets, places, strict=False):
                yield begin, begin + length, packet, place

    def _rows(self, stream: Stream, start: int, stop: int, count: int) -> Iterator[tuple[Table, slice, list[int]]]:
        """Yield the segments with the octets `start..stop` of a stream, as (table, its rows, stream offset of each
        row).

        Only octets that had arrived with the first `count` records are searched.
        """
        tables, counts = self._tables
        last = bisect_right(counts, count)
        side = side_number(stream.conn, stream.side)
        parts: list[tuple[Table, int]] = []
        for number in range(last - 1, -1, -1):
            table = tables[number]
            at = int(table.sides.all().searchsorted(side))
            if at < len(table.sides) and table.sides[at] == side:
                begin = table.begins[at]
                if begin < stop or not parts:
                    parts.append((table, at))
                if begin <= start:
                    break
        for table, at in reversed(parts):
            some = slice(table.edges[at], table.edges[at + 1])
            ends = table.begins[at] + np.cumsum(table.lengths.take(some))
            low, high = int(ends.searchsorted(start, "right")), int(ends.searchsorted(stop, "left")) + 1
            begins = np.append(table.begins[at], ends)[low:high]
            rows = slice(some.start + low, min(some.start + high, some.stop))
            yield table, rows, begins.tolist()


def _table(runs: Int64, places: Int64) -> Table:
    """Pack segments into a table.

    `runs` and `places` are columns of `dissect.records.batch.Segments`.
    """
    order = np.lexsort((runs[1], runs[0]))
    first = np.cumsum(runs[2]) - runs[2]
    sides, begins, counts = runs[:, order]
    rows = numbers(first[order], counts)
    is_first = np.append(True, sides[1:] != sides[:-1])
    edges = np.append(0, np.cumsum(counts))
    return Table(
        Packed.of(sides[is_first]),
        Packed.of(np.append(edges[:-1][is_first], edges[-1])),
        Packed.of(begins[is_first]),
        *map(Packed.of, places[:, rows]),
    )


def _joined(tables: Sequence[Table]) -> Table:
    runs = [(table.sides.all(), table.begins.all(), np.diff(table.edges.all())) for table in tables]
    places = [[getattr(table, name).all() for name in OF_SEGMENTS] for table in tables]
    return _table(np.concatenate(runs, 1), np.concatenate(places, 1))
