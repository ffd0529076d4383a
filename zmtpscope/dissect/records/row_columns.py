"""The rows of tables as columns, by field name: the fields that messages and frames share, and those of frames.

A column is made once, on demand, for all sides together. Fields are derived from arrays, which are made here from
tables, and in `zmtpscope.store.columns` from packed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.records.batch import Batch, rows_in_order
from zmtpscope.dissect.records.columns import Bool, Booleans, Column, Int64, Integers, JoinedOctets, Words
from zmtpscope.dissect.records.tables import FrameTable, MessageTable, Sender, begins_of, senders_of_rows, table_and_row
from zmtpscope.records import SCHEMA
from zmtpscope.zmtp.framing import MORE

R = TypeVar("R", MessageTable, FrameTable)

STREAM_NUMBERS = ("conn", "side", "src_port", "dst_port")
"""Numeric fields of a stream; all others are text."""

Derive = Callable[[Any], Column]

NOTHING: Int64 = np.empty(0, np.int64)


class FieldColumns:
    """Columns by field name, made on first access. `derive` has a function for each available field."""

    derive: Mapping[str, Derive]

    def __init__(self) -> None:
        self._made: dict[str, Column] = {}

    def __len__(self) -> int:
        raise NotImplementedError

    @property
    def times(self) -> Int64:
        """The field `ts_ns` as an array."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Column:
        column = self._made.get(name)
        if column is None:
            column = self._made[name] = self.derive[name](self)
        return column

    def same(self, word: Any) -> Words:
        """Return a column with the same word in every row."""
        return Words([word], np.zeros(len(self), np.int8))


class RowColumns(FieldColumns, Generic[R]):
    """The rows of several tables as columns of fields: row i is row `places[i]` of all `tables` together.

    `files` are the names of the capture files. Arrays of frames are joined over all tables; `first` and `last` are the
    frames of each row.
    """

    def __init__(self, tables: Sequence[R], places: Int64, files: Sequence[str | None]) -> None:
        super().__init__()
        self.tables: Sequence[R] = tables
        self.places = places
        self.files = files

    @classmethod
    def of_table(cls, table: R, files: Sequence[str | None] = ()) -> Self:
        return cls([table], np.arange(len(table)), files)

    def __len__(self) -> int:
        return len(self.places)

    def alone(self, row: int) -> R:
        table, place = table_and_row(self.tables, self.begins, int(self.places[row]))
        return table.take(np.array([place]))

    def values(self, row: int) -> dict[str, Any]:
        return {name: self[name][row] for name in self.derive}

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the fields of each row."""
        names = list(self.derive)
        for values in zip(*[self[name].tolist() for name in names], strict=True):
            yield dict(zip(names, values, strict=True))

    # -- arrays of tables ----------------------------------------------------------------------------------------------

    def joined(self, name: str) -> NDArray[Any]:
        arrays: list[NDArray[Any]] = [getattr(table, name) for table in self.tables]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else NOTHING

    @cached_property
    def begins(self) -> list[int]:
        """The index of the first row of each table in all tables together, and of the end."""
        return begins_of(self.tables)

    @cached_property
    def senders(self) -> list[Sender]:
        return [sender for table in self.tables for sender in table.senders]

    @cached_property
    def senders_in_tables(self) -> Int64:
        return senders_of_rows(self.tables) if self.tables else NOTHING

    @cached_property
    def sender_of(self) -> Int64:
        sender_of: Int64 = self.senders_in_tables[self.places]
        return sender_of

    def of_each(self, value_of: Callable[[Sender], Any]) -> NDArray[Any]:
        return np.array([value_of(sender) for sender in self.senders])

    def of_senders(self, value_of: Callable[[Sender], Any]) -> NDArray[Any]:
        return self.of_each(value_of)[self.sender_of] if self.tables else NOTHING

    @cached_property
    def frame_senders(self) -> Int64:
        return self.senders_in_tables

    def of_rows(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self.joined(name)[self.places]
        return column

    @cached_property
    def offsets(self) -> Int64:
        return self.joined("offsets")

    @cached_property
    def bodies(self) -> Int64:
        return self.joined("bodies")

    @cached_property
    def sizes(self) -> Int64:
        return self.joined("sizes")

    @cached_property
    def flags(self) -> Int64:
        return self.joined("flags")

    @cached_property
    def octets(self) -> JoinedOctets:
        return JoinedOctets([sender.data for sender in self.senders])

    @cached_property
    def packets(self) -> Int64:
        return self.of_rows("packets")

    @cached_property
    def times(self) -> Int64:
        return self.of_rows("times")

    @cached_property
    def first(self) -> Int64:
        return self.places

    @cached_property
    def last(self) -> Int64:
        return self.first

    @cached_property
    def lengths(self) -> Int64:
        """Captured octets of each row, from the header of its first frame on."""
        # sizes can be up to 2^63-1: limit them before adding anything
        bodies = self.bodies[self.last]
        there = np.minimum(self.sizes[self.last], self.of_senders(lambda sender: sender.end) - bodies)
        lengths: Int64 = bodies + there - self.offsets[self.first]
        return lengths

    # -- octets --------------------------------------------------------------------------------------------------------

    @cached_property
    def bases(self) -> Int64:
        """For each frame, the stream offset of the sender's first kept octet."""
        bases: Int64 = self.of_each(lambda sender: sender.base)[self.frame_senders]
        return bases

    @cached_property
    def stops(self) -> Int64:
        """For each frame, the stream offset after the sender's last kept octet."""
        stops: Int64 = self.of_each(lambda sender: sender.base + len(sender.data))[self.frame_senders]
        return stops

    @cached_property
    def are_there(self) -> Bool:
        """For each frame, whether the first body octet was kept. An empty body counts as kept."""
        are_there: Bool = (self.bodies >= self.bases) & ((self.bodies < self.stops) | (self.sizes == 0))
        return are_there

    @cached_property
    def starts(self) -> Int64:
        """Index of each frame's body in `octets`.

        For a body that was not kept, it is the nearer end of its sender's octets.
        """
        begins, ends = self.octets.begins[self.frame_senders], self.octets.ends[self.frame_senders]
        starts: Int64 = np.clip(self.bodies + (begins - self.bases), begins, ends)
        return starts

    # -- fields that rows share, and first frames ----------------------------------------------------------------------

    def of_stream(self, name: str) -> Column:
        """Return a field of connections, such as `src_ip`, which all rows of a sender share."""
        values, sender_of = [getattr(sender.stream, name) for sender in self.senders], self.sender_of
        if name not in STREAM_NUMBERS:
            return Words(values, sender_of)
        if None not in values:
            return Integers(np.array(values, np.int64)[sender_of])
        known = np.array([value is not None for value in values])
        return Integers(np.array([value or 0 for value in values], np.int64)[sender_of], known[sender_of])

    def word_of_sender(self, name: str) -> Words:
        return Words([getattr(sender, name) for sender in self.senders], self.sender_of)

    def of_regimes(self, name: str) -> NDArray[Any]:
        """Return for each row an attribute of its sender's `Regime` (version, framing, phase): a number or truth
        value."""
        return self.of_senders(lambda sender: getattr(sender.regime, name))

    def of_first_frames(self, name: str) -> Int64:
        column: Int64 = getattr(self, name)[self.first]
        return column


