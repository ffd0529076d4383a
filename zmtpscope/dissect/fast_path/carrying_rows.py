"""The segments of a block that carry octets, sorted by direction."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

import numpy as np

from zmtpscope import compiled
from zmtpscope.capture.segments import ORDINALS, SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.stream.plain_state import Piece
from zmtpscope.dissect.tcp.directions import Directions


class CarryingRows:
    """The segments (rows) of a block that carry octets: direction i has the rows `bounds[i]` up to `bounds[i + 1]`.

    `begins` are the stream offsets that the directions had reached before the block. A *place* is a position in all
    streams joined: the stream offset of direction i plus `shifts[i]`.
    """

    def __init__(self, block: SegmentBlock, directions: Directions, begins: Int64) -> None:
        rows, self.bounds = directions.carrying_rows, directions.bounds
        bounds = np.array(self.bounds)
        self.data = block.data
        self.starts: Int64 = block.starts[rows]
        self.stops: Int64 = block.stops[rows]
        self.segments = np.array((block.ordinal + ORDINALS * rows, block.packets[rows], block.times[rows]))
        """The segments of the rows, with the fields of `Arrival` as columns."""
        edges = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(self.stops - self.starts, out=edges[1:])
        self.starts_of_rows: Int64 = edges[:-1]
        self.places: Int64 = edges[1:]
        """Start and end of each row, as places."""
        self.begins = begins
        self.shifts: Int64 = edges[bounds[:-1]] - begins
        self.first_rows: Int64 = bounds[:-1]
        self.last_rows: Int64 = bounds[1:] - 1

    @cached_property
    def ends(self) -> list[int]:
        ends: list[int] = (self.places - self.shifts.repeat(self.last_rows + 1 - self.first_rows)).tolist()
        return ends

    @cached_property
    def _columns(self) -> list[list[int]]:
        columns: list[list[int]] = self.segments.tolist()
        return columns

    def stream_ends(self, directions: Int64) -> Int64:
        """Return the stream offset after the last octet of each of these directions, which must have octets."""
        ends: Int64 = self.places[self.last_rows[directions]] - self.shifts[directions]
        return ends

    def octets(self, directions: Int64) -> list[bytes]:
        """Return the octets of each of these directions, which must have octets."""
        return joined(self.data, self.starts, self.stops, self.first_rows[directions], self.last_rows[directions] + 1)

    def row_of(self, direction: int, offset: int) -> int:
        """Return the row that carries the octet at stream offset `offset`, or else the last row of the direction."""
        return bisect_right(self.ends, offset, self.bounds[direction], self.bounds[direction + 1] - 1)

    def arrival(self, row: int) -> Arrival:
        ordinals, packets, times = self._columns
        return Arrival(ordinals[row], packets[row], times[row])

    def pieces(self, direction: int, row: int) -> list[Piece]:
        """Return the segments of a direction from the row `row` on."""
        rows = slice(row, self.bounds[direction + 1])
        ordinals, packets, times = self._columns
        return list(zip(self.ends[rows], ordinals[rows], packets[rows], times[rows], strict=True))

    def segments_at(self, places: Int64) -> Int64:
        """Return the segments that carry the octets at these places, as three rows: ordinals, packets, times.

        A place is the stream offset of direction i plus `shifts[i]`.
        """
        found: Int64 = self.segments[:, self.places.searchsorted(places, "right")]
        return found


@compiled.where_possible
def joined(data: bytes, starts: Int64, stops: Int64, first: Int64, last: Int64) -> list[bytes]:
    """Return the octets of each range of rows `first[k]` up to `last[k]`, joined.

    Row i contains `data[starts[i]:stops[i]]`.
    """
    begins, ends = starts.tolist(), stops.tolist()
    return [
        b"".join([data[begin:end] for begin, end in zip(begins[one:other], ends[one:other], strict=True)])
        for one, other in zip(first.tolist(), last.tolist(), strict=True)
    ]


def behind(pieces: list[Piece], offset: int) -> list[Piece]:
    """Return the segments that carry octets from stream offset `offset` on, at least the last one.

    They are few, so the search starts at the end.
    """
    place = len(pieces) - 1
    while place and pieces[place - 1][0] > offset:
        place -= 1
    return pieces[place:]


def arrival_in(pieces: list[Piece], offset: int) -> Arrival:
    return Arrival(*behind(pieces, offset)[0][1:])
