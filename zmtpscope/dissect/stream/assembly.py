"""Join the frames of one side to messages: takes columns of frames, and returns tables of messages.

A message ends with a frame without MORE. Every encrypted frame (a CURVE or GSSAPI MESSAGE) is a message of its own.
Frames of an incomplete message are kept for the next call.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.records.tables import HEAD_KEPT, FrameTable, MessageTable
from zmtpscope.dissect.stream.arrivals import segments_at
from zmtpscope.dissect.stream.plain_state import PlainState
from zmtpscope.dissect.stream.runs import Context, Edges, Kept, as_array, frame_runs, message_runs
from zmtpscope.zmtp.events import ENCRYPTED, NO_FRAMES, FrameColumns
from zmtpscope.zmtp.framing import MORE

MAX_FRAMES = 1 << 20
"""Frames of a message. A longer one becomes incomplete parts of this size, without bodies."""

FRAME_WEIGHT = 32
"""Memory in octets of a frame of an incomplete message."""

FEW_FRAMES = 16
"""With fewer values Python sums faster than numpy."""

NO_ROW, FIRST_ROW = np.empty(0, np.int64), np.zeros(1, np.int64)

KNOWN_SIZES = 64
"""Last frame sizes to remember."""


class Assembly:
    """Joins the frames of one side to messages.

    `head` are the first octets of an incomplete message that is too large to keep. `payloads` dissects the messages.
    """

    carried = NO_FRAMES
    """Frames of the message under way, the last message whose end has not arrived."""
    message_start = Arrival(0, 0, 0)
    frame_start = Arrival(0, 0, 0)
    frame_end = Arrival(0, 0, 0)
    """The segment with the last octet so far of the message under way."""
    damaged = False
    """Whether octets of the message under way were lost."""
    head: Kept | None = None
    """First octets of the message under way, if it is no longer held."""
    uncertain_start = False
    """Whether data before the next message is missing, so that it may be only the end of one."""
    message_count = 0
    last_message = 0
    """Stream offset of the last message."""
    sealed = 0
    """Number of MESSAGEs that stayed encrypted."""
    frame_count = 0
    body_octets = 0
    unit_octets = 0
    """Captured octets of message frames, with headers."""
    payloads: PayloadRows | None = None
    """The dissectors' access to messages: set after the first message, if payloads are wanted."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.recent_sizes: list[int] = []
        self.message_runs: list[MessageTable] = []
        self.frame_runs: list[FrameTable] = []
        self.frame_packets = array("q")
        """Packets with the first octets of the carried frames, if frame rows are wanted."""
        self.frame_times = array("q")
        """Times of the packets in the preceding array."""

    @property
    def wants_rows(self) -> bool:
        """Whether the payloads of messages must be dissected, because they may cause findings."""
        return self.payloads is None or self.payloads.wants_rows

    @property
    def open_offset(self) -> int | None:
        """The stream offset of the message that is still incomplete; None if there is none."""
        return self.carried.offsets[0] if self.carried.offsets else None

    @property
    def open_frames(self) -> int:
        return len(self.carried.offsets)

    @property
    def held_octets(self) -> int:
        """How many octets of memory the incomplete message uses, in addition to the kept octets of the stream."""
        return FRAME_WEIGHT * len(self.carried.offsets) + (0 if self.head is None else len(self.head.data))

    def feed(self, columns: FrameColumns, context: Context) -> None:
        """Add frames; the body of the last may extend beyond `context.end`."""
        before = len(self.carried.offsets)
        if not columns.offsets and not before:
            return
        if context.frames and columns.offsets:
            _, packets, times = segments_at(context.arrivals.table(), as_array(columns.offsets))
            self.frame_packets.frombytes(packets.tobytes())
            self.frame_times.frombytes(times.tobytes())
        if before and self._goes_on(columns, context):
            return
        if columns.offsets:
            self.carried = joined(self.carried, columns) if before else columns
        while self.carried.offsets:
            taken, in_parts = self._take_whole(before, context)
            if taken:
                before = 0
            if not in_parts:
                break
        if self.carried.offsets:
            if not before:
                self.message_start = context.arrivals.at(self.carried.offsets[0])
            if columns.offsets:
                single = len(self.carried.offsets) == 1
                self.frame_start = self.message_start if single else context.arrivals.at(self.carried.offsets[-1])
            self._note_end(context)

    def _note_end(self, context: Context) -> None:
        """Store when the last octet of the incomplete message arrived, while that is still known."""
        last = min(self.carried.bodies[-1] + self.carried.sizes[-1], context.end) - 1
        if last >= context.arrivals.begin:
            self.frame_end = context.arrivals.at(last)

    def _take_whole(self, carried: int, context: Context) -> tuple[bool, bool]:
        """Emit the complete messages before the first one with more than `MAX_FRAMES` frames, and a part of that one.

        The first `carried` frames arrived earlier. Returns (whether it emitted anything, whether it emitted a part, so
        that complete messages may follow).
        """
        frames = self.carried
        whole = len(frames.offsets)
        if frames.bodies[-1] + frames.sizes[-1] > context.end:
            whole -= 1
        if not whole:
            return False, False
        last = message_ends(frames.flags, whole)
        in_parts = False
        if whole >= MAX_FRAMES:
            begins, ends = np.append(0, last + 1), np.append(last, whole)  # the last one is incomplete
            too_long = (ends - begins >= MAX_FRAMES).nonzero()[0]
            if len(too_long):
                in_parts, last = True, last[: too_long[0]]
                whole = int(begins[too_long[0]]) + MAX_FRAMES
        has_whole = bool(len(last))
        if has_whole:
            self._take_messages(carried, last, True, context)
            self._drop(int(last[-1]) + 1)
        if in_parts:
            self._lose_all(context.end)  # keep no bodies, and make the next part incomplete too
            self._take_messages(0 if has_whole else carried, np.array([MAX_FRAMES - 1]), False, context)
            self._drop(MAX_FRAMES)
            self._lose_all(context.end)
        return has_whole or in_parts, in_parts

    def _goes_on(self, columns: FrameColumns, context: Context) -> bool:
        """Append frames to the incomplete message, if none of them ends it. Returns False if one may end it."""
        carried = self.carried
        waits = carried.bodies[-1] + carried.sizes[-1] > context.end
        if waits or (carried.flags[-1] & (MORE | ENCRYPTED)) != MORE or ends_message(as_array(columns.flags)).any():
            return waits and not columns.offsets
        if len(carried.offsets) + len(columns.offsets) >= MAX_FRAMES:
            return False
        carried.add(columns)
        self.frame_start = context.arrivals.at(carried.offsets[-1])
        self._note_end(context)
        return True

    def resume(self, state: PlainState) -> None:
        """Continue after the fast path: add its message counts, and keep its incomplete message."""
        counts = state.counts
        if counts.messages:
            self.message_count += counts.messages
            self.last_message = counts.last
            self.frame_count += counts.frames
            self.body_octets += counts.octets
            self.unit_octets += counts.octets + counts.headers
            self.recent_sizes += state.sizes
            del self.recent_sizes[:-KNOWN_SIZES]
            self.forget_damage()
        self.carried, (self.message_start, self.frame_start, self.frame_end) = state.frames, state.came
        self.payloads = state.payloads or self.payloads

    def give_up(self, context: Context, ordinal: int) -> None:
        """Emit the incomplete message as it is; `ordinal` is the segment that shows that it will not be completed."""
        count = len(self.carried.offsets)
        if count:
            context = replace(context, settled=max(context.settled, ordinal))
            self._take_messages(count, np.array([count - 1]), False, context)
            self._drop(count)
        self.forget_damage()

    def give_part(self, context: Context) -> None:
        """Emit the complete frames of the incomplete message as one part; its other frames become another part."""
        count = len(self.carried.offsets)
        whole = count - (self.carried.bodies[-1] + self.carried.sizes[-1] > context.end)
        if whole:
            self._take_messages(count, np.array([whole - 1]), False, context)
            self._drop(whole)
            self.message_start = self.frame_start
        self.damage(Kept(b"", context.end, None), 0)

    def drain(self) -> tuple[list[MessageTable], list[FrameTable]]:
        runs, self.message_runs = self.message_runs, []
        frame_runs, self.frame_runs = self.frame_runs, []
        return runs, frame_runs

    def doubt_next(self) -> None:
        self.uncertain_start = True

    def count_lost(self, octets: int) -> None:
        self.unit_octets -= octets

    def forget_damage(self) -> None:
        self.damaged, self.head = False, None

    def damage(self, kept: Kept, limit: int) -> None:
        """Mark the incomplete message as damaged.

        The octets before the loss, `kept`, stay if they are at most `limit`; otherwise only the first ones.
        """
        self.damaged = True
        if self.head is None:
            frames = self.carried
            begin = self.open_offset
            in_front = 0 if begin is None else begin - kept.base + sum(frames.bodies) - sum(frames.offsets)
            if len(kept.data) - in_front > limit:
                self.let_go(kept)
            else:
                self.head = kept

    def let_go(self, kept: Kept) -> None:
        """Drop the octets of the incomplete message except the first ones, which are in `kept`."""
        begin = kept.base if self.open_offset is None else max(self.open_offset, kept.base)
        self.head = Kept(kept.data[begin - kept.base :][:HEAD_KEPT], begin, kept.pieces)

    def _lose_all(self, end: int) -> None:
        """Drop all octets of the incomplete message, which continues at stream offset `end`."""
        self.damaged, self.head = True, Kept(b"", end, None)

    def _drop(self, count: int) -> None:
        self.carried = self.carried.behind(count) if count < len(self.carried.offsets) else NO_FRAMES
        del self.frame_packets[:count], self.frame_times[:count]

    def _take_messages(self, carried: int, last: Int64, complete: bool, context: Context) -> None:
        """Count messages, which end with the frames `last`, and make message rows if needed.

        The first `carried` frames arrived earlier. `complete` is False for an incomplete message.
        """
        frames, count = self.carried, int(last[-1]) + 1
        self.message_count += len(last)
        self.last_message = frames.offsets[int(last[-2]) + 1 if len(last) > 1 else 0]
        self.frame_count += count
        if context.seals:
            self.sealed += int(np.count_nonzero(as_array(frames.flags)[last] & ENCRYPTED))
        # every body but the last is complete; the last may be absent, and of any size
        octets = total(frames.sizes, count - 1)
        octets += min(frames.sizes[count - 1], context.end - frames.bodies[count - 1])
        self.body_octets += octets
        self.unit_octets += octets + total(frames.bodies, count) - total(frames.offsets, count)
        self.recent_sizes += frames.sizes[max(0, count - KNOWN_SIZES) : count]
        del self.recent_sizes[:-KNOWN_SIZES]
        if context.messages:
            start = self.message_start if carried else None
            edges = Edges(start, self.frame_end, self.damaged, self.uncertain_start, self.head)
            runs = message_runs(self.stream, frames, last, complete, edges, context)
            self.message_runs += runs
            if context.frames:
                self.frame_runs += frame_runs(runs, self.frame_packets, self.frame_times, context)
        self.forget_damage()
        self.uncertain_start = False


def total(column: array[int], count: int) -> int:
    return sum(column[:count]) if count < FEW_FRAMES else int(np.add.reduce(as_array(column)[:count]))


def message_ends(flags: array[int], count: int) -> Int64:
    """Return the indexes of the frames that end a message, among the first `count` (at least one) with these flags."""
    if count == 1:
        return NO_ROW if (flags[0] & (MORE | ENCRYPTED)) == MORE else FIRST_ROW
    return ends_message(as_array(flags)[:count]).nonzero()[0]


def ends_message(flags: Int64) -> NDArray[np.bool_]:
    ends: NDArray[np.bool_] = (flags & (MORE | ENCRYPTED)) != MORE
    return ends


def joined(first: FrameColumns, second: FrameColumns) -> FrameColumns:
    frames = first.behind(0)
    frames.add(second)
    return frames
