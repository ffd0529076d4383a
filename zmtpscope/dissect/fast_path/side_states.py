"""The state of each side on the fast path between blocks, as columns."""

from __future__ import annotations

from array import array

import numpy as np

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.fast_path.sides import ASKS, PlainSide
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.message_columns import GROUPED, REQUESTERS
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT, KNOWN_SIZES
from zmtpscope.dissect.stream.plain_state import Counts, Piece, PlainState
from zmtpscope.dissect.stream.runs import columns_of
from zmtpscope.dissect.tcp.connection import NEVER, TcpState
from zmtpscope.dissect.tcp.sequence import MODULUS
from zmtpscope.zmtp.events import NO_FRAMES, FrameColumns

FIRST_SLOTS = 64

NOTHING = -1
"""Stands for a missing number."""


class SideStates:
    """The state of all sides on the fast path, as columns; a slot is the index of a side.

    Side 0 of a connection has an even slot, side 1 the next one. The rows of a two-dimensional column are the fields of
    an `Arrival`, of `Counts`, or of a frame.
    """

    def __init__(self) -> None:
        self.next: Int64 = np.empty(0, np.int64)
        """Sequence number of the next octet."""
        self.initial = self.next
        """Sequence number of the SYN."""
        self.acknowledged = self.next
        """Last acknowledgment number that the side sent."""
        self.end = self.next
        """Stream offset of the next octet."""
        self.position = self.next
        """Stream offset of the next frame header."""
        self.sends = self.next
        """Whether the fast path reads messages of the side. If not, any octet of it releases the connection."""
        self.keeps = self.next
        """Whether to keep the octets of the incomplete message."""
        self.settled = self.next
        """The ordinal before which no record of the side can be decided."""
        self.blocks = self.next
        """Number of blocks with segments of the side since adoption."""
        self.unclaimed = self.next
        """Messages since a payload dissector last claimed one, if no rules check them."""
        self.is_judged = self.next
        self.is_enveloped = self.next
        """Whether addresses and a delimiter may precede the content."""
        self.is_grouped = self.next
        """Whether a topic or group may precede the content."""
        self.role = self.next
        """`PlainSide.role`."""
        self.waits = self.next
        """Whether a request is open, by slot of side 0."""
        self.asked_in = self.next
        """Packet with the end of the last request."""
        self.awaited_from = self.next
        """Stream offset of an octet whose arrival time matters."""
        self.awaited_until = self.next
        """Time (ns) up to which this octet causes no finding."""
        self.open = self.next
        """Number of frames of the incomplete message that have started."""
        self.memory = self.next
        """Octets of the common limit that the side uses."""
        self.begin_of = self.next
        """Stream offset of the first octet whose segment is known."""
        three: Int64 = np.empty((len(Arrival._fields), 0), np.int64)
        self.last = three
        """Last segment of the side."""
        self.piece = three
        """Last segment of the side with octets."""
        self.start = three
        """Segment with the first octet of the incomplete message."""
        self.frame_start = three
        """Segment with the first octet of the last frame of the incomplete message."""
        self.frame_end = three
        """Segment with the last received octet of that frame."""
        self.awaited = three
        """Segment with the awaited octet."""
        self.frame: Int64 = np.empty((4, 0), np.int64)
        """Last frame of the incomplete message: offset, body, size and flags."""
        self.counts: Int64 = np.empty((len(Counts._fields), 0), np.int64)
        """Messages of the side read on the fast path."""
        self.sizes: Int64 = np.empty((KNOWN_SIZES, 0), np.int64)
        """Sizes of the last frames of complete messages, as a ring."""
        # state that few sides have
        self.held: dict[int, bytes] = {}
        """The last received octets: unread ones, and wanted ones of the incomplete message."""
        self.frames: dict[int, Int64] = {}
        """Frames of the incomplete message before the last one, as columns like `frame`."""
        self.pieces: dict[int, list[Piece]] = {}
        """Segments of the unread octets, if there are several."""
        self.fins: dict[int, Arrival] = {}
        """Segments with a FIN."""

    def grow(self) -> range:
        """Double the number of slots. Returns the new slots of side 0, which are even."""
        begin = len(self.next)
        more = max(FIRST_SLOTS, begin)
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                setattr(self, name, np.concatenate((column, np.zeros((*column.shape[:-1], more), np.int64)), -1))
        return range(begin, begin + more, 2)

    def begin(self, slots: int | Int64, side: PlainSide | None, position: int) -> None:
        """Set the state of sides that enter the fast path at their SYN.

        `slots` are their indexes; their first message starts at stream offset `position`.
        """
        for column in (self.end, self.begin_of, self.blocks, self.open, self.memory):
            column[slots] = 0
        self.unclaimed[slots] = self.waits[slots] = self.asked_in[slots] = 0
        self.last.T[slots] = self.piece.T[slots] = self.awaited.T[slots] = NEVER
        self.position[slots] = position
        awaits = 0 if side is None else side.awaits
        self.awaited_from[slots], self.awaited_until[slots] = position if awaits else NOTHING, awaits
        self.sends[slots] = side is not None
        if side is None:
            self.keeps[slots] = self.settled[slots] = self.is_judged[slots] = self.role[slots] = 0
            return
        types = side.regime.socket_type, side.peer_socket_type
        self.keeps[slots], self.settled[slots], self.role[slots] = side.keeps, side.settled, side.role
        self.is_judged[slots] = side.judge is not None
        self.is_enveloped[slots] = not REQUESTERS.isdisjoint(types)
        self.is_grouped[slots] = side.regime.socket_type in GROUPED

    def resume(self, slot: int, side: PlainSide | None, state: PlainState) -> None:
        """Set the state of a side that enters the fast path after its handshake.

        `slot` is its index. `side` None: the fast path does not read it.
        """
        tcp, frames = state.tcp, state.frames
        self.begin(slot, side, state.position)
        self.initial[slot], self.next[slot], self.acknowledged[slot] = tcp.initial, tcp.next, tcp.acknowledged
        self.end[slot], self.last[:, slot] = tcp.octets, tcp.last
        self.came(slot, state.begin, list(state.pieces))
        if state.held:
            self.held[slot] = state.held
        count = self.open[slot] = len(frames.offsets)
        if count:
            columns = np.array(columns_of(frames))
            self.frame[:, slot] = columns[:, -1]
            self.start[:, slot], self.frame_start[:, slot], self.frame_end[:, slot] = state.came
            if count > 1:
                self.frames[slot] = columns[:, :-1]
        self.memory[slot] = len(state.held) + FRAME_WEIGHT * count
        if state.payloads is not None:
            self.unclaimed[slot] = state.payloads.side.unclaimed
        if state.is_answered is not None:
            self.waits[slot & ~1], self.asked_in[slot & ~1] = not state.is_answered, state.last_packet

    def tcp(self, slot: int) -> TcpState:
        return TcpState(
            int(self.initial[slot]),
            int(self.next[slot]),
            int(self.acknowledged[slot]),
            int(self.end[slot]),
            Arrival(*self.last[:, slot].tolist()),
            self.fins.get(slot),
        )

    def is_between_messages(self, slot: int) -> bool:
        """Whether both sides of a connection have sent complete messages only. `slot` is that of side 0."""
        both = slice(slot, slot + 2)
        return bool(((self.position[both] == self.end[both]) & (self.open[both] == 0)).all())

    def leave(self, slot: int) -> PlainState:
        """Return the state of the side with the index `slot`, for the slow path to continue."""
        counts, first, is_answered = self.counts_of(slot), slot & ~1, None
        awaited, *came = (
            Arrival(*column[:, slot].tolist())
            for column in (self.awaited, self.start, self.frame_start, self.frame_end)
        )
        if self.role[slot] == ASKS and self.counts[0, first : first + 2].any():
            is_answered = not self.waits[first]
        return PlainState(
            self.tcp(slot),
            int(self.position[slot]),
            self.held.get(slot, b""),
            self._carried(slot),
            (came[0], came[1], came[2]),
            int(self.begin_of[slot]),
            self.pieces_of(slot),
            counts,
            self._recent_sizes(slot),
            None if awaited == NEVER else awaited,
            is_answered=is_answered,
            last_packet=int(self.asked_in[first]),
        )

    def finish(self, slot: int, fin: Arrival) -> None:
        """Store the FIN of the side with the index `slot`.

        A FIN takes a sequence number. Octets after it belong to no message.
        """
        self.next[slot] = (self.next[slot] + 1) % MODULUS
        self.sends[slot], self.fins[slot] = False, fin

    def clear(self, slots: list[int]) -> None:
        self.counts[:, slots] = 0
        for few in (self.held, self.frames, self.pieces, self.fins):
            for slot in few.keys() & slots if few else ():
                del few[slot]

    def counts_of(self, slot: int) -> Counts:
        return Counts(*self.counts[:, slot].tolist())

    def pieces_of(self, slot: int) -> list[Piece]:
        """Return the segments that carried a side's octets from stream offset `begin_of` on.

        `slot` is the index of the side. Empty if they arrived before.
        """
        several = self.pieces.get(slot)
        if several is not None:
            return several
        ordinal, packet, time = self.piece[:, slot].tolist()
        return [] if ordinal == NOTHING else [(int(self.end[slot]), ordinal, packet, time)]

    def came(self, slot: int, begin: int, pieces: list[Piece]) -> None:
        self.begin_of[slot] = begin
        self.piece[:, slot] = pieces[-1][1:] if pieces else NEVER
        if len(pieces) > 1:
            self.pieces[slot] = pieces
        else:
            self.pieces.pop(slot, None)

    def _carried(self, slot: int) -> FrameColumns:
        if not self.open[slot]:
            return NO_FRAMES
        frames = FrameColumns()
        if slot in self.frames:
            frames.extend(*self.frames[slot].tolist())
        frames.append(*self.frame[:, slot].tolist())
        return frames

    def _recent_sizes(self, slot: int) -> array[int]:
        """Return the sizes of the last frames of a side's complete messages, oldest first.

        `slot` is the index of the side.
        """
        count, sizes = int(self.counts[1, slot]), self.sizes[:, slot].tolist()
        place = count % KNOWN_SIZES
        return array("q", sizes[:count] if count < KNOWN_SIZES else sizes[place:] + sizes[:place])
