"""The results of the analyser: records in the order in which they become decidable, and message rows as columns.

A `Batch` holds the results of one block of packets: `MessageRun`s (columns, one row per message of one side) and
`Record`s (everything else, one small object each). `Batch.arranged()` sorts both into the order of the record schema:
by the packet that made a record decidable, then by connection, side and stream offset. `stretches()` and `in_order()`
iterate in this order.
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
from zmtpscope.records import COMMON, SCHEMA, empty_own
from zmtpscope.zmtp.content import LARGEST_AWAITED_TOPIC
from zmtpscope.zmtp.events import MARKED
from zmtpscope.zmtp.mechanisms.curve import SMALLEST_MESSAGE
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Framing, Regime

Int64 = NDArray[np.int64]

HEAD_KEPT = LARGEST_AWAITED_TOPIC + 64
"""Octets kept of a message that is not kept whole: its topic or envelope, and the headers before it."""

LONGEST_SHORT, LONGEST_SHORT_ZWS = 2, 9
"""Maximum header octets, with the flags octet, of a frame whose size is not written in eight octets."""


FRAME_COLUMNS = ("offsets", "bodies", "sizes", "flags")
"""Columns of a run with one value per frame."""


LATER = 0
"""Packet reference of octets whose packets are looked up in an index on demand."""


class PacketSlice(NamedTuple):
    """The stream octets `start..stop`, carried by the packet with the reference `packet`."""

    packet: int
    start: int
    stop: int


class Pieces(NamedTuple):
    """The packets of consecutive stream octets. Piece i ends before offset `ends[i]` and was carried by `packets[i]`
    (0: a hole); the first piece begins at `begin`."""

    begin: int
    ends: list[int]
    packets: list[int]

    def slices(self, start: int, stop: int) -> list[PacketSlice]:
        """Return the packets that carried the octets `start..stop`, in stream order."""
        found = []
        for place in range(bisect_right(self.ends, start), len(self.ends)):
            piece_start = self.ends[place - 1] if place else self.begin
            if piece_start >= stop:
                break
            if self.packets[place]:
                found.append(PacketSlice(self.packets[place], max(start, piece_start), min(stop, self.ends[place])))
        return found


class Unit(NamedTuple):
    """The octets of one greeting or frame and its regime, from which its field tree can be made again. Without a
    regime, `tree` is set."""

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
"""Order of records at the same position of a stream: wire events first, then records derived from them."""


class SharedFields(dict[str, Any]):
    """Fields that the records of equal events share. `made` caches what outputs make of these fields."""

    __slots__ = ("made",)

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.made: dict[object, Any] = {}


_NO_STREAM = (None,) * len(Stream._fields)
_COMMON = tuple(field.name for field in COMMON)


@dataclass(slots=True, eq=False)
class Record:
    """One record that is not a message row.

    `stream` contains the fields of its connection or flow; None without one. `own` contains the fields of its type in
    `zmtpscope.records` after the common ones. Records may share `own`, so it must not be changed.
    """

    type: str
    order: Order
    stream: Stream | None
    ts_ns: int
    file: str | None
    packet: int | None
    own: dict[str, Any]
    unit: Unit | None = None
    _values: dict[str, Any] | None = field(default=None, init=False)

    @classmethod
    def of(cls, type_: str, order: Order, values: dict[str, Any], unit: Unit | None = None) -> Record:
        """Return a record with these values of all fields."""
        stream = None if values["conn_id"] is None else Stream(*map(values.__getitem__, Stream._fields))
        own = {name: values[name] for name in empty_own(type_)}
        return cls(type_, order, stream, values["ts_ns"], values["file"], values["packet"], own, unit)

    @property
    def values(self) -> dict[str, Any]:
        """Every field of its type, in the order of `zmtpscope.records`."""
        if self._values is None:
            self._values = {**dict(zip(_COMMON, self.common, strict=True)), **self.own}
        return self._values

    @property
    def common(self) -> tuple[Any, ...]:
        """The fields of `COMMON`, in order."""
        conn, conn_id, side, *ends = self.stream or _NO_STREAM
        return SCHEMA, self.type, conn, conn_id, side, self.ts_ns, self.file, self.packet, *ends


@dataclass(slots=True, eq=False)
class Run:
    """Frames of one side, in stream order, as columns.

    The header of frame j is at stream offsets `offsets[j]..bodies[j]`, its body at `bodies[j]..bodies[j] + sizes[j]`.
    `data[0]` has stream offset `base`; body octets outside `data` were not kept. `flags` are those of
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
    """Stream offset after the last octet received. The last body may extend beyond it."""
    pieces: Pieces | None
    """Set only with `Options.details`."""
    has_stars: bool = field(default=False, kw_only=True)
    """Whether `data` has stars in place of passwords."""

    @property
    def sealing(self) -> int:
        """Octets of CURVE sealing between the header and the body of a frame."""
        return SMALLEST_MESSAGE if self.regime.opened else 0

    def length(self, first: int, last: int) -> int:
        """Return the number of captured octets from the header of frame `first` to the end of frame `last`."""
        body = int(self.bodies[last])
        return body + min(int(self.sizes[last]), self.end - body) - int(self.offsets[first])

    @property
    def source(self) -> int:
        """0 for the stream as it was sent, 1 for the decrypted and unmasked stream."""
        return self.regime.source

    @property
    def longest_short_header(self) -> int:
        """Maximum octets before a body whose size is not written in eight octets, with sealing."""
        return (LONGEST_SHORT_ZWS if self.regime.framing is Framing.ZWS else LONGEST_SHORT) + self.sealing

    def head(self, frame: int, limit: int | None = None) -> bytes | None:
        """Return the first octets of the body of `frame`, at most `limit`, or None if they were not kept."""
        start = int(self.bodies[frame]) - self.base
        size = int(self.sizes[frame])
        if start < 0 or (size and start >= len(self.data)):
            return None
        return self.data[start : start + (size if limit is None else min(size, limit))]


