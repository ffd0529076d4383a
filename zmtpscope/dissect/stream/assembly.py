"""Frames of one side become messages: the core's columns go in as they are read, runs of rows come out.

A message ends at a frame without MORE; every sealed frame (a CURVE or GSSAPI MESSAGE) is one message of its own. The
frames of the message that is under way are carried from one read to the next.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.arrivals import Arrival
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import HEAD_KEPT, FrameRun, Int64, MessageRun
from zmtpscope.dissect.records.payload_rows import PayloadRows
from zmtpscope.dissect.stream.arrivals import segments_at
from zmtpscope.dissect.stream.runs import Context, Edges, Kept, as_array, frame_runs, message_runs
from zmtpscope.zmtp.events import ENCRYPTED, NO_FRAMES, FrameColumns
from zmtpscope.zmtp.framing import MORE

MOST_FRAMES = 1 << 20
"""A message of more frames is written in parts of so many, none of them complete, and without bodies."""

FRAME_WEIGHT = 32
"""Octets that a frame of a message under way takes."""

FEW_FRAMES = 16
"""So many are summed up one by one; numpy is quicker with more."""

NO_ROW, FIRST_ROW = np.empty(0, np.int64), np.zeros(1, np.int64)

KNOWN_SIZES = 64
"""How many of a side's last frame sizes count as known to it."""


