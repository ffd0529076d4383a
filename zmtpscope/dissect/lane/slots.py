"""What the lane remembers of sides from block to block, all of them as columns."""

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
"""Stands for a number that there is not."""

NEVER = Arrival(NOTHING, 0, 0)


class Counts(NamedTuple):
    """Whole messages, their frames, octets of bodies and of headers, and the stream offset of the last message."""

    messages: int
    frames: int
    octets: int
    headers: int
    last: int


class Begun(NamedTuple):
    """What is known of a side when it comes: values of these columns of `Slots`."""

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
    """Of a side that comes; None: one that is not read here. `next_` is the sequence number of its next octet, `end` is
    the stream offset up to which its octets have come, `position` that of the next frame header."""
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
"""The last columns of a side that is not read here."""


class Slots:
    """An entry for each slot in every column: sides 0 and 1 of a connection have an even slot and the one behind it.

    Where a column has several rows they are the fields of an `Arrival`, of `Counts`, or of a frame.
    """

    def __init__(self) -> None:
        self.next: Int64 = np.empty(0, np.int64)
        """The sequence number of the next octet."""
        self.acknowledged = self.next
        """The last acknowledgment number that the side sent."""
        self.end = self.next
        """The stream offset of the next octet."""
        self.position = self.next
        """That of the next frame header."""
        self.sends = self.next
        """Whether messages of the side are read in the lane; any octet of another one releases the connection."""
        self.keeps = self.next
        """Whether the octets of the message under way are wanted."""
        self.settled = self.next
        """The segment in front of which nothing is decidable."""
        self.blocks = self.next
        """How many blocks have had something of it since it was adopted."""
        self.unclaimed = self.next
        """Messages since one was claimed by those who know what rides inside, where nobody judges them, ..."""
        self.unclaimed_before = self.next
        """... and how many these were when it was adopted."""
        self.is_judged = self.next
        """Whether somebody looks at the messages."""
        self.is_enveloped = self.next
        """Whether addresses and a delimiter may stand in front of their contents, ..."""
        self.is_grouped = self.next
        """... or a topic or group does."""
        self.role = self.next
        """`LaneSide.role`."""
        self.waits = self.next
        """By the slot of side 0: whether a request waits for its reply, ..."""
        self.asked_in = self.next
        """... and the packet in which the last request ends."""
        self.awaited_from = self.next
        """The stream offset of an octet of which it matters when it comes."""
        self.open = self.next
        """How many frames of the message under way have begun."""
        self.memory = self.next
        """Octets that the side takes of what all may hold."""
        self.begin_of = self.next
        """The stream offset from which on it is known which segments brought the octets."""
        three: Int64 = np.empty((len(Arrival._fields), 0), np.int64)
        self.last = three
        """Its last segment."""
        self.piece = three
        """The last segment of it that brought octets."""
        self.start = three
        """Of the message under way: the segments with its first octet, ..."""
        self.frame_start = three
        """... with the first octet of its last frame, ..."""
        self.frame_end = three
        """... and with the last that has come of it."""
        self.awaited = three
        """The segment with the octet that was awaited."""
        self.frame: Int64 = np.empty((4, 0), np.int64)
        """The last frame of the message under way: offset, body, size and flags."""
        self.counts: Int64 = np.empty((len(Counts._fields), 0), np.int64)
        """What was read of it in the lane."""
        self.sizes: Int64 = np.empty((KNOWN_SIZES, 0), np.int64)
        """Those of the last frames of whole messages; the next one takes the place of the oldest."""
        # what few sides have
        self.held: dict[int, bytes] = {}
        """Octets up to the end of what has come: what is not read yet, and the message under way, where that is
        wanted."""
        self.frames: dict[int, Int64] = {}
        """The frames of the message under way in front of the last, as columns like `frame`."""
        self.pieces: dict[int, list[Piece]] = {}
        """How octets came that are not read yet, where that was more than one segment."""

    def grow(self) -> range:
        """Add slots: the even ones of them."""
        begin = len(self.next)
        more = max(FIRST_SLOTS, begin)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(self, name, np.concatenate((column, np.zeros((*column.shape[:-1], more), np.int64)), -1))
        return range(begin, begin + more, 2)

    def begin_many(self, slots: list[int], sides: list[Begun]) -> None:
        """Sides come."""
        for name, column in zip(Begun._fields, zip(*sides, strict=True), strict=True):
            getattr(self, name)[..., slots] = np.array(column).T
        self._begin(np.array(slots))

    def begin_alike(self, slots: Int64, side: Begun) -> None:
        """Sides come of which the same is known, but for what is a column."""
        for name, value in zip(Begun._fields, side, strict=True):
            column = getattr(self, name)
            column[..., slots] = np.array(value)[:, None] if isinstance(value, Arrival) else value
        self._begin(slots)

    def _begin(self, slots: Int64) -> None:
        """What is known of all sides that come."""
        self.begin_of[slots] = self.end[slots]
        for name in ("blocks", "open", "memory", "unclaimed", "unclaimed_before", "waits", "asked_in"):
            getattr(self, name)[slots] = 0
        for name in ("piece", "awaited"):
            getattr(self, name)[:, slots] = np.array(NEVER)[:, None]

    def take_over(self, slot: int, reading: Reading, awaits: bool) -> None:
        """Go on where `reading` has come to with a side that comes."""
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
        """The segment with the octet that was awaited, if it came."""
        ordinal, packet, time = self.awaited[:, slot].tolist()
        return None if ordinal == NOTHING else Arrival(ordinal, packet, time)

    def finish(self, slot: int) -> None:
        """A side has sent FIN, which takes a sequence number; any octet behind that is none of its messages."""
        self.next[slot] = (self.next[slot] + 1) % MODULUS
        self.sends[slot] = False

    def clear(self, slots: list[int]) -> None:
        """Sides leave."""
        self.counts[:, slots] = 0
        for few in (self.held, self.frames, self.pieces):
            for slot in few.keys() & slots if few else ():
                del few[slot]

    def counts_of(self, slot: int) -> Counts:
        """What was read of a side in the lane."""
        return Counts(*self.counts[:, slot].tolist())

    def pieces_of(self, slot: int) -> list[Piece]:
        """How its octets from `begin_of` on came, as far as somebody may ask; none where none came here."""
        several = self.pieces.get(slot)
        if several is not None:
            return several
        ordinal, packet, time = self.piece[:, slot].tolist()
        return [] if ordinal == NOTHING else [(int(self.end[slot]), ordinal, packet, time)]

    def came(self, slot: int, begin: int, pieces: list[Piece]) -> None:
        """Its octets from `begin` on came in these pieces."""
        self.begin_of[slot] = begin
        self.piece[:, slot] = pieces[-1][1:] if pieces else NEVER
        if len(pieces) > 1:
            self.pieces[slot] = pieces
        else:
            self.pieces.pop(slot, None)

    def carry(self, slot: int, frames: FrameColumns, start: Arrival, frame_start: Arrival, frame_end: Arrival) -> None:
        """A side comes whose message under way has these frames, which came so."""
        count = len(frames.offsets)
        self.open[slot] = count
        if count:
            self.frame[:, slot] = frames.offsets[-1], frames.bodies[-1], frames.sizes[-1], frames.flags[-1]
            self.start[:, slot], self.frame_start[:, slot], self.frame_end[:, slot] = start, frame_start, frame_end
        if count > 1:
            self.frames[slot] = np.array(columns_of(frames))[:, :-1]

    def carried(self, slot: int) -> FrameColumns:
        """The frames of the message under way."""
        if not self.open[slot]:
            return NO_FRAMES
        frames = FrameColumns()
        if slot in self.frames:
            frames.extend(*self.frames[slot].tolist())
        frames.append(*self.frame[:, slot].tolist())
        return frames

    def weigh(self, slot: int) -> int:
        """What the side takes of what all may hold, from now on."""
        memory = len(self.held.get(slot, b"")) + FRAME_WEIGHT * int(self.open[slot])
        self.memory[slot] = memory
        return memory

    def give_back(self, slot: int, reading: Reading) -> None:
        """Let the side read on itself, with `reading`."""
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
        """The sizes of the last frames of whole messages."""
        count, sizes = int(self.counts[1, slot]), self.sizes[:, slot].tolist()
        place = count % KNOWN_SIZES
        return array("q", sizes[:count] if count < KNOWN_SIZES else sizes[place:] + sizes[:place])