@dataclass(slots=True, eq=False)
class MessageRun(Run):
    """Messages of one side. Message i has the frames `first[i]..last[i]`, both included.

    The messages contain every frame of the run, in order, at least one. `orders` are the ordinals of the segments that
    made the messages decidable. `packets` and `times` are those of their first octets, `packet_ends` and `time_ends`
    those of their last.
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
    """Dissector results by message, except JSON that is not parsed yet (`made` parses it). None: no results."""
    texts: NDArray[np.bool_] | None = None
    """Whether each message without a result is plain text."""
    json: NDArray[np.bool_] | None = None
    """Whether each message without a result is JSON, still to be parsed."""
    topics: Int64 | None = None
    """Octets of each message's topic, at the start of its first frame (after the mark of a subscription); negative
    without a topic. None: no message has one."""

    def part(self, low: int, high: int) -> MessageRun:
        """Return the messages `low..high` (high excluded), at least one, as a run that shares the octets."""
        rows, begin = slice(low, high), int(self.first[low])
        frames = slice(begin, int(self.last[high - 1]) + 1)
        return self._of(rows, frames, self.first[rows] - begin, self.last[rows] - begin)

    def take(self, rows: Int64) -> MessageRun:
        """Return the messages `rows` (ascending, at least one) as a run that shares the octets."""
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
        """Return the dissector result of a message, parsing JSON if necessary. None for plain text, or without a
        result."""
        if self.json is not None and self.json[row]:
            from zmtpscope.payloads.json import dissected  # loaded only if used

            return dissected(self.head(int(self.last[row])) or b"")
        return None if self.payloads is None else self.payloads[row]

    def topic(self, row: int) -> bytes | None:
        """Return the topic of a message, or None."""
        size = -1 if self.topics is None else int(self.topics[row])
        if size < 0:
            return None
        frame = self.first[row]
        start = int(self.bodies[frame]) - self.base + bool(self.flags[frame] & MARKED)
        return self.data[start : start + size]


@dataclass(slots=True, eq=False)
class FrameRun(Run):
    """Single frames, made if frame records are wanted. `messages` are the offsets of their messages."""

    messages: Int64
    orders: Int64
    packets: Int64
    times: Int64

    def take(self, rows: Int64) -> FrameRun:
        """Return the frames `rows` (ascending, at least one) as a run that shares the octets."""
        names = (*FRAME_COLUMNS, "messages", "orders", "packets", "times")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


R = TypeVar("R", MessageRun, FrameRun)


class Arrangement(NamedTuple):
    """A batch in record order: message rows as columns, and the records and frame rows between them.

    Row i is row `row_of[i]` of `runs[run_of[i]]`. Each (place, item, index) of `between` precedes row `place`: a record
    (index -1), or a frame row.
    """

    runs: list[MessageRun]
    run_of: Int64
    row_of: Int64
    between: list[tuple[int, Record | FrameRun, int]]


@dataclass(slots=True, eq=False)
class Batch:
    """The records that one block made decidable. `files` are the file names that packet references index.

    The analyser adds `records`, and the rows of each run, in record order. `facts` are for callers that compare
    connections themselves; otherwise they have been evaluated. `segments`, if an index is wanted, are of connections
    that speak ZMTP, from this and earlier blocks. `until` is the end of the capture (ns) in the last batch of a run,
    otherwise 0.
    """

    files: list[str | None]
    runs: list[MessageRun] = field(default_factory=list)
    frame_runs: list[FrameRun] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    segments: list[Segments] = field(default_factory=list)
    until: int = 0

    def of_type(self, type_: str) -> Batch:
        """Return the records of one type, as a batch of them alone."""
        if type_ == "message":
            return Batch(self.files, runs=[*self.runs])
        if type_ == "frame":
            return Batch(self.files, frame_runs=[*self.frame_runs])
        return Batch(self.files, records=[each for each in self.records if each.type == type_])

    def in_order(self) -> Iterator[tuple[Record | MessageRun | FrameRun, int]]:
        """Yield every record in record order: (Record, -1), or a run and the index of its row."""
        for item, low, high in self.stretches():
            for index in range(low, high):
                yield item, index

    def stretches(self) -> Iterator[tuple[Record | MessageRun | FrameRun, int, int]]:
        """Yield the same, with consecutive message rows of a run together: (run, low, high) for its rows `low..high`
        (high excluded), or (Record, -1, 0)."""
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
        """Return the batch in record order, as columns."""
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
            if low < high:  # rows decided by the same segment
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
    """Rows in record order: row i is row `row_of[i]` of `runs[run_of[i]]`."""

    runs: list[R]
    run_of: Int64
    row_of: Int64


def rows_in_order(runs: Sequence[R]) -> RowOrder[R]:
    """Return the rows of runs of one kind in record order."""
    by_place: list[R] = sorted(runs, key=_place_of_run)
    run_of, row_of, _ = _rows_in_order(by_place, mixed=False)
    return RowOrder(by_place, run_of, row_of)


def _rows_in_order(runs: Sequence[MessageRun | FrameRun], *, mixed: bool) -> tuple[Int64, Int64, Int64]:
    """Return run, row and ordinal of every row in record order. Runs are sorted by side and rows by offset, so a stable
    sort by ordinal is enough, unless frames and messages are mixed."""
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
"""Place of datagrams in the order of connections: after all connections, by packet. Records that a datagram decides
have the same place."""


def place_of(stream: Stream) -> int:
    """Return the place of a connection, or of a datagram flow, in the order of records."""
    return DATAGRAMS if stream.conn is None else stream.conn


def order_of_record(record: Record) -> tuple[Order, str]:
    """Return the sort key of a record. Findings about one thing are sorted by id, since the order in which they are
    made depends on where blocks end."""
    return record.order, record.own["id"] if record.type == "finding" else ""


def _place_of_run(run: MessageRun | FrameRun) -> tuple[int, int, int, int]:
    """Return (conn, side, source, rank)."""
    rank = RANKS["message" if isinstance(run, MessageRun) else "frame"]
    return place_of(run.stream), run.stream.side or 0, run.source, rank


def _row_offsets(run: MessageRun | FrameRun) -> Int64:
    return run.offsets[run.first] if isinstance(run, MessageRun) else run.offsets


def _order_of_row(run: MessageRun | FrameRun, row: int, ordinal: int) -> Order:
    conn, side, source, rank = _place_of_run(run)
    frame = int(run.first[row]) if isinstance(run, MessageRun) else row
    return ordinal, conn, side, source, int(run.offsets[frame]), rank
