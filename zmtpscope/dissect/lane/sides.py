"""What the lane remembers of one side between two blocks, but for what it keeps as columns (`lane.py`)."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import NamedTuple

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.connection.message_rows import MessageRows
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.lane.arrived import Arrived, Piece
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT, KNOWN_SIZES
from zmtpscope.dissect.stream.reading import Reading
from zmtpscope.zmtp.events import NO_FRAMES, FrameColumns
from zmtpscope.zmtp.regime import Regime

MOST_OPEN, MOST_HELD = 64, 16 << 10
"""Frames of a message under way, and octets that are held, at most."""

LARGEST_PLACE = 1 << 48
"""Stream offsets are numbers of 64 bits here; where a body that is announced ends need not be one."""


class Counts(NamedTuple):
    """Whole messages, their frames, octets of bodies and of headers, and the stream offset of the last message."""

    messages: int
    frames: int
    octets: int
    headers: int
    last: int


class UnderWay(NamedTuple):
    """The message under way: its frames so far, and the segments with its first octet, with the first of its last
    frame, and with the last that has come of it."""

    frames: FrameColumns
    start: Arrival
    frame_start: Arrival
    end: Arrival


@dataclass(slots=True, eq=False)
class LaneSide:
    """A side that sends plain messages. `held` are octets up to the end of what has come: what is not read yet, and the
    message under way where its octets are wanted. `pieces` say how octets from `begin` on came.

    What all rows have in common stands here as well as where it belongs, since that is five objects away, and with
    thousands of connections each of them costs as much as a message. None of it changes while a side is in the lane.
    """

    reading: Reading | None
    """What reads the side when it is released; None where nothing was read of it but in the lane."""
    stream: Stream
    regime: Regime
    confidence: str
    version: str | None
    peer_socket_type: str | None
    settled: int
    limit: int
    """Octets of a message that is written whole."""
    payloads: PayloadRows | None
    judge: MessageRows | None
    """Who looks at the messages; None where there is nothing to be said of them."""
    awaited_from: int | None
    """Stream offset of the first octet of which it matters when it comes, until it has."""
    is_written: bool
    """Whether message rows are written."""
    keeps: bool
    """Whether the octets of the message under way are wanted."""
    begin: int
    pieces: list[Piece]
    held: bytes = b""
    under_way: UnderWay | None = None
    awaited: Arrival | None = None
    """The segment that has brought it."""
    recent_sizes: array[int] = field(default_factory=lambda: array("q"))
    """Those of the last frames of whole messages."""

    @property
    def memory(self) -> int:
        """Octets that the side takes of what all may hold."""
        return len(self.held) + (0 if self.under_way is None else FRAME_WEIGHT * len(self.under_way.frames.offsets))

    @property
    def wants_rows(self) -> bool:
        """Whether rows are made of the messages."""
        return self.is_written or (
            self.judge is not None and self.reading is not None and self.reading.messages.are_wanted()
        )

    @property
    def is_looked_into(self) -> bool:
        """Whether somebody wants to know what is inside the messages."""
        return self.is_written or (self.payloads is not None and self.payloads.wants_rows)

    def note_sizes(self, sizes: array[int]) -> None:
        """Whole messages have come with frames of these sizes."""
        known = KNOWN_SIZES - len(sizes)
        self.recent_sizes = self.recent_sizes[-known:] + sizes if known > 0 else sizes[-KNOWN_SIZES:]

    @property
    def end(self) -> int:
        """Stream offset behind the last octet that has come."""
        return self.pieces[-1][0] if self.pieces else self.begin

    def start_of_held(self, offset: int) -> Arrival | None:
        """The segment with the first octet of the message at `offset`; None where that comes only now."""
        if self.under_way is not None:
            return self.under_way.start
        return arrival_in(self.pieces, offset) if offset < self.end else None

    def go_on(
        self, arrived: Arrived, direction: int, data: bytes, position: int, frames: FrameColumns | None, *, is_new: bool
    ) -> None:
        """What has come now, `direction` of what has `arrived`, was read up to `position`; with the octets that were
        held it is `data`. Of the message under way there are `frames`; it is another than before if it `is_new`."""
        rows = range(arrived.bounds[direction], arrived.bounds[direction + 1])
        end = arrived.ends[rows[-1]]
        if self.awaited_from is not None and self.awaited_from < end:
            self.awaited = arrived.arrival(arrived.row_of(direction, self.awaited_from))
            self.awaited_from = None
        first = position if position < end else end
        self.under_way = self._under_way(arrived, direction, frames, end, is_new=is_new)
        if first < self.end:
            kept = behind(self.pieces, first)
            if len(kept) < len(self.pieces):
                self.begin = self.pieces[-len(kept) - 1][0]
            self.pieces = kept + arrived.pieces(direction, rows[0])
        else:
            row = arrived.row_of(direction, first)
            self.begin = self.end if row == rows[0] else arrived.ends[row - 1]
            self.pieces = arrived.pieces(direction, row)
        if frames is not None and self.keeps:
            first = frames.offsets[0]
        self.held = data[len(data) - (end - first) :] if first < end else b""

    def _under_way(
        self, arrived: Arrived, direction: int, frames: FrameColumns | None, end: int, *, is_new: bool
    ) -> UnderWay | None:
        if frames is None:
            return None

        def arrival(offset: int) -> Arrival:
            if offset < self.end:
                return arrival_in(self.pieces, offset)
            return arrived.arrival(arrived.row_of(direction, offset))

        before, last = self.under_way, min(frames.bodies[-1] + frames.sizes[-1], end) - 1
        if is_new or before is None:
            start = frame_start = arrival(frames.offsets[0])
            known, came = 1, arrival(last)
        else:
            start, frame_start, known = before.start, before.frame_start, len(before.frames.offsets)
            came = arrival(last) if last >= self.begin else before.end
        if len(frames.offsets) > known:
            frame_start = arrival(frames.offsets[-1])
        return UnderWay(frames, start, frame_start, came)

    def give_back(self, reading: Reading, end: int, position: int, counts: Counts) -> None:
        """Let `reading` go on: `end` and `position` are as in `go_on`, `counts` what was read here."""
        assembly = reading.messages.in_clear
        if self.pieces:
            reading.arrivals.go_on(self.begin, self.pieces, end)
        if counts.messages:
            assembly.take_plain(*counts, self.recent_sizes)
        if self.payloads is not None:
            assembly.look_inside(self.payloads)
        frames, *came = self.under_way or (NO_FRAMES, None, None, None)
        if frames.offsets:
            assembly.carry(frames, *came)
        reading.go_on(position, frames, self.held)


def behind(pieces: list[Piece], offset: int) -> list[Piece]:
    """The pieces with octets from `offset` on, and the last one in any case: few, so none of the others is looked
    at."""
    place = len(pieces) - 1
    while place and pieces[place - 1][0] > offset:
        place -= 1
    return pieces[place:]


def arrival_in(pieces: list[Piece], offset: int) -> Arrival:
    """The segment that brought the octet at `offset`."""
    return Arrival(*behind(pieces, offset)[0][1:])
