"""What a block has brought of several sides, as one table: their frames, messages of them, and when these came."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.lane.arrived import Arrived
from zmtpscope.dissect.lane.sides import LARGEST_PLACE, MOST_OPEN, LaneSide
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.columns import Bool
from zmtpscope.dissect.stream import assembly
from zmtpscope.dissect.stream.runs import as_array, columns_of, cut_large
from zmtpscope.zmtp.events import FrameColumns
from zmtpscope.zmtp.framing import MORE
from zmtpscope.zmtp.scanner import is_part_of_header, scan_2


class Turn(NamedTuple):
    """What a block has brought of the side in `slot`, which is `direction` of the block.

    `data` are the octets from stream offset `base` on that were held or have come, up to `end`. `position` is the
    stream offset of the first header that is not read, `frames` counts those of whole messages, `open` are those of the
    message under way.
    """

    slot: int
    side: LaneSide
    direction: int
    data: bytes
    base: int
    end: int
    position: int
    frames: int
    open: FrameColumns | None


class Turns:
    """Reads the frames of sides: `add` them, and then make `messages` of all."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.frames = FrameColumns()
        """The frames of whole messages, turn by turn."""

    def add(self, slot: int, side: LaneSide, direction: int, octets: bytes, end: int, position: int) -> bool:
        """Read the frames of a side of which `octets` have come, up to stream offset `end`; `position` is that of the
        next header. False where there is something else than plain frames: then nothing was done."""
        frames, data = self.frames, side.held + octets if side.held else octets
        base, begin = end - len(data), len(frames.offsets)
        if side.under_way is not None:
            frames.add(side.under_way.frames)
        at = position - base
        if at < len(data):
            at = scan_2(data, at, base, frames)
            if at < len(data) and not is_part_of_header(data, at):
                frames.split(begin)
                return False
        flags, count = frames.flags, len(frames.flags)
        if count - begin >= assembly.MOST_FRAMES:
            frames.split(begin)
            return False
        whole = count - 1 if at > len(data) else count
        while whole > begin and flags[whole - 1] & MORE:
            whole -= 1
        under_way = frames.split(whole) if whole < count else None
        if under_way is not None and (len(under_way.offsets) > MOST_OPEN or at > LARGEST_PLACE):
            frames.split(begin)
            return False
        self.turns.append(Turn(slot, side, direction, data, base, end, base + at, whole - begin, under_way))
        return True

    def messages(self) -> Messages:
        """The whole messages of all turns."""
        return Messages(self.frames, [turn.frames for turn in self.turns])


class TurnCounts(NamedTuple):
    """`Counts` of each turn; of one without messages `last` is anything."""

    messages: Int64
    frames: Int64
    octets: Int64
    headers: Int64
    last: Int64


class Messages:
    """Whole messages of several turns: message i is made of the frames `first[i]..last[i]`, of which there are columns.

    Of turn k are the messages from `edges[k]` up to `edges[k + 1]`, and the frames of `frame_edges` likewise.
    """

    def __init__(self, frames: FrameColumns, counts: list[int]) -> None:
        self.offsets, self.bodies, self.sizes, self.flags = [as_array(column) for column in columns_of(frames)]
        self.last: Int64 = ((self.flags & MORE) == 0).nonzero()[0]
        self.first = np.empty_like(self.last)
        self.first[:1], self.first[1:] = 0, self.last[:-1] + 1
        self.frame_edges: Int64 = np.array([0, *counts]).cumsum()
        self.edges: Int64 = self.last.searchsorted(self.frame_edges)

    def counts(self) -> TurnCounts:
        """What each turn has, as columns."""
        messages, frames = np.diff(self.edges), np.diff(self.frame_edges)
        octets, headers = self.sums_of_frames(self.sizes), self.sums_of_frames(self.bodies - self.offsets)
        last: Int64 = np.append(self.offsets[self.first], 0)[self.edges[1:] - 1]
        return TurnCounts(messages, frames, octets, headers, last)

    def sums_of_frames(self, values: Int64) -> Int64:
        """The sums of what each frame has, by turn."""
        sums: Int64 = np.diff(np.append(0, values.cumsum())[self.frame_edges])
        return sums

    def any_of(self, chosen: Bool) -> Bool:
        """Which turns have messages that were chosen."""
        found: Bool = np.diff(np.append(0, chosen.cumsum())[self.edges]) > 0
        return found

    def spread(self, values: Iterable[int]) -> Int64:
        """A value of each turn, for each message."""
        spread: Int64 = np.array(list(values), np.int64).repeat(np.diff(self.edges))
        return spread


class Rows:
    """When the messages of turns came: ordinals of the segments that made them decidable, packets and times of their
    first and of their last octets."""

    def __init__(self, messages: Messages, turns: list[Turn], arrived: Arrived) -> None:
        self.messages = messages
        first, last = messages.first, messages.last
        shift = messages.spread(arrived.shifts[[turn.direction for turn in turns]].tolist())
        _, self.packets, self.times = arrived.segments_at(messages.offsets[first] + shift)
        stops = messages.bodies[last] + messages.sizes[last]
        orders, self.packet_ends, self.time_ends = arrived.segments_at(stops - 1 + shift)
        self.orders = np.maximum(orders, messages.spread(turn.side.settled for turn in turns))
        begins = messages.spread(messages.frame_edges[:-1].tolist())
        self.first, self.last = first - begins, last - begins
        self.complete = np.ones(len(first), np.bool_)
        self.edges: list[int] = messages.edges.tolist()
        self.frame_edges: list[int] = messages.frame_edges.tolist()

    def runs_of(self, number: int, turn: Turn, texts: Bool | None) -> list[MessageRun]:
        """The messages of a turn, which has some; `texts` says of all messages which are plain text."""
        messages, side = self.messages, turn.side
        low, high = self.edges[number], self.edges[number + 1]
        rows, frames = slice(low, high), slice(self.frame_edges[number], self.frame_edges[number + 1])
        start = side.start_of_held(int(messages.offsets[frames.start]))
        if start is not None:
            _, self.packets[low], self.times[low] = start
        run = MessageRun(
            stream=side.stream,
            regime=side.regime,
            confidence=side.confidence,
            data=turn.data,
            base=turn.base,
            offsets=messages.offsets[frames],
            bodies=messages.bodies[frames],
            sizes=messages.sizes[frames],
            flags=messages.flags[frames],
            end=turn.end,
            pieces=None,
            version=side.version,
            socket_type=side.regime.socket_type,
            peer_socket_type=side.peer_socket_type,
            first=self.first[rows],
            last=self.last[rows],
            complete=self.complete[rows],
            orders=self.orders[rows],
            packets=self.packets[rows],
            times=self.times[rows],
            packet_ends=self.packet_ends[rows],
            time_ends=self.time_ends[rows],
            texts=texts[rows] if texts is not None and texts[rows].any() else None,
        )
        return list(cut_large(run, side.limit))