class Assembly:
    """The messages of one side."""

    carried = NO_FRAMES
    """The frames of the message under way."""
    message_start = Arrival(0, 0, 0)
    """The segment with the first octet of the message under way."""
    frame_start = Arrival(0, 0, 0)
    """The segment with the first octet of the last frame that was carried."""
    frame_end = Arrival(0, 0, 0)
    """The one with its last octet, as far as that has come."""
    damaged = False
    """Octets of the message under way were lost."""
    head: Kept | None = None
    """Its first octets, where what came of it is not held any more."""
    uncertain_start = False
    """What stood in front of the next message is not known: that may be the end of one, and is no more than likely."""
    message_count = 0
    last_message = 0
    """Stream offset of the last message."""
    sealed = 0
    """How many of the messages are MESSAGEs that stayed closed."""
    frame_count = 0
    body_octets = 0
    unit_octets = 0
    """Octets of message frames, headers included, that were captured."""
    payloads: PayloadRows | None = None
    """What rides inside the messages, once there were any and somebody wants to know."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.recent_sizes: list[int] = []
        """The sizes of the last `KNOWN_SIZES` frames."""
        self.message_runs: list[MessageRun] = []
        self.frame_runs: list[FrameRun] = []
        self.frame_packets = array("q")
        """The packets with the first octets of the carried frames, where frame rows are wanted ..."""
        self.frame_times = array("q")
        """... and their times."""

    @property
    def wants_rows(self) -> bool:
        """Whether findings may come of what rides inside the messages, where that is wanted."""
        return self.payloads is None or self.payloads.wants_rows

    @property
    def open_offset(self) -> int | None:
        """Stream offset of the message under way, None where there is none."""
        return self.carried.offsets[0] if self.carried.offsets else None

    @property
    def open_frames(self) -> int:
        """How many frames of the message under way have been seen."""
        return len(self.carried.offsets)

    @property
    def held_octets(self) -> int:
        """Octets of memory for the message under way, but for those that the stream keeps."""
        return FRAME_WEIGHT * len(self.carried.offsets) + (0 if self.head is None else len(self.head.data))

    def feed(self, columns: FrameColumns, context: Context) -> None:
        """Add the frames of `columns`; the last of them may reach beyond `context.end`."""
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
        """Remember how the last octet of the carried frames came, as long as that is known."""
        last = min(self.carried.bodies[-1] + self.carried.sizes[-1], context.end) - 1
        if last >= context.arrivals.begin:
            self.frame_end = context.arrivals.at(last)

    def _take_whole(self, carried: int, context: Context) -> tuple[bool, bool]:
        """Take the messages that are whole, up to one that is too long, and a part of that.

        Whether there was any, and whether there was a part: then more may follow.
        """
        frames = self.carried
        whole = len(frames.offsets)
        if frames.bodies[-1] + frames.sizes[-1] > context.end:
            whole -= 1
        if not whole:
            return False, False
        last = message_ends(frames.flags, whole)
        in_parts = False
        if whole >= MOST_FRAMES:
            begins, ends = np.append(0, last + 1), np.append(last, whole)  # the last of them is not over
            too_long = (ends - begins >= MOST_FRAMES).nonzero()[0]
            if len(too_long):
                in_parts, last = True, last[: too_long[0]]
                whole = int(begins[too_long[0]]) + MOST_FRAMES
        has_whole = bool(len(last))
        if has_whole:
            self._take_messages(carried, last, True, context)
            self._drop(int(last[-1]) + 1)
        if in_parts:
            self._lose_all(context.end)  # so none of its bodies is kept, nor is what follows complete
            self._take_messages(0 if has_whole else carried, np.array([MOST_FRAMES - 1]), False, context)
            self._drop(MOST_FRAMES)
            self._lose_all(context.end)
        return has_whole or in_parts, in_parts

    def _goes_on(self, columns: FrameColumns, context: Context) -> bool:
        """Whether the message under way is not over with these frames; they are carried with it then, in place."""
        carried = self.carried
        waits = carried.bodies[-1] + carried.sizes[-1] > context.end
        if waits or (carried.flags[-1] & (MORE | ENCRYPTED)) != MORE or ends_message(as_array(columns.flags)).any():
            return waits and not columns.offsets
        if len(carried.offsets) + len(columns.offsets) >= MOST_FRAMES:
            return False
        carried.add(columns)
        self.frame_start = context.arrivals.at(carried.offsets[-1])
        self._note_end(context)
        return True

    def give_away(self) -> FrameColumns:
        """The frames of the message under way, which somebody else has from now on."""
        frames, self.carried = self.carried, NO_FRAMES
        return frames

    def take_plain(
        self, messages: int, frames: int, octets: int, headers: int, last: int, recent_sizes: array[int]
    ) -> None:
        """Count whole messages that were read in the lane, the last of them at stream offset `last`: their frames,
        octets of bodies and of headers, and the sizes of the last frames."""
        self.message_count += messages
        self.last_message = last
        self.frame_count += frames
        self.body_octets += octets
        self.unit_octets += octets + headers
        self.recent_sizes += recent_sizes
        del self.recent_sizes[:-KNOWN_SIZES]
        self.forget_damage()

    def carry(self, frames: FrameColumns, start: Arrival, frame_start: Arrival, end: Arrival) -> None:
        """The message under way has come to these frames in the lane: the segments with its first octet, with the first
        of its last frame, and with the last octet that has come of it."""
        self.carried, self.message_start, self.frame_start, self.frame_end = frames, start, frame_start, end

    def give_up(self, context: Context, ordinal: int) -> None:
        """The message under way will never be whole, as the segment `ordinal` decides: an incomplete row of what there
        is."""
        count = len(self.carried.offsets)
        if count:
            context = replace(context, settled=max(context.settled, ordinal))
            self._take_messages(count, np.array([count - 1]), False, context)
            self._drop(count)
        self.forget_damage()

    def give_part(self, context: Context) -> None:
        """Give the message under way as far as its frames are whole, and what follows as another part."""
        count = len(self.carried.offsets)
        whole = count - (self.carried.bodies[-1] + self.carried.sizes[-1] > context.end)
        if whole:
            self._take_messages(count, np.array([whole - 1]), False, context)
            self._drop(whole)
            self.message_start = self.frame_start
        self.damage(Kept(b"", context.end, None), 0)

    def drain(self) -> tuple[list[MessageRun], list[FrameRun]]:
        """Messages and frames of which rows were made since this was asked last."""
        runs, self.message_runs = self.message_runs, []
        frame_runs, self.frame_runs = self.frame_runs, []
        return runs, frame_runs

    def look_inside(self, payloads: PayloadRows) -> PayloadRows:
        """From now on somebody does, with `payloads`."""
        self.payloads = payloads
        return payloads

    def doubt_next(self) -> None:
        """What stands in front of the next message is not known."""
        self.uncertain_start = True

    def count_lost(self, octets: int) -> None:
        """So many octets of what counts, or will count, as a message were lost."""
        self.unit_octets -= octets

    def forget_damage(self) -> None:
        """No message is under way of which octets were lost."""
        self.damaged, self.head = False, None

    def damage(self, kept: Kept, limit: int) -> None:
        """Octets of the message under way were lost; those in front of them were kept where they had come to no more
        than `limit`, else the first of them."""
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
        """The message under way is not kept whole any more, but for the first of these octets."""
        begin = kept.base if self.open_offset is None else max(self.open_offset, kept.base)
        self.head = Kept(kept.data[begin - kept.base :][:HEAD_KEPT], begin, kept.pieces)

    def _lose_all(self, end: int) -> None:
        """Nothing is kept of the message under way, which goes on at `end`."""
        self.damaged, self.head = True, Kept(b"", end, None)

    def _drop(self, count: int) -> None:
        self.carried = self.carried.behind(count) if count < len(self.carried.offsets) else NO_FRAMES
        del self.frame_packets[:count], self.frame_times[:count]

    def _take_messages(self, carried: int, last: Int64, complete: bool, context: Context) -> None:
        """Count the messages whose last frames are `last`, and make rows of them where those are wanted."""
        frames, count = self.carried, int(last[-1]) + 1
        self.message_count += len(last)
        self.last_message = frames.offsets[int(last[-2]) + 1 if len(last) > 1 else 0]
        self.frame_count += count
        if context.seals:
            self.sealed += int(np.count_nonzero(as_array(frames.flags)[last] & ENCRYPTED))
        # all but the last body have gone by; that one may be announced and not there, and of any size
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
    """The sum of the first `count` of a column."""
    return sum(column[:count]) if count < FEW_FRAMES else int(np.add.reduce(as_array(column)[:count]))


def message_ends(flags: array[int], count: int) -> Int64:
    """Which of the first `count` frames, at least one, are the last of their message."""
    if count == 1:
        return NO_ROW if (flags[0] & (MORE | ENCRYPTED)) == MORE else FIRST_ROW
    return ends_message(as_array(flags)[:count]).nonzero()[0]


def ends_message(flags: Int64) -> NDArray[np.bool_]:
    """Which frames are the last of their message."""
    ends: NDArray[np.bool_] = (flags & (MORE | ENCRYPTED)) != MORE
    return ends


def joined(first: FrameColumns, second: FrameColumns) -> FrameColumns:
    """The frames of both, in new columns."""
    frames = first.behind(0)
    frames.add(second)
    return frames
