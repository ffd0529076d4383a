"""The results of the fast path for the current block of packets, until they are written."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from zmtpscope.capture.segments import SegmentBlock
from zmtpscope.dissect.fast_path import requests
from zmtpscope.dissect.fast_path.carrying_rows import CarryingRows
from zmtpscope.dissect.fast_path.known import BlockRows, DirectionPair, KnownConnection
from zmtpscope.dissect.fast_path.new_connections import NewConnections
from zmtpscope.dissect.fast_path.payloads import nothing_inside
from zmtpscope.dissect.fast_path.segment_runs import Messages
from zmtpscope.dissect.fast_path.sides import PlainSide
from zmtpscope.dissect.records.columns import Bool, Int64
from zmtpscope.dissect.tcp.directions import Directions


class CurrentBlock:
    def __init__(self, block: SegmentBlock, directions: Directions) -> None:
        self.block = block
        self.directions = directions
        self.new_connections: list[NewConnections] = []
        """Connections with their whole opening in the block."""
        self.opening: dict[KnownConnection, DirectionPair] = {}
        """Connections with a part of their opening in the block."""
        self.closing: dict[int, DirectionPair] = {}
        """Directions of connections that end in the block, by slot of side 0."""
        self.acknowledged: dict[int, int] = {}
        """Acknowledgment number of each closing side before its end, by slot."""
        self.finishing: dict[int, tuple[int, int]] = {}
        """Side and row of the FIN of connections with one FIN in the block, by slot of side 0."""
        self.slots: Int64 = np.empty(0, np.int64)
        """The slot of each direction, -1 if it has none."""
        self.done: Bool = np.empty(0, np.bool_)
        """Whether the fast path reads each direction."""
        self.sides: list[PlainSide] = []
        self.messages: Messages | None = None
        self.alternating: requests.Alternating | None = None
        self.carrying: CarryingRows | None = None
        self.inside = nothing_inside(0)
        self.topics: Int64 = np.empty(0, np.int64)

    @cached_property
    def rows(self) -> BlockRows:
        return BlockRows(self.block)
