"""The state of sides that the lane keeps from block to block, as columns."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.lane.arrived import Piece
from zmtpscope.dissect.lane.sides import LaneSide
from zmtpscope.dissect.records.batch import Int64
from zmtpscope.dissect.records.message_columns import GROUPED, REQUESTERS
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT, KNOWN_SIZES
from zmtpscope.dissect.stream.reading import Reading
from zmtpscope.dissect.stream.runs import columns_of
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.zmtp.events import NO_FRAMES, FrameColumns

FIRST_SLOTS = 64

NOTHING = -1
"""In place of a missing number."""

NEVER = Arrival(NOTHING, 0, 0)


class Counts(NamedTuple):
    """Complete messages, their frames, octets of bodies and of headers, and the stream offset of the last message."""

    messages: int
    frames: int
    octets: int
    headers: int
    last: int


class Begun(NamedTuple):
    """State of a side when it enters: values for these columns of `Slots`."""

    next: int | Int64
    acknowledged: int | Int64
    last: Arrival
    end: int
    position: int
    awaited_from: int
    sends: bool
    keeps: bool
    settled: int
    is_judged: bool
    is_enveloped: bool
    is_grouped: bool
    role: int


def begun(
    side: LaneSide | None,
    next_: int | Int64,
    acknowledged: int | Int64,
    last: Arrival,
    end: int = 0,
    position: int = 0,
) -> Begun:
    """Return the state of a side that enters, or of a side that the lane does not read (None).

    `next_` is the sequence number of its next octet, `end` the stream offset after its received octets, `position` the
    stream offset of the next frame header.
    """
    if side is None:
        return Begun(next_, acknowledged, last, end, position, NOTHING, *NOT_READ)
    types = side.regime.socket_type, side.peer_socket_type
    return Begun(
        next=next_,
        acknowledged=acknowledged,
        last=last,
        end=end,
        position=position,
        awaited_from=position if side.awaits else NOTHING,
        sends=True,
        keeps=side.keeps,
        settled=side.settled,
        is_judged=side.judge is not None,
        is_enveloped=not REQUESTERS.isdisjoint(types),
        is_grouped=side.regime.socket_type in GROUPED,
        role=side.role,
    )


NOT_READ = (False, False, NOTHING, False, False, False, 0)
"""The last columns of a side that the lane does not read."""


class Slots:
    """State of all slots, as columns: sides 0 and 1 of a connection have an even slot and the next one.

    The rows of a two-dimensional column are the fields of an `Arrival`, of `Counts`, or of a frame.
    """

    def __init__(self) -> None:
        self.next: Int64 = np.empty(0, np.int64)
        """Sequence number of the next octet."""
        self.acknowledged = self.next
        """Last acknowledgment number that the side sent."""
        self.end = self.next
        """Stream offset of the next octet."""
        self.position = self.next
        """Stream offset of the next frame header."""
        self.sends = self.next
        """Whether the lane reads messages of the side; any octet of another side releases the connection."""
        self.keeps = self.next
        """Whether to keep the octets of the incomplete message."""
        self.settled = self.next
        """Ordinal before which nothing can be decided."""
        self.blocks = self.next
        """Number of blocks with segments of the side since it was adopted."""
        self.unclaimed = self.next
        """Messages since a payload dissector last claimed one, if rules do not check them."""
        self.unclaimed_before = self.next
        """The same number when the side was adopted."""
        self.is_judged = self.next
        """Whether rules check the messages."""
        self.is_enveloped = self.next
        """Whether addresses and a delimiter may precede the content."""
        self.is_grouped = self.next
        """Whether a topic or group may precede the content."""
        self.role = self.next
        """`LaneSide.role`."""
        self.waits = self.next
        """By the slot of side 0: whether a request waits for its reply."""
        self.asked_in = self.next
        """Packet with the end of the last request."""
        self.awaited_from = self.next
        """Stream offset of an octet whose arrival time matters."""
        self.open = self.next
        """Number of frames of the incomplete message that have started."""
        self.memory = self.next
        """Octets that the side uses of the common limit."""
        self.begin_of = self.next
        """Stream offset from which the segments of the octets are known."""
        three: Int64 = np.empty((len(Arrival._fields), 0), np.int64)
        self.last = three
        """Last segment of the side."""
        self.piece = three
        """Last segment of the side with octets."""
        self.start = three
        """Segment with the first octet of the incomplete message."""
        self.frame_start = three
        """Segment with the first octet of its last frame."""
        self.frame_end = three
        """Segment with the last received octet of it."""
        self.awaited = three
        """Segment with the awaited octet."""
        self.frame: Int64 = np.empty((4, 0), np.int64)
        """Last frame of the incomplete message: offset, body, size and flags."""
        self.counts: Int64 = np.empty((len(Counts._fields), 0), np.int64)
        """Messages of the side read in the lane."""
        self.sizes: Int64 = np.empty((KNOWN_SIZES, 0), np.int64)
        """Sizes of the last frames of complete messages, as a ring."""
        # state that few sides have
        self.held: dict[int, bytes] = {}
        """The last received octets: the unread ones, and the incomplete message if wanted."""
        self.frames: dict[int, Int64] = {}
        """Frames of the incomplete message before the last one, as columns like `frame`."""
        self.pieces: dict[int, list[Piece]] = {}
        """Segments of the unread octets, if there are several."""

    def grow(self) -> range:
        """Add slots and return the even ones."""
        begin = len(self.next)
        more = max(FIRST_SLOTS, begin)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(self, name, np.concatenate((column, np.zeros((*column.shape[:-1], more), np.int64)), -1))
        return range(begin, begin + more, 2)

    def begin_many(self, slots: list[int], sides: list[Begun]) -> None:
        """Set the state of sides that enter."""
        for name, column in zip(Begun._fields, zip(*sides, strict=True), strict=True):
            getattr(self, name)[..., slots] = np.array(column).T
        self._begin(np.array(slots))

    def begin_alike(self, slots: Int64, side: Begun) -> None:
        """Set the state of sides that enter with equal values, except those given as columns."""
        for name, value in zip(Begun._fields, side, strict=True):
            column = getattr(self, name)
            column[..., slots] = np.array(value)[:, None] if isinstance(value, Arrival) else value
        self._begin(slots)

    def _begin(self, slots: Int64) -> None:
        """Set the columns that are equal for all sides that enter."""
        self.begin_of[slots] = self.end[slots]
        for name in ("blocks", "open", "memory", "unclaimed", "unclaimed_before", "waits", "asked_in"):
            getattr(self, name)[slots] = 0
        for name in ("piece", "awaited"):
            getattr(self, name)[:, slots] = np.array(NEVER)[:, None]

    def take_over(self, slot: int, reading: Reading, awaits: bool) -> None:
        """Set the state of a side that enters in the middle of its stream, from `reading`."""
        arrivals, assembly = reading.arrivals, reading.messages.in_clear
        self.end[slot], self.position[slot] = arrivals.end, reading.reader.position
        self.awaited_from[slot] = arrivals.end if awaits else NOTHING
        self.came(slot, arrivals.begin, arrivals.rows())
        held = reading.held_octets.give_away()
        if held:
            self.held[slot] = held
        self.carry(slot, assembly.give_away(), assembly.message_start, assembly.frame_start, assembly.frame_end)
        if assembly.payloads is not None:
            self.unclaimed[slot] = self.unclaimed_before[slot] = assembly.payloads.side.unclaimed

    def awaited_by(self, slot: int) -> Arrival | None:
        """Return the segment with the awaited octet, if it arrived."""
        ordinal, packet, time = self.awaited[:, slot].tolist()
        return None if ordinal == NOTHING else Arrival(ordinal, packet, time)

    def finish(self, slot: int) -> None:
        """Record a FIN, which uses a sequence number; any later octets belong to no message."""
        self.next[slot] = (self.next[slot] + 1) % MODULUS
        self.sends[slot] = False

    def clear(self, slots: list[int]) -> None:
        """Clear the state of sides that leave."""
        self.counts[:, slots] = 0
        for few in (self.held, self.frames, self.pieces):
            for slot in few.keys() & slots if few else ():
                del few[slot]

    def counts_of(self, slot: int) -> Counts:
        """Return the counts of a side in the lane."""
        return Counts(*self.counts[:, slot].tolist())

    def pieces_of(self, slot: int) -> list[Piece]:
        """Return the segments with the octets from `begin_of` on, as far as needed; empty if none arrived in the
        lane."""
        several = self.pieces.get(slot)
        if several is not None:
            return several
        ordinal, packet, time = self.piece[:, slot].tolist()
        return [] if ordinal == NOTHING else [(int(self.end[slot]), ordinal, packet, time)]

    def came(self, slot: int, begin: int, pieces: list[Piece]) -> None:
        """Set the segments of the octets from `begin` on."""
        self.begin_of[slot] = begin
        self.piece[:, slot] = pieces[-1][1:] if pieces else NEVER
        if len(pieces) > 1:
            self.pieces[slot] = pieces
        else:
            self.pieces.pop(slot, None)

    def carry(self, slot: int, frames: FrameColumns, start: Arrival, frame_start: Arrival, frame_end: Arrival) -> None:
        """Set the incomplete message of a side that enters, and the segments of its frames."""
        count = len(frames.offsets)
        self.open[slot] = count
        if count:
            self.frame[:, slot] = frames.offsets[-1], frames.bodies[-1], frames.sizes[-1], frames.flags[-1]
            self.start[:, slot], self.frame_start[:, slot], self.frame_end[:, slot] = start, frame_start, frame_end
        if count > 1:
            self.frames[slot] = np.array(columns_of(frames))[:, :-1]

    def carried(self, slot: int) -> FrameColumns:
        """Return the frames of the incomplete message."""
        if not self.open[slot]:
            return NO_FRAMES
        frames = FrameColumns()
        if slot in self.frames:
            frames.extend(*self.frames[slot].tolist())
        frames.append(*self.frame[:, slot].tolist())
        return frames

    def weigh(self, slot: int) -> int:
        """Update and return the memory that the side uses of the common limit."""
        memory = len(self.held.get(slot, b"")) + FRAME_WEIGHT * int(self.open[slot])
        self.memory[slot] = memory
        return memory

    def give_back(self, slot: int, reading: Reading) -> None:
        """Return a side to `reading`, with all state from the lane."""
        assembly, counts, pieces = reading.messages.in_clear, self.counts_of(slot), self.pieces_of(slot)
        if pieces:
            reading.arrivals.go_on(int(self.begin_of[slot]), pieces, int(self.end[slot]))
        if counts.messages:
            assembly.take_plain(*counts, self._recent_sizes(slot))
        frames = self.carried(slot)
        if frames.offsets:
            came = (Arrival(*column[:, slot].tolist()) for column in (self.start, self.frame_start, self.frame_end))
            assembly.carry(frames, *came)
        reading.go_on(int(self.position[slot]), frames, self.held.get(slot, b""))

    def _recent_sizes(self, slot: int) -> array[int]:
        """Return the sizes of the last frames of complete messages, oldest first."""
        count, sizes = int(self.counts[1, slot]), self.sizes[:, slot].tolist()
        place = count % KNOWN_SIZES
        return array("q", sizes[:count] if count < KNOWN_SIZES else sizes[place:] + sizes[:place])
