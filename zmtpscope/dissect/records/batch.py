"""What the analyser hands up: records as they become decidable, message rows as columns.

A `Batch` holds what one block of capture made decidable: `MessageRun`s (columns, one row per message of one side) and
`Record`s (everything else, one small object each). `Batch.arranged()` puts both into the order of the record schema:
by the packet that made a record decidable, then by connection, side and stream offset. `stretches()` and `in_order()`
walk it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import numbers
from zmtpscope.dissect.records.facts import Fact
from zmtpscope.dissect.records.segments import Segments
from zmtpscope.payloads.dissected import Dissected
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.events import MARKED
from zmtpscope.zmtp.mechanisms.curve import SMALLEST_MESSAGE
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Framing, Regime

Int64 = NDArray[np.int64]

HEAD_KEPT = LARGEST_AWAITED_TOPIC + 64
"""Octets of a message that is not kept whole which are kept: its topic or envelope, and the headers in front."""

LONGEST_SHORT, LONGEST_SHORT_ZWS = 2, 9
"""Octets of a header whose size is not written in eight octets, at most, the flags octet included."""


FRAME_COLUMNS = ("offsets", "bodies", "sizes", "flags")
"""What runs have of each frame."""


LATER = 0
"""Instead of a packet reference: which packets carried the octets is looked up in an index, when somebody asks."""


class PacketSlice(NamedTuple):
    """The stream octets `start..stop` came with the packet that the reference `packet` names."""

    packet: int
    start: int
    stop: int


class Pieces(NamedTuple):
    """How a stretch of one stream came: `ends[i]` is the offset behind the piece that `packets[i]` carried (0: a hole);
    the first piece begins at `begin`."""

    begin: int
    ends: list[int]
    packets: list[int]

    def slices(self, start: int, stop: int) -> list[PacketSlice]:
        """The packets that carried the octets `start..stop`, in stream order."""
        found = []
        for place in range(bisect_right(self.ends, start), len(self.ends)):
            piece_start = self.ends[place - 1] if place else self.begin
            if piece_start >= stop:
                break
            if self.packets[place]:
                found.append(PacketSlice(self.packets[place], max(start, piece_start), min(stop, self.ends[place])))
        return found


class Unit(NamedTuple):
    """The octets of one greeting or frame and the regime to read them under: enough to make its field tree again. What
    is read under no regime has its `tree`."""

    regime: Regime | None
    offset: int
    octets: bytes
    slices: list[PacketSlice]
    tree: FieldNode | None = None


Order = tuple[int, int, int, int, int, int]
"""(ordinal, conn, side, source, offset, rank): the order of records (records.md, "Order")."""

RANKS = {
    rank: place
    for place, rank in enumerate(
        (
            *("greeting", "command", "frame", "message", "datagram", "gap", "stall", "retransmission", "leftover"),
            *("finding", "zre_pair"),
            *("heartbeat", "subscription", "request", "connection", "peer", "topic", "delivery", "diagnosis"),
        )
    )
}
"""Ties at one place of one stream: what was read first, then what is said about it."""


@dataclass(slots=True, eq=False)
class Record:
    """One record that is not a message row. `values` has every field of its type in `zmtpscope.records`."""

    type: str
    order: Order
    values: dict[str, Any]
    unit: Unit | None = None


@dataclass(slots=True, eq=False)
class Run:
    """Frames of one side, in stream order, as columns.

    Frame j has header octets `offsets[j]..bodies[j]` and body octets `bodies[j]..bodies[j] + sizes[j]`, all stream
    offsets. `data[0]` has stream offset `base`; body octets outside `data` were not kept. `flags` are those of
    `zmtpscope.zmtp.events.FrameColumns`.
    """

    stream: Stream
    regime: Regime
    confidence: str
    data: bytes
    base: int
    offsets: Int64
    bodies: Int64
    sizes: Int64
    flags: Int64
    end: int
    """Stream offset behind the last octet that had come: a body that was announced may go on beyond it."""
    pieces: Pieces | None
    """Only where details were asked for."""
    has_stars: bool = field(default=False, kw_only=True)
    """Stars stand in `data` in place of passwords."""

    @property
    def sealing(self) -> int:
        """Octets that the seal of a frame takes between its header and its body."""
        return SMALLEST_MESSAGE if self.regime.opened else 0

    def length(self, first: int, last: int) -> int:
        """Octets from the header of the frame `first` to the last one of the frame `last` that is there."""
        body = int(self.bodies[last])
        return body + min(int(self.sizes[last]), self.end - body) - int(self.offsets[first])

    @property
    def source(self) -> int:
        """0 for the stream as it was sent, 1 for the one with its boxes opened and its masks taken off."""
        return self.regime.source

    @property
    def longest_short_header(self) -> int:
        """Octets in front of a body whose size is not written in eight octets, at most; with the seal, if there is
        one."""
        return (LONGEST_SHORT_ZWS if self.regime.framing is Framing.ZWS else LONGEST_SHORT) + self.sealing

    def head(self, frame: int, limit: int | None = None) -> bytes | None:
        """The octets of the body of `frame` from its first on, at most `limit`; None where that is not kept."""
        start = int(self.bodies[frame]) - self.base
        size = int(self.sizes[frame])
        if start < 0 or (size and start >= len(self.data)):
            return None
        return self.data[start : start + (size if limit is None else min(size, limit))]


@dataclass(slots=True, eq=False)
class MessageRun(Run):
    """Messages of one side: message i is made of the frames `first[i]..last[i]` (both included).

    The frames are those of these messages and no others, at least one: `first` begins with 0, each message where the
    one before ends, and `last` ends with the last frame. `orders` are the ordinals of the segments that made the
    messages decidable, `packets` and `times` those of their first octets, `packet_ends` and `time_ends` those of their
    last.
    """

    version: str | None
    socket_type: str | None
    peer_socket_type: str | None
    first: Int64
    last: Int64
    complete: NDArray[np.bool_]
    orders: Int64
    packets: Int64
    times: Int64
    packet_ends: Int64
    time_ends: Int64
    payloads: list[Dissected | None] | None = None
    """What dissectors have made of each message, where they made anything; `made` tells it."""
    texts: NDArray[np.bool_] | None = None
    """Which of the others are plain text: the last frame of each is."""
    json: NDArray[np.bool_] | None = None
    """Which of the others are JSON, likewise: of those it is not made yet what a dissector makes of them."""
    topics: Int64 | None = None
    """Octets of each message's topic, with which its first frame begins (behind the mark of a subscription); below zero
    where it has none. None: no message has one."""

    def part(self, low: int, high: int) -> MessageRun:
        """The messages `low..high` (high excluded), at least one, as a run of their own; the octets are shared."""
        rows, begin = slice(low, high), int(self.first[low])
        frames = slice(begin, int(self.last[high - 1]) + 1)
        return self._of(rows, frames, self.first[rows] - begin, self.last[rows] - begin)

    def take(self, rows: Int64) -> MessageRun:
        """The messages `rows`, which ascend, at least one, as a run of their own; the octets are shared."""
        first = self.first[rows]
        counts = self.last[rows] - first + 1
        ends = np.cumsum(counts)
        return self._of(rows, numbers(first, counts), ends - counts, ends - 1)

    def _of(self, rows: slice | Int64, frames: slice | Int64, first: Int64, last: Int64) -> MessageRun:
        columns: dict[str, Any] = {name: getattr(self, name)[frames] for name in FRAME_COLUMNS}
        for name in ("complete", "orders", "packets", "times", "packet_ends", "time_ends"):
            columns[name] = getattr(self, name)[rows]
        for name in ("texts", "json", "topics"):
            if (column := getattr(self, name)) is not None:
                columns[name] = column[rows]
        if self.payloads is not None:
            columns["payloads"] = (
                self.payloads[rows] if isinstance(rows, slice) else [self.payloads[row] for row in rows.tolist()]
            )
        return replace(self, first=first, last=last, **columns)

    def made(self, row: int) -> Dissected | None:
        """What a dissector makes of a message; None where that is nothing, and of plain text."""
        if self.json is not None and self.json[row]:
            from zmtpscope.payloads.json import dissected  # what nobody asks for is not loaded

            return dissected(self.head(int(self.last[row])) or b"")
        return None if self.payloads is None else self.payloads[row]

    def topic(self, row: int) -> bytes | None:
        """The topic of a message; None where it has none."""
        size = -1 if self.topics is None else int(self.topics[row])
        if size < 0:
            return None
        frame = self.first[row]
        start = int(self.bodies[frame]) - self.base + bool(self.flags[frame] & MARKED)
        return self.data[start : start + size]


@dataclass(slots=True, eq=False)
class FrameRun(Run):
    """Frames one by one, where frame records were asked for; `messages` are the offsets of their messages."""

    messages: Int64
    orders: Int64
    packets: Int64
    times: Int64

    def take(self, rows: Int64) -> FrameRun:
        """The frames `rows`, which ascend, at least one, as a run of their own; the octets are shared."""
        names = (*FRAME_COLUMNS, "messages", "orders", "packets", "times")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


R = TypeVar("R", MessageRun, FrameRun)


class Arrangement(NamedTuple):
    """A batch in the order of the schema: message rows as columns, and what stands between them.

    Row i is row `row_of[i]` of `runs[run_of[i]]`. (place, item, index) of `between` comes in front of row `place`: a
    record (index -1), or a frame row.
    """

    runs: list[MessageRun]
    run_of: Int64
    row_of: Int64
    between: list[tuple[int, Record | FrameRun, int]]


@dataclass(slots=True, eq=False)
class Batch:
    """What one block made decidable. `records` come in the order of the schema from an analyser, as do the rows of each
    run. `files` are the file names that packet references index. `facts` are for those who compare
    connections themselves; else they have been evaluated. `segments` are those of the block, and of earlier ones, on
    connections that speak ZMTP, where an index was asked for. `until` is when the capture ended (ns) in the last batch
    of a run, 0 in all others."""

    files: list[str | None]
    runs: list[MessageRun] = field(default_factory=list)
    frame_runs: list[FrameRun] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    segments: list[Segments] = field(default_factory=list)
    until: int = 0

    def in_order(self) -> Iterator[tuple[Record | MessageRun | FrameRun, int]]:
        """Every record of the batch in the order of the schema: (Record, -1), or a run and the index of its row."""
        for item, low, high in self.stretches():
            for index in range(low, high):
                yield item, index

    def stretches(self) -> Iterator[tuple[Record | MessageRun | FrameRun, int, int]]:
        """The same, with message rows of one run that follow each other taken together: (item, low, high) is a run and
        its rows `low..high` (high excluded), or (Record, -1, 0)."""
        runs, run_of, row_of, between = self.arranged()
        cuts = np.ones(len(run_of) + 1, np.bool_)
        cuts[1:-1] = (run_of[1:] != run_of[:-1]) | (row_of[1:] != row_of[:-1] + 1)
        cuts[[place for place, _, _ in between]] = True
        begins = np.flatnonzero(cuts)
        stretches = zip(
            begins[:-1].tolist(),
            run_of[begins[:-1]].tolist(),
            row_of[begins[:-1]].tolist(),
            np.diff(begins).tolist(),
            strict=True,
        )
        at = 0
        for begin, run, row, count in stretches:
            while at < len(between) and between[at][0] == begin:
                yield between[at][1], between[at][2], between[at][2] + 1
                at += 1
            yield runs[run], row, row + count
        for _, item, index in between[at:]:
            yield item, index, index + 1

    def arranged(self) -> Arrangement:
        """The order of the schema, as columns."""
        messages = sorted(self.runs, key=_place_of_run)
        frames = sorted(self.frame_runs, key=_place_of_run)
        runs: list[MessageRun | FrameRun] = [*messages, *frames]
        run_of, row_of, ordinals = _rows_in_order(runs, mixed=bool(frames))

        def order_at(place: int) -> Order:
            return _order_of_row(runs[run_of[place]], int(row_of[place]), int(ordinals[place]))

        records = sorted(self.records, key=order_of_record)
        decided = np.array([record.order[0] for record in records], np.int64)
        places, highs = (np.searchsorted(ordinals, decided, side).tolist() for side in ("left", "right"))
        for at, (record, low, high) in enumerate(zip(records, places, highs, strict=True)):
            if low < high:  # rows were decided by the same segment
                places[at] = low + bisect_left(range(low, high), record.order, key=order_at)
        between: list[tuple[int, Record | FrameRun, int]]
        between = [(place, record, -1) for place, record in zip(places, records, strict=True)]
        if self.frame_runs:
            is_message = run_of < len(messages)
            apart = np.flatnonzero(~is_message)
            for place, run, row in zip(apart.tolist(), run_of[apart].tolist(), row_of[apart].tolist(), strict=True):
                between.append((place, frames[run - len(messages)], row))
            between.sort(key=lambda each: (each[0], each[2]))
            run_of, row_of = run_of[is_message], row_of[is_message]
            moved = np.append(0, np.cumsum(is_message)).tolist()
            between = [(moved[place], item, index) for place, item, index in between]
        return Arrangement(messages, run_of, row_of, between)


class RowOrder(NamedTuple, Generic[R]):
    """Rows in the order of the schema: row i is row `row_of[i]` of `runs[run_of[i]]`."""

    runs: list[R]
    run_of: Int64
    row_of: Int64


def rows_in_order(runs: Sequence[R]) -> RowOrder[R]:
    """The rows of runs of one kind."""
    by_place: list[R] = sorted(runs, key=_place_of_run)
    run_of, row_of, _ = _rows_in_order(by_place, mixed=False)
    return RowOrder(by_place, run_of, row_of)


def _rows_in_order(runs: Sequence[MessageRun | FrameRun], *, mixed: bool) -> tuple[Int64, Int64, Int64]:
    """Run, row and ordinal of every row in order. Runs come sorted by side and their rows by offset, so a stable sort
    by ordinal is enough, unless frames stand between messages."""
    if not runs:
        nothing = np.empty(0, np.int64)
        return nothing, nothing, nothing
    counts = [len(run.orders) for run in runs]
    orders = np.concatenate([run.orders for run in runs])
    run_of = np.repeat(np.arange(len(runs)), counts)
    row_of = np.concatenate([np.arange(count) for count in counts])
    if mixed:
        offsets = np.concatenate([_row_offsets(run) for run in runs])
        places = np.array([_place_of_run(run) for run in runs])[run_of]
        by_order = np.lexsort((places[:, 3], offsets, places[:, 2], places[:, 1], places[:, 0], orders))
    else:
        by_order = np.argsort(orders, kind="stable")
    return run_of[by_order], row_of[by_order], orders[by_order]


DATAGRAMS = 1 << 62
"""Where in the order of connections come datagrams, and what they settle: behind the segment in front of them, each by
its packet."""


def place_of(stream: Stream) -> int:
    """The place of a connection, or of datagrams, among the others."""
    return DATAGRAMS if stream.conn is None else stream.conn


def order_of_record(record: Record) -> tuple[Order, str]:
    """The order of the schema; findings about one thing by their ids: which was made first depends on what came
    together."""
    return record.order, record.values["id"] if record.type == "finding" else ""


def _place_of_run(run: MessageRun | FrameRun) -> tuple[int, int, int, int]:
    """(conn, side, source, rank)."""
    rank = RANKS["message" if isinstance(run, MessageRun) else "frame"]
    return place_of(run.stream), run.stream.side or 0, run.source, rank


def _row_offsets(run: MessageRun | FrameRun) -> Int64:
    return run.offsets[run.first] if isinstance(run, MessageRun) else run.offsets


def _order_of_row(run: MessageRun | FrameRun, row: int, ordinal: int) -> Order:
    conn, side, source, rank = _place_of_run(run)
    frame = int(run.first[row]) if isinstance(run, MessageRun) else row
    return ordinal, conn, side, source, int(run.offsets[frame]), rank
