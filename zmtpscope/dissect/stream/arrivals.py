"""When octets arrived: which packet carried which octet of a stream, for as long as somebody may ask."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import Self

import numpy as np

from zmtpscope.capture.packets import NOWHERE
from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.records.batch import Int64, Pieces
from zmtpscope.dissect.tcp.reassembly import Reassembler


class BlockView:
    """Rows as the streams read them: their octets are `data[starts[row]:stops[row]]`, and `ordinals` those of the
    segments that made them part of their streams. `captured` are those of a block that were captured as they stand
    there, where somebody wants to know their places in files."""

    def __init__(
        self,
        data: bytes,
        starts: list[int],
        stops: list[int],
        ordinals: list[int],
        packets: list[int],
        times: list[int],
        captured: SegmentBlock | None = None,
    ) -> None:
        self.data = data
        self.starts, self.stops = starts, stops
        self.ordinals, self.packets, self.times = ordinals, packets, times
        self.captured = captured

    @classmethod
    def of(cls, reassembler: Reassembler, captured: SegmentBlock | None) -> Self:
        """The rows of the current block, slow path included."""
        each = reassembler
        return cls(each.data(), each.starts, each.stops, each.ordinals(), each.packets, each.times, captured)

    @cached_property
    def places(self) -> Int64:
        """Lengths, packets, offsets in their files, and octets of the packets in front and behind (five rows) of all
        rows; `NOWHERE` of those that do not stand there as they are."""
        places = np.zeros((5, len(self.stops)), np.int64)
        places[0], places[1], places[2] = self.stops, self.packets, NOWHERE
        places[0] -= self.starts
        if self.captured is not None:
            places[2:, : len(self.captured)] = self.captured.payload_places()
        return places

    def octets(self, rows: list[int]) -> bytes:
        """The payload octets of `rows`, joined."""
        data, starts, stops = self.data, self.starts, self.stops
        if len(rows) == 1:
            return data[starts[rows[0]] : stops[rows[0]]]
        return b"".join([data[starts[row] : stops[row]] for row in rows])

    def arrival(self, row: int) -> Arrival:
        """The segment that row `row` stands for."""
        return Arrival(self.ordinals[row], self.packets[row], self.times[row])

    def row_of(self, ordinal: int) -> int | None:
        """The first row that the segment with this ordinal made part of a stream; None where it is none of these."""
        if not self.ordinals or ordinal < self.ordinals[0]:  # most who ask know it from an earlier block
            return None
        return self.ordinals.index(ordinal) if ordinal in self.ordinals else None


class Arrivals:
    """Pieces of one stream in order: `ends[i]` is the stream offset behind piece i, `begin` where the first begins.

    `end` is the offset behind the last octet (or hole) that was taken, and nothing is decidable before the segment
    `settled`.
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
        """Ends of the pieces that no packet brought."""
        self._pieces: Pieces | None = None
        self._table: Int64 | None = None
        """What was made of the columns since they changed: whoever asks once may ask for each of many frames."""

    def add(self, block: BlockView, rows: list[int]) -> None:
        """Append these pieces of a block."""
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
        """End, ordinal, packet and time of all pieces."""
        return list(zip(self.ends, self.ordinals, self.packets, self.times, strict=True))

    def go_on(self, begin: int, rows: list[tuple[int, int, int, int]], end: int) -> None:
        """Octets up to `end` were taken elsewhere; those from `begin` on came with these pieces."""
        self._pieces = self._table = None
        self.begin, self.end = begin, end
        ends, ordinals, packets, times = zip(*rows, strict=True)
        self.ends, self.ordinals, self.packets, self.times = list(ends), list(ordinals), list(packets), list(times)

    def pass_by(self, octets: int) -> None:
        """So many octets come that nobody will ask about, or come again."""
        self.end += octets

    def lose(self, octets: int, arrival: Arrival) -> None:
        """So many octets were lost; whoever asks for one of them is answered with the segment that made it known."""
        end = self.end = self.end + octets
        if self.ends and self.ends[-1] >= end:
            return  # they come again
        self._pieces = self._table = None
        self.ends.append(end)
        self.ordinals.append(arrival.ordinal)
        self.packets.append(arrival.packet)
        self.times.append(arrival.time)
        self.holes.add(end)

    def rewind(self) -> None:
        """All octets come again, and are read now."""
        self.end = 0

    def settle(self, ordinal: int) -> None:
        """From now on nothing is decidable before the segment `ordinal`."""
        self.settled = ordinal

    def pieces(self) -> Pieces:
        """A copy of what is known, for those who ask later which packets carried what."""
        if self._pieces is None:
            packets = [0 if end in self.holes else packet for end, packet in zip(self.ends, self.packets, strict=True)]
            self._pieces = Pieces(self.begin, list(self.ends), packets)
        return self._pieces

    def at(self, offset: int) -> Arrival:
        """The segment that carried the octet at `offset` (of the first octet kept, or the last, beyond the ends)."""
        piece = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        return Arrival(self.ordinals[piece], self.packets[piece], self.times[piece])

    def piece_at(self, offset: int) -> range:
        """The stream offsets of the piece with the octet at `offset`."""
        piece = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        return range(self.ends[piece - 1] if piece else self.begin, self.ends[piece])

    def ordinal_of(self, start: int, stop: int) -> int:
        """The ordinal of the segment that completed `start..stop`, as far as that has come."""
        last = max(start, (stop if stop < self.end else self.end) - 1)
        piece = min(bisect_right(self.ends, last), len(self.ends) - 1)
        return max(self.ordinals[piece], self.settled)

    def arrival(self, start: int, stop: int) -> Arrival:
        """The segment with the octet at `start`, and the ordinal of the one that completed `start..stop`."""
        first = self.at(start)
        return Arrival(self.ordinal_of(start, stop), first.packet, first.time)

    def pieces_between(self, start: int, stop: int) -> list[tuple[Arrival, int]]:
        """(segment, offset behind it) of every piece that holds octets of `start..stop`."""
        rows = slice(bisect_right(self.ends, start), bisect_left(self.ends, stop) + 1)
        return list(
            zip(map(Arrival, self.ordinals[rows], self.packets[rows], self.times[rows]), self.ends[rows], strict=True)
        )

    def table(self) -> Int64:
        """Ends, ordinals, packets and times of all pieces: four rows, for `segments_at`."""
        if self._table is None:
            self._table = np.array((self.ends, self.ordinals, self.packets, self.times), np.int64)
        return self._table

    def trim(self, offset: int) -> None:
        """Forget the pieces that end at or in front of `offset`, but for the last of them."""
        count = min(bisect_right(self.ends, offset), len(self.ends) - 1)
        if count > 0:
            self._pieces = self._table = None
            self.begin = self.ends[count - 1]
            if self.holes:
                self.holes.difference_update(self.ends[:count])
            for column in (self.ends, self.ordinals, self.packets, self.times):
                del column[:count]


def segments_at(table: Int64, offsets: Int64) -> Int64:
    """Ordinals, packets and times (three rows) of the segments that carried the octets at `offsets`."""
    pieces = table[0, :-1].searchsorted(offsets, "right")  # the last piece for what is beyond the ends
    found: Int64 = table[1:].take(pieces, 1)
    return found
