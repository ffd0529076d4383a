"""The results of the analyser: records, and tables of messages and frames.

A `Batch` holds the results of one block of packets: `MessageTable`s (columns, a row per message) and `Record`s (all
others). Record order is by the packet that completed a record, then connection, side and stream offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.facts import Fact
from zmtpscope.dissect.records.tables import (
    FrameTable,
    MessageTable,
    PacketSlice,
    begins_of,
    senders_of_rows,
    table_and_row,
    tables_and_rows,
)
from zmtpscope.record_fields import COMMON
from zmtpscope.records import SCHEMA, empty_own
from zmtpscope.zmtp.reader import FieldNode
from zmtpscope.zmtp.regime import Regime


class Segments(NamedTuple):
    """The positions of segments in files.

    `runs` has a column for each run of consecutive segments of one side; `places` has a column for each segment;
    `octets` are those that no file has.
    """

    runs: Int64
    """Columns: side (`side_number`), stream offset of the first octet, number of segments."""
    places: Int64
    """Columns: octets, packet reference (0: a hole), file offset (`capture.packets.NOWHERE`: in no file), and octets of
    the packet before and after the segment."""
    octets: bytes
    """Octets of the segments that are in no file."""


def side_number(conn: int | None, side: int | None) -> int:
    return (conn or 0) << 1 | (side or 0)


class Unit(NamedTuple):
    """The octets of one greeting, command or frame, from which the field tree can be made.

    `regime` is how to parse them, `slices` are the packets that carried them. Without a regime, `tree` is set.
    """

    regime: Regime | None
    offset: int
    octets: bytes
    slices: list[PacketSlice]
    tree: FieldNode | None = None


Order = tuple[int, int, int, int, int, int]
"""(ordinal, conn, side, source, offset, rank); records.md, "Order", explains it."""

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
    """Fields that several records share. `made` caches outputs of these fields."""

    __slots__ = ("made",)

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.made: dict[object, Any] = {}


_NO_STREAM = (None,) * len(Stream._fields)
_COMMON = tuple(field.name for field in COMMON)


@dataclass(slots=True, eq=False)
class Record:
    """One record that is neither message nor frame.

    `stream` contains the fields of its connection or flow, if any; `own` the fields that only its type has. Records may
    share `own`, so it must not be changed.
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
        stream = None if values["conn_id"] is None else Stream(*map(values.__getitem__, Stream._fields))
        own = {name: values[name] for name in empty_own(type_)}
        return cls(type_, order, stream, values["ts_ns"], values["file"], values["packet"], own, unit)

    @property
    def values(self) -> dict[str, Any]:
        """All fields of the record, in the order of `zmtpscope.records`."""
        if self._values is None:
            self._values = {**dict(zip(_COMMON, self.common, strict=True)), **self.own}
        return self._values

    @property
    def common(self) -> tuple[Any, ...]:
        conn, conn_id, side, *ends = self.stream or _NO_STREAM
        return SCHEMA, self.type, conn, conn_id, side, self.ts_ns, self.file, self.packet, *ends


class Arrangement(NamedTuple):
    """A batch in record order: messages as columns, and the records and frames between them.

    Message i is row `places[i]` of all `tables` together. Each (place, item, index) of `between` comes before message
    `place`: a record (index -1), or the row `index` of a table of frames.
    """

    tables: list[MessageTable]
    places: Int64
    between: list[tuple[int, Record | FrameTable, int]]


