"""Log which packets carried the octets of a connection, so that they can be read from the files again."""

from __future__ import annotations

import numpy as np

from zmtpscope.capture.packets import NOWHERE
from zmtpscope.dissect.records.batch import Segments, side_number
from zmtpscope.dissect.stream.arrivals import BlockView
from zmtpscope.dissect.tcp.connection import TcpSide

MAX_WAITING = 256
"""Groups of segments, one per side and block, before the connection is known to be ZMTP."""


class SegmentLog:
    def __init__(self, conn: int) -> None:
        self.conn = conn
        self.ends = [0, 0]
        """Stream offsets after the last pieces."""
        self.waiting: list[Segments] = []

    def take(self, sides: tuple[TcpSide, TcpSide], block: BlockView) -> None:
        """Add the segments and holes of a block, before they are read."""
        for number, side in enumerate(sides):
            if side.pieces or side.holes:
                self.waiting.append(self._segments(number, side, block))

    def pass_by(self, sides: tuple[TcpSide, TcpSide], block: BlockView) -> None:
        """Count the segments and holes of a block without logging them."""
        self.waiting = []
        for number, side in enumerate(sides):
            octets = sum(block.stops[row] - block.starts[row] for row in side.pieces)
            self.ends[number] += octets + sum(hole.octets for hole in side.holes)

    def drain(self, *, is_zmtp: bool) -> list[Segments]:
        """Remove and return the logged segments: all if the connection speaks ZMTP, otherwise those above the
        maximum."""
        count = len(self.waiting) if is_zmtp else max(0, len(self.waiting) - MAX_WAITING)
        segments, self.waiting = self.waiting[:count], self.waiting[count:]
        return segments

    def _segments(self, number: int, side: TcpSide, block: BlockView) -> Segments:
        begin = self.ends[number]
        rows = np.array(side.pieces, np.int64)
        places = block.places[:, rows]
        octets_nowhere = block.octets(rows[places[2] == NOWHERE].tolist())
        if side.holes:
            octets = [hole.octets for hole in side.holes]
            nothing = [0] * len(octets)
            columns = octets, nothing, [NOWHERE] * len(octets), nothing, nothing
            places = np.insert(places, [hole.at for hole in side.holes], columns, 1)
        self.ends[number] = begin + int(places[0].sum())
        runs = np.array([[side_number(self.conn, number)], [begin], [places.shape[1]]])
        return Segments(runs, places, octets_nowhere)
