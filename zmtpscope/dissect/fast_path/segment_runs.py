"""The messages of all sides that the fast path reads in a block, as one table.

A run is the data of one side in the block. Frames, messages and arrival times of all runs are columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zmtpscope.dissect.fast_path.carrying_rows import CarryingRows, arrival_in, behind
from zmtpscope.dissect.fast_path.plain_frames import scan
from zmtpscope.dissect.fast_path.side_states import SideStates
from zmtpscope.dissect.fast_path.sides import LARGEST_PLACE, MAX_OPEN, PlainSide
from zmtpscope.dissect.records.columns import Bool, Int64, numbers
from zmtpscope.dissect.records.message_columns import NO_TOPIC
from zmtpscope.dissect.records.tables import MessageTable, Sender
from zmtpscope.dissect.stream import assembly
from zmtpscope.dissect.stream.assembly import FRAME_WEIGHT, KNOWN_SIZES
from zmtpscope.dissect.stream.runs import cut_large
from zmtpscope.zmtp.framing import MORE


class SegmentRuns:
    """The plain frames of many sides; run k is the data of one side in a block.

    - `slots[k]`, `directions[k]`: the index of the side in `SideStates`, and its direction in the block
    - `data[k]`: its octets, kept and new, up to stream offset `ends[k]`
    - `positions[k]`: stream offset of its first header that was not read
    - `frames`: four rows (offset, body, size, flags); run k has the frames `edges[k]` up to `edges[k + 1]`, first those
      of its incomplete message
    - `others`: the runs that contain anything but plain frames; their frames are left out
    """

    def __init__(self, side_states: SideStates, carrying: CarryingRows, directions: Int64, slots: Int64) -> None:
        self.side_states = side_states
        self.slots, self.directions = slots, directions
        held = side_states.held
        self.data: list[bytes] = [
            held[slot] + octets if slot in held else octets
            for slot, octets in zip(slots.tolist(), carrying.octets(directions), strict=True)
        ]
        self.ends = carrying.stream_ends(directions)
        bases = self.ends - np.array(list(map(len, self.data)), np.int64)
        found, before = scan(self.data, side_states.position[slots] - bases), side_states.open[slots]
        is_other = ~found.is_plain | (found.places > LARGEST_PLACE) | (before + found.counts >= assembly.MAX_FRAMES)
        self.others = is_other.nonzero()[0]
        self.positions: Int64 = bases + np.minimum(found.places, LARGEST_PLACE + 1)
        frames, counts = found.frames, found.counts
        if len(self.others):
            frames = frames[:, ~is_other.repeat(counts)]
            counts[is_other] = before[is_other] = 0
        frames[:2] += bases.repeat(counts)
        self.edges: Int64 = cumulated(before + counts)
        self.frames = frames
        if before.any():
            self.frames = np.empty((4, int(self.edges[-1])), np.int64)
            self.frames[:, numbers(self.edges[:-1] + before, counts)] = frames
            self._put_carried(before)

    def _put_carried(self, before: Int64) -> None:
        """Insert the frames of messages that began in earlier blocks.

        `before` is the number of such frames for each side.
        """
        carries, side_states = before > 0, self.side_states
        self.frames[:, (self.edges[:-1] + before - 1)[carries]] = side_states.frame[:, self.slots[carries]]
        several = before > 1
        if several.any():
            frames = [side_states.frames[slot] for slot in self.slots[several].tolist()]
            places = numbers(self.edges[:-1][several], before[several] - 1)
            self.frames[:, places] = np.concatenate(frames, axis=1)


def cumulated(values: Int64 | Bool) -> Int64:
    """Return the running sums, starting with 0: `[2, 3] -> [0, 2, 5]`."""
    sums = np.zeros(len(values) + 1, np.int64)
    np.cumsum(values, out=sums[1:])
    return sums


def differences(values: Int64) -> Int64:
    return values[1:] - values[:-1]


class RunCounts(NamedTuple):
    """The `Counts` of the messages of each side in a block; `last` is 0 for a side without messages."""

    messages: Int64
    frames: Int64
    octets: Int64
    headers: Int64
    last: Int64


class Messages:
    """The complete messages of all runs; run k is the data of one side in a block.

    Message i has the frames `first[i]..last[i]`, which are in columns. Run k has the messages `edges[k]` up to `edges[k
    + 1]`, and the frames `frame_edges[k]` up to `frame_edges[k + 1]`. Its incomplete message has `open[k]` frames;
    `open_first` and `open_last` are the first and the last of them (columns: offset, body, size, flags).
    """

    def __init__(self, runs: SegmentRuns) -> None:
        self.runs = runs
        self.slots, self.directions = runs.slots, runs.directions
        self.ends, self.positions = runs.ends, runs.positions
        self._all, edges = runs.frames, runs.edges
        whole = self._whole_frames(edges)
        self.open: Int64 = edges[1:] - edges[:-1] - whole
        is_open = self.open > 0
        self.open_last = np.zeros((4, len(whole)), np.int64)
        self.open_first = np.zeros((4, len(whole)), np.int64)
        self._begins_open = edges[:-1] + whole
        if is_open.any():
            self.open_last[:, is_open] = self._all[:, edges[1:][is_open] - 1]
            self.open_first[:, is_open] = self._all[:, self._begins_open[is_open]]
        self.frame_edges: Int64 = cumulated(whole)
        frames = self._all[:, numbers(edges[:-1], whole)] if is_open.any() else self._all
        self.offsets, self.bodies, self.sizes, self.flags = frames
        self.last: Int64 = ((self.flags & MORE) == 0).nonzero()[0]
        self.first = np.empty_like(self.last)
        self.first[:1], self.first[1:] = 0, self.last[:-1] + 1
        self.edges: Int64 = self.last.searchsorted(self.frame_edges)
        self.counts = self._count()

    def _whole_frames(self, edges: Int64) -> Int64:
        ends = (self._all[3] & MORE) == 0
        has_frames = edges[1:] > edges[:-1]
        ends[edges[1:][has_frames & (self.positions > self.ends)] - 1] = False  # the last body is incomplete
        behind_end = np.where(ends, np.arange(1, len(ends) + 1), 0)
        whole = np.zeros(len(edges) - 1, np.int64)
        if len(ends):
            begins = edges[:-1][has_frames]
            whole[has_frames] = np.maximum(np.maximum.reduceat(behind_end, begins) - begins, 0)
        return whole

    def __len__(self) -> int:
        return len(self.last)

    def open_frames(self, runs: Int64) -> list[Int64]:
        """Return for each of these sides the frames of its incomplete message, except the last frame."""
        begins = self._begins_open[runs]
        edges = zip(begins.tolist(), (begins + self.open[runs] - 1).tolist(), strict=True)
        return [self._all[:, begin:end].copy() for begin, end in edges]

    @cached_property
    def joined(self) -> tuple[bytes, Int64]:
        """The octets of all sides joined, and for each frame the index in them minus its stream offset."""
        lengths = np.array([0, *map(len, self.runs.data)])
        shifts = lengths.cumsum()[:-1] - (self.ends - lengths[1:])
        return b"".join(self.runs.data), shifts.repeat(differences(self.frame_edges))

    @property
    def too_long(self) -> Int64:
        return (self.open > MAX_OPEN).nonzero()[0]

    def _count(self) -> RunCounts:
        octets, headers = self.sums_of_frames(self.sizes), self.sums_of_frames(self.bodies - self.offsets)
        messages, last = differences(self.edges), np.zeros(len(self.slots), np.int64)
        has_messages = messages > 0
        last[has_messages] = self.offsets[self.first[self.edges[1:][has_messages] - 1]]
        return RunCounts(messages, differences(self.frame_edges), octets, headers, last)

    def sums_of_frames(self, values: Int64) -> Int64:
        return differences(cumulated(values)[self.frame_edges])

    def any_of(self, chosen: Bool) -> Bool:
        found: Bool = self.count_of(chosen) > 0
        return found

    def count_of(self, chosen: Bool) -> Int64:
        return differences(cumulated(chosen)[self.edges])

    def last_of(self, chosen: Bool) -> Int64:
        """Return the last of the chosen messages of each side; any message for a side without a chosen one.

        At least one message must be chosen.
        """
        places: Int64 = chosen.nonzero()[0]
        return places[places.searchsorted(self.edges[1:]) - 1]

    def spread(self, values: Iterable[int] | Int64) -> Int64:
        """Repeat a value of each side for each of its messages."""
        column = values if isinstance(values, np.ndarray) else np.array(list(values), np.int64)
        spread: Int64 = column.repeat(self.counts.messages)
        return spread


class Rows:
    """Arrival of messages: the segments that complete them, and packets and times of first and last octets."""

    def __init__(
        self, messages: Messages, carrying: CarryingRows, texts: Bool | None, json: Bool | None, topics: Int64
    ) -> None:
        self.messages = messages
        self.texts, self.json = texts, json
        side_states, slots = messages.runs.side_states, messages.slots
        first, last = messages.first, messages.last
        shift = messages.spread(carrying.shifts[messages.directions])
        starts = messages.offsets[first]
        _, self.packets, self.times = carrying.segments_at(starts + shift)
        stops = messages.bodies[last] + messages.sizes[last]
        orders, self.packet_ends, self.time_ends = carrying.segments_at(stops - 1 + shift)
        self.orders = np.maximum(orders, messages.spread(side_states.settled[slots]))
        # the first message of a run may have begun before the block
        goes_on = (messages.counts.messages > 0) & (side_states.open[slots] > 0)
        rows = messages.edges[:-1][goes_on]
        _, self.packets[rows], self.times[rows] = side_states.start[:, slots[goes_on]]
        headless = (messages.counts.messages > 0) & ~goes_on
        headless[headless] = starts[messages.edges[:-1][headless]] < carrying.begins[messages.directions[headless]]
        for run in headless.nonzero()[0].tolist():
            row = int(messages.edges[run])
            arrival = arrival_in(side_states.pieces_of(int(messages.slots[run])), int(starts[row]))
            self.packets[row], self.times[row] = arrival.packet, arrival.time
        self.topics = topics
        """Topic sizes of messages, if known here."""

    def table_of(self, runs: Sequence[int], sides: Sequence[PlainSide], *, are_undissected: bool) -> MessageTable:
        """Return a table of the messages of some sides; `runs` are the indexes of their data in the block.

        Each must have messages. `are_undissected`: the messages need no payload dissector.
        """
        messages, data, ends = self.messages, self.messages.runs.data, self.messages.ends.tolist()
        senders = []
        for run, side in zip(runs, sides, strict=True):
            octets, end = data[run], ends[run]
            senders.append(
                Sender(
                    stream=side.stream,
                    regime=side.regime,
                    confidence=side.confidence,
                    data=octets,
                    base=end - len(octets),
                    end=end,
                    version=side.version,
                    socket_type=side.regime.socket_type,
                    peer_socket_type=side.peer_socket_type,
                )
            )
        chosen = np.array(runs)
        counts = messages.counts.messages[chosen]
        rows: slice | Int64 = slice(None)
        frames: slice | Int64 = slice(None)
        first, last = messages.first, messages.last
        if int(counts.sum()) < len(messages):
            rows = numbers(messages.edges[:-1][chosen], counts)
            of_turns, begins = messages.counts.frames[chosen], messages.frame_edges[:-1][chosen]
            frames = numbers(begins, of_turns)
            shifts = (begins - cumulated(of_turns)[:-1]).repeat(counts)
            first, last = first[rows] - shifts, last[rows] - shifts
        texts = self.texts[rows] if self.texts is not None and are_undissected else None
        json = self.json[rows] if self.json is not None and are_undissected else None
        topics = self.topics[rows]
        table = MessageTable(
            senders=senders,
            sender_of=None if len(senders) == 1 else np.arange(len(senders)).repeat(counts),
            offsets=messages.offsets[frames],
            bodies=messages.bodies[frames],
            sizes=messages.sizes[frames],
            flags=messages.flags[frames],
            first=first,
            last=last,
            complete=np.ones(len(first), np.bool_),
            orders=self.orders[rows],
            packets=self.packets[rows],
            times=self.times[rows],
            packet_ends=self.packet_ends[rows],
            time_ends=self.time_ends[rows],
            topics=topics if (topics != NO_TOPIC).any() else None,
            texts=texts if texts is not None and texts.any() else None,
            json=json if json is not None and json.any() else None,
        )
        return cut_large(table, sides[0].limit)


def store_progress(messages: Messages, carrying: CarryingRows, chosen: Int64) -> None:
    """Store how far the sides have been read in this block. `chosen` are the indexes of sides in `messages`."""
    side_states, slots, directions = messages.runs.side_states, messages.slots[chosen], messages.directions[chosen]
    ends, positions, opened = messages.ends[chosen], messages.positions[chosen], messages.open[chosen]
    before, shifts, last_rows = carrying.begins[directions], carrying.shifts[directions], carrying.last_rows[directions]
    awaited = side_states.awaited_from[slots]
    has_come = (awaited >= 0) & (awaited < ends)
    if has_come.any():
        found = carrying.segments_at((awaited + shifts)[has_come])
        side_states.awaited[:, slots[has_come]], side_states.awaited_from[slots[has_come]] = found, -1
    _note_sizes(messages, chosen, slots)
    _note_under_way(messages, carrying, chosen)
    # segments of the unread octets
    first = np.minimum(positions, ends)
    rows = np.minimum(carrying.places.searchsorted(first + shifts, "right"), last_rows)
    several = (first < before) | (rows < last_rows)
    old = {place: side_states.pieces_of(int(slots[place])) for place in several.nonzero()[0].tolist()}
    begins = np.where(rows > carrying.first_rows[directions], carrying.starts_of_rows[rows] - shifts, before)
    for slot in side_states.pieces.keys() & set(slots.tolist()) if side_states.pieces else ():
        del side_states.pieces[slot]
    begins_before = side_states.begin_of[slots]
    side_states.begin_of[slots], side_states.end[slots], side_states.position[slots] = begins, ends, positions
    side_states.piece[:, slots] = carrying.segments[:, last_rows]
    for place, pieces in old.items():
        direction, needed = int(directions[place]), int(first[place])
        begin, kept = int(begins[place]), carrying.pieces(direction, int(rows[place]))
        if needed < before[place]:
            still = behind(pieces, needed)
            begin = pieces[-len(still) - 1][0] if len(still) < len(pieces) else int(begins_before[place])
            kept = still + carrying.pieces(direction, carrying.bounds[direction])
        side_states.came(int(slots[place]), begin, kept)
    # held octets
    keeps = (opened > 0) & (side_states.keeps[slots] != 0)
    sizes = np.maximum(ends - np.where(keeps, messages.open_first[0, chosen], first), 0)
    held, data = side_states.held, messages.runs.data
    for run, slot, size in zip(chosen.tolist(), slots.tolist(), sizes.tolist(), strict=True):
        if size:
            octets = data[run]
            held[slot] = octets[len(octets) - size :]
        elif slot in held:
            del held[slot]
    side_states.memory[slots] = sizes + FRAME_WEIGHT * opened


def _note_sizes(messages: Messages, chosen: Int64, slots: Int64) -> None:
    """Store the sizes of the last frames of complete messages, and count messages.

    `chosen` are the sides, by their index in `messages`; `slots` are their indexes in `SideStates`.
    """
    side_states, counts = messages.runs.side_states, messages.counts
    frames = counts.frames[chosen]
    known = np.minimum(frames, KNOWN_SIZES)
    last = numbers(messages.frame_edges[1:][chosen] - known, known)
    places = numbers(side_states.counts[1, slots] + frames - known, known) % KNOWN_SIZES
    side_states.sizes[places, slots.repeat(known)] = messages.sizes[last]
    has_messages = counts.messages[chosen] > 0
    side_states.counts[-1, slots[has_messages]] = counts.last[chosen[has_messages]]
    side_states.counts[:-1, slots] += [column[chosen] for column in counts[:-1]]


def _note_under_way(messages: Messages, carrying: CarryingRows, chosen: Int64) -> None:
    """Store the incomplete messages of the sides `chosen`, and the segments of their octets."""
    side_states, slots = messages.runs.side_states, messages.slots[chosen]
    opened, before_open = messages.open[chosen], side_states.open[slots]
    is_open = opened > 0
    side_states.open[slots] = opened
    for slot in side_states.frames.keys() & set(slots.tolist()) if side_states.frames else ():
        del side_states.frames[slot]
    if not is_open.any():
        return
    is_new = is_open & ((messages.counts.messages[chosen] > 0) | (before_open == 0))
    has_more = is_new | (is_open & (opened > before_open))
    directions = messages.directions[chosen]
    before, shifts = carrying.begins[directions], carrying.shifts[directions]
    begin, (offset, body, size, _) = messages.open_first[0, chosen], messages.open_last[:, chosen]
    stops = body + np.minimum(size, messages.ends[chosen] - body) - 1
    for column, places, notes in (
        (side_states.start, begin, is_new),
        (side_states.frame_start, offset, has_more),
        (side_states.frame_end, stops, is_open & (stops >= before)),
    ):
        came = notes & (places >= before)
        column[:, slots[came]] = carrying.segments_at((places + shifts)[came])
        for place in (notes & (places < before)).nonzero()[0].tolist():
            column[:, slots[place]] = arrival_in(side_states.pieces_of(int(slots[place])), int(places[place]))
    side_states.frame[:, slots[is_open]] = messages.open_last[:, chosen[is_open]]
    several = opened > 1
    side_states.frames.update(zip(slots[several].tolist(), messages.open_frames(chosen[several]), strict=True))
