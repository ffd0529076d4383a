"""Store which segments carried the octets of one side, until this is not needed any more."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np

from zmtpscope.capture.packets import NOWHERE
from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.tables import Pieces
from zmtpscope.dissect.stream.plain_state import PlainState
from zmtpscope.dissect.tcp.reassembly import Reassembler


class BlockView:
    """The segments of a block as sides read them: row i has `data[starts[i]:stops[i]]`, delivered by segment
    `ordinals[i]`.

    `captured` is the block of packets if positions in files are needed, otherwise None.
    """

    def __init__(
        self,
        data: bytes,
        starts: Sequence[int],
        stops: Sequence[int],
        ordinals: Sequence[int],
        packets: Sequence[int],
        times: Sequence[int],
        captured: SegmentBlock | None = None,
    ) -> None:
        self.data = data
        self.starts, self.stops = starts, stops
        self.ordinals, self.packets, self.times = ordinals, packets, times
        self.captured = captured

    @classmethod
    def of(cls, reassembler: Reassembler, captured: SegmentBlock | None) -> Self:
        each = reassembler
        return cls(each.data(), each.starts, each.stops, each.ordinals(), each.packets, each.times, captured)

    @cached_property
    def places(self) -> Int64:
        """Five rows: lengths, packets, file offsets, and octets of the packet before and after each row.

        The file offset is `NOWHERE` for a row that is not in the file unchanged.
        """
        places = np.zeros((5, len(self.stops)), np.int64)
        places[0], places[1], places[2] = self.stops, self.packets, NOWHERE
        places[0] -= self.starts
        if self.captured is not None:
            places[2:, : len(self.captured)] = self.captured.payload_places()
        return places

    def octets(self, rows: list[int]) -> bytes:
        data, starts, stops = self.data, self.starts, self.stops
        if len(rows) == 1:
            return data[starts[rows[0]] : stops[rows[0]]]
        return b"".join([data[starts[row] : stops[row]] for row in rows])

    def arrival(self, row: int) -> Arrival:
        return Arrival(self.ordinals[row], self.packets[row], self.times[row])

    def row_of(self, ordinal: int) -> int | None:
        """Return the first row of the segment with this ordinal, or None."""
        if not self.ordinals or ordinal < self.ordinals[0]:  # usually of an earlier block
            return None
        return self.ordinals.index(ordinal) if ordinal in self.ordinals else None


class Arrivals:
    """The segments of one side in stream order.

    Segment i ends before stream offset `ends[i]`; the first starts at `begin`. `end` follows the last octet or hole.
    Results cannot precede the segment `settled`.
    """

    __slots__ = ("_pieces", "_table", "begin", "end", "ends", "holes", "ordinals", "packets", "settled", "times")

    def __init__(self) -> None:
        self.begin = self.end = 0
        self.settled = -1
        self.ends: list[int] = []
        self.ordinals: list[int] = []
        self.packets: list[int] = []
        self.times: list[int] = []
        self.holes: set[int] = set()
        """Ends of the pieces that are holes."""
        self._pieces: Pieces | None = None
        self._table: Int64 | None = None
        """The columns as a table, until they change: callers often look up many frames in turn."""

    def add(self, block: BlockView, rows: list[int]) -> None:
        self._pieces = self._table = None
        starts, stops, end = block.starts, block.stops, self.end
        for row in rows:
            end += stops[row] - starts[row]
            self.ends.append(end)
        self.end = end
        self.ordinals.extend(map(block.ordinals.__getitem__, rows))
        self.packets.extend(map(block.packets.__getitem__, rows))
        self.times.extend(map(block.times.__getitem__, rows))

    def rows(self) -> list[tuple[int, int, int, int]]:
        """Return (end offset, ordinal, packet, time) of all segments."""
        return list(zip(self.ends, self.ordinals, self.packets, self.times, strict=True))

    def resume(self, state: PlainState) -> None:
        """Continue after the fast path, with the segments that arrived there."""
        if state.pieces:
            self._pieces = self._table = None
            self.begin, self.end = state.begin, state.tcp.octets
            self.ends, self.ordinals, self.packets, self.times = map(list, zip(*state.pieces, strict=True))

    def pass_by(self, octets: int) -> None:
        """Skip octets that need no arrival time, or that are processed a second time."""
        self.end += octets

    def lose(self, octets: int, arrival: Arrival) -> None:
        """Add a hole of `octets`; `arrival` is the segment that showed it."""
        end = self.end = self.end + octets
        if self.ends and self.ends[-1] >= end:
            return  # the hole is replayed
        self._pieces = self._table = None
        self.ends.append(end)
        self.ordinals.append(arrival.ordinal)
        self.packets.append(arrival.packet)
        self.times.append(arrival.time)
        self.holes.add(end)

    def rewind(self) -> None:
        """Go back to the first octet, so that all octets can be processed again."""
        self.end = 0

    def settle(self, ordinal: int) -> None:
        """Do not return results before the segment `ordinal` from now on."""
        self.settled = ordinal

    def pieces(self) -> Pieces:
        """Return a copy of the segments, for looking up packets later."""
        if self._pieces is None:
            packets = [0 if end in self.holes else packet for end, packet in zip(self.ends, self.packets, strict=True)]
            self._pieces = Pieces(self.begin, list(self.ends), packets)
        return self._pieces

    def at(self, offset: int) -> Arrival:
        """Return the segment with the octet at stream offset `offset`, or with the nearest known octet."""
        piece = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        return Arrival(self.ordinals[piece], self.packets[piece], self.times[piece])

    def piece_at(self, offset: int) -> range:
        piece = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        return range(self.ends[piece - 1] if piece else self.begin, self.ends[piece])

    def ordinal_of(self, start: int, stop: int) -> int:
        """Return the ordinal of the segment that completed the octets `start..stop`, or their captured part."""
        last = max(start, (stop if stop < self.end else self.end) - 1)
        piece = min(bisect_right(self.ends, last), len(self.ends) - 1)
        return max(self.ordinals[piece], self.settled)

    def arrival(self, start: int, stop: int) -> Arrival:
        """Return the segment with the octet at `start`, but the ordinal of the one that completed `start..stop`."""
        first = self.at(start)
        return Arrival(self.ordinal_of(start, stop), first.packet, first.time)

    def pieces_between(self, start: int, stop: int) -> list[tuple[Arrival, int]]:
        """Return (segment, end offset) of all segments with octets in `start..stop`."""
        rows = slice(bisect_right(self.ends, start), bisect_left(self.ends, stop) + 1)
        return list(
            zip(map(Arrival, self.ordinals[rows], self.packets[rows], self.times[rows]), self.ends[rows], strict=True)
        )

    def table(self) -> Int64:
        """Return the segments as an array of four rows: end offsets, ordinals, packets and times."""
        if self._table is None:
            self._table = np.array((self.ends, self.ordinals, self.packets, self.times), np.int64)
        return self._table

    def trim(self, offset: int) -> None:
        """Forget the segments before stream offset `offset`, except the last one."""
        count = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        if count > 0:
            self._pieces = self._table = None
            self.begin = self.ends[count - 1]
            if self.holes:
                self.holes.difference_update(self.ends[:count])
            for column in (self.ends, self.ordinals, self.packets, self.times):
                del column[:count]


def segments_at(table: Int64, offsets: Int64) -> Int64:
    """Return the segments with the octets at these offsets as three rows: ordinals, packets and times.

    `table` is the result of `Arrivals.table`.
    """
    pieces = table[0, :-1].searchsorted(offsets, "right")  # offsets beyond the ends get the last piece
    found: Int64 = table[1:].take(pieces, 1)
    return found