@dataclass(slots=True, eq=False)
class Batch:
    """The records that one block of packets completed.

    - `files`: names of the capture files, which packet references index
    - `records`, and the rows of each sender, are in record order
    - `facts`: for callers that compare connections themselves
    - `segments`: if an index is requested, segments of this and earlier blocks on connections that speak ZMTP
    - `until`: the end of the capture (ns) in the last batch of a run, otherwise 0
    """

    files: list[str | None]
    messages: list[MessageTable] = field(default_factory=list)
    frames: list[FrameTable] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    segments: list[Segments] = field(default_factory=list)
    until: int = 0

    def by_sender(self) -> Iterator[MessageTable]:
        for table in self.messages:
            yield from table.by_sender()

    def of_type(self, type_: str) -> Batch:
        if type_ == "message":
            return Batch(self.files, messages=[*self.messages])
        if type_ == "frame":
            return Batch(self.files, frames=[*self.frames])
        return Batch(self.files, records=[each for each in self.records if each.type == type_])

    def in_order(self) -> Iterator[tuple[Record | MessageTable | FrameTable, int]]:
        """Yield (record, -1), or (table, index of a row), in record order."""
        for item, low, high in self.ranges():
            for index in range(low, high):
                yield item, index

    def ranges(self) -> Iterator[tuple[Record | MessageTable | FrameTable, int, int]]:
        """Yield consecutive rows of a table together: (table, low, high) with `high` excluded, or (record, -1, 0)."""
        tables, places, between = self.arranged()
        table_of, row_of = tables_and_rows(tables, places)
        cuts = np.ones(len(places) + 1, np.bool_)
        cuts[1:-1] = (table_of[1:] != table_of[:-1]) | (row_of[1:] != row_of[:-1] + 1)
        cuts[[place for place, _, _ in between]] = True
        begins = np.flatnonzero(cuts)
        ranges = zip(
            begins[:-1].tolist(),
            table_of[begins[:-1]].tolist(),
            row_of[begins[:-1]].tolist(),
            np.diff(begins).tolist(),
            strict=True,
        )
        at = 0
        for begin, table, row, count in ranges:
            while at < len(between) and between[at][0] == begin:
                yield between[at][1], between[at][2], between[at][2] + 1
                at += 1
            yield tables[table], row, row + count
        for _, item, index in between[at:]:
            yield item, index, index + 1

    def arranged(self) -> Arrangement:
        tables: list[MessageTable | FrameTable] = [*self.messages, *self.frames]
        places, ordinals = rows_in_order(tables)
        begins = begins_of(tables)

        def order_at(row: int) -> Order:
            return _order_of_row(*table_and_row(tables, begins, int(places[row])), int(ordinals[row]))

        records = sorted(self.records, key=order_of_record)
        decided = np.array([record.order[0] for record in records], np.int64)
        in_front, highs = (np.searchsorted(ordinals, decided, side).tolist() for side in ("left", "right"))
        for at, (record, low, high) in enumerate(zip(records, in_front, highs, strict=True)):
            if low < high:  # rows decided by the same segment
                in_front[at] = low + bisect_left(range(low, high), record.order, key=order_at)
        between: list[tuple[int, Record | FrameTable, int]]
        between = [(place, record, -1) for place, record in zip(in_front, records, strict=True)]
        if self.frames:
            is_message = places < begins[len(self.messages)]
            for row in np.flatnonzero(~is_message).tolist():
                frames, index = table_and_row(tables, begins, int(places[row]))
                assert isinstance(frames, FrameTable)
                between.append((row, frames, index))
            between.sort(key=lambda each: (each[0], each[2]))
            moved = np.append(0, np.cumsum(is_message)).tolist()
            between = [(moved[place], item, index) for place, item, index in between]
            places = places[is_message]
        return Arrangement([*self.messages], places, between)


def rows_in_order(tables: Sequence[MessageTable | FrameTable]) -> tuple[Int64, Int64]:
    """Return the indexes that put the rows of all tables in record order, and their ordinals."""
    if not tables:
        nothing = np.empty(0, np.int64)
        return nothing, nothing
    orders = tables[0].orders if len(tables) == 1 else np.concatenate([table.orders for table in tables])
    by_order = np.argsort(orders, kind="stable")
    sorted_orders = orders[by_order]
    senders = senders_of_rows(tables)[by_order]
    if ((sorted_orders[1:] == sorted_orders[:-1]) & (senders[1:] != senders[:-1])).any():  # decided by one segment
        keys = [(*sender.place, _rank(table)) for table in tables for sender in table.senders]
        conn, side, source, rank = np.array(keys)[senders].T
        offsets = np.concatenate([_row_offsets(table) for table in tables])[by_order]
        by_order = by_order[np.lexsort((rank, offsets, source, side, conn, sorted_orders))]
    return by_order, sorted_orders


def order_of_record(record: Record) -> tuple[Order, str]:
    """Return a sort key for the order of records.

    Findings about one thing are sorted by id, since the size of blocks can change the order in which they are made.
    """
    return record.order, record.own["id"] if record.type == "finding" else ""


def _rank(table: MessageTable | FrameTable) -> int:
    return RANKS["message" if isinstance(table, MessageTable) else "frame"]


def _row_offsets(table: MessageTable | FrameTable) -> Int64:
    return table.offsets[table.first] if isinstance(table, MessageTable) else table.offsets


def _order_of_row(table: MessageTable | FrameTable, row: int, ordinal: int) -> Order:
    frame = int(table.first[row]) if isinstance(table, MessageTable) else row
    return ordinal, *table.sender_at(row).place, int(table.offsets[frame]), _rank(table)