def file_name(name: str | None) -> str | None:
    return name if name is None or name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def file(columns: Any) -> Words:
    """Return the file name of each row; octets that are not UTF-8 become escapes."""
    index = columns.packets >> FILE_SHIFT
    low, high = (int(index.min()), int(index.max())) if len(index) else (0, 0)
    return Words([file_name(name) for name in columns.files[low : high + 1]], index - low)


def of_stream(name: str) -> Derive:
    return lambda columns: columns.of_stream(name)


def word_of_sender(name: str) -> Derive:
    return lambda columns: columns.word_of_sender(name)


def common(record: str) -> dict[str, Derive]:
    """Return functions for the fields that records of this type share with other types, in field order.

    Each function returns the column of a field (`COMMON`, `STREAM`).
    """
    return {
        "schema": lambda columns: Integers(np.full(len(columns), SCHEMA)),
        "record": lambda columns: columns.same(record),
        "conn": of_stream("conn"),
        "conn_id": of_stream("conn_id"),
        "side": of_stream("side"),
        "ts_ns": lambda columns: Integers(columns.times),
        "file": file,
        "packet": lambda columns: Integers(columns.packets & PACKET_MASK),
        "src_ip": of_stream("src_ip"),
        "src_port": of_stream("src_port"),
        "dst_ip": of_stream("dst_ip"),
        "dst_port": of_stream("dst_port"),
        "source": lambda columns: Integers(columns.of_regimes("source")),
        "offset": lambda columns: Integers(columns.of_first_frames("offsets")),
        "length": lambda columns: Integers(columns.lengths),
    }


class FrameRowColumns(RowColumns[FrameTable]):
    @classmethod
    def of(cls, batch: Batch) -> Self:
        return cls(batch.frames, rows_in_order(batch.frames)[0], batch.files)

    @property
    def message_offsets(self) -> Int64:
        return self.of_rows("messages")

    def long(self) -> Booleans:
        """Return whether the size of each frame takes eight octets on the wire."""
        longest = self.of_senders(lambda sender: sender.longest_short_header)
        return Booleans(self.bodies[self.first] - self.offsets[self.first] > longest)


FrameRowColumns.derive = {
    **common("frame"),
    "flags": lambda columns: Integers(columns.of_first_frames("flags") & 0xFF),
    "more": lambda columns: Booleans((columns.of_first_frames("flags") & MORE) != 0),
    "long": FrameRowColumns.long,
    "size": lambda columns: Integers(columns.of_first_frames("sizes")),
    "message": lambda columns: Integers(columns.message_offsets),
}
