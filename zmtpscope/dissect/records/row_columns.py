"""The rows of runs as columns, by the field names of `zmtpscope.records`: fields of all rows, and of frame rows.

A column is made on demand, once, over all runs together, so short runs cost almost nothing. Outputs and filters read
columns and derive nothing. Fields are derived from arrays, which runs provide here, and packed rows in
`zmtpscope.store.columns`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect.records.batch import FrameRun, MessageRun, rows_in_order
from zmtpscope.dissect.records.columns import Booleans, Column, Int64, Integers, JoinedOctets, Words
from zmtpscope.records import SCHEMA
from zmtpscope.zmtp.framing import MORE

R = TypeVar("R", MessageRun, FrameRun)

STREAM_NUMBERS = ("conn", "side", "src_port", "dst_port")
"""Fields of a stream that are numbers; all others are text."""

Derive = Callable[[Any], Column]
"""Makes one column of the rows."""


class FieldColumns:
    """Columns by field name, like `columns["offset"]`, made on first access."""

    derive: Mapping[str, Derive]
    """Functions that make the columns, by field name."""

    def __init__(self) -> None:
        self._made: dict[str, Column] = {}

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Column:
        """Return the column of a field."""
        column = self._made.get(name)
        if column is None:
            column = self._made[name] = self.derive[name](self)
        return column

    def same(self, word: Any) -> Words:
        """Return a column with the same word in every row."""
        return Words([word], np.zeros(len(self), np.int8))


class RowColumns(FieldColumns, Generic[R]):
    """The rows of runs. Row i is row `row_of[i]` of `runs[run_of[i]]`.

    There is at least one run. Packet references index `files`. Attributes are the arrays from which fields are derived.
    Arrays of frames are joined over all runs; `first` and `last` index them.
    """

    def __init__(self, runs: Sequence[R], run_of: Int64, row_of: Int64, files: Sequence[str | None]) -> None:
        super().__init__()
        self.runs: Sequence[R] = runs
        self.run_of = run_of
        self.row_of = row_of
        self.files = files

    @classmethod
    def of_run(cls, run: R, files: Sequence[str | None] = ()) -> Self:
        """Return the rows of one run."""
        count = len(run.orders)
        return cls([run], np.zeros(count, np.int64), np.arange(count), files)

    def __len__(self) -> int:
        return len(self.run_of)

    def values(self, row: int) -> dict[str, Any]:
        """Return every field of one row."""
        return {name: self[name][row] for name in self.derive}

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every field of each row, in order."""
        names = list(self.derive)
        for values in zip(*[self[name].tolist() for name in names], strict=True):
            yield dict(zip(names, values, strict=True))

    # -- arrays of runs ------------------------------------------------------------------------------------------------

    def joined(self, name: str) -> NDArray[Any]:
        """Return an array of all runs, joined."""
        arrays: list[NDArray[Any]] = [getattr(run, name) for run in self.runs]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def of_runs(self, value_of: Callable[[R], Any]) -> NDArray[Any]:
        """Return a value of the run of each row."""
        values = np.array([value_of(run) for run in self.runs])
        return values[self.run_of]

    @cached_property
    def places(self) -> Int64:
        """Index of each row among the joined rows of all runs."""
        counts = np.cumsum([len(run.orders) for run in self.runs])
        places: Int64 = np.append(0, counts[:-1])[self.run_of] + self.row_of
        return places

    def of_rows(self, name: str) -> NDArray[Any]:
        """Return a row array of the runs, in the order of rows."""
        return self.joined(name)[self.places]

    @cached_property
    def frame_counts(self) -> Int64:
        """Number of frames in each run."""
        return np.array([len(run.offsets) for run in self.runs])

    @cached_property
    def frames_before(self) -> Int64:
        """Number of frames in the runs before each run."""
        return np.cumsum(self.frame_counts) - self.frame_counts

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
        """The octets kept of all runs."""
        return JoinedOctets([run.data for run in self.runs])

    @cached_property
    def packets(self) -> Int64:
        return self.of_rows("packets")

    @cached_property
    def times(self) -> Int64:
        return self.of_rows("times")

    @cached_property
    def first(self) -> Int64:
        """The first frame of each row."""
        first: Int64 = self.frames_before[self.run_of] + self.row_of
        return first

    @cached_property
    def last(self) -> Int64:
        """The last frame of each row."""
        return self.first

    @cached_property
    def lengths(self) -> Int64:
        """Number of captured octets of each row, from the header of its first frame on."""
        # sizes can be up to 2^63-1: limit them before adding anything
        bodies = self.bodies[self.last]
        there = np.minimum(self.sizes[self.last], self.of_runs(lambda run: run.end) - bodies)
        lengths: Int64 = bodies + there - self.offsets[self.first]
        return lengths

    # -- fields that rows share, and first frames ----------------------------------------------------------------------

    def of_stream(self, name: str) -> Column:
        """Return a field that all rows of a stream share."""
        values = [getattr(run.stream, name) for run in self.runs]
        if name not in STREAM_NUMBERS:
            return Words(values, self.run_of)
        if None not in values:
            return Integers(np.array(values, np.int64)[self.run_of])
        known = np.array([value is not None for value in values])
        return Integers(np.array([value or 0 for value in values], np.int64)[self.run_of], known[self.run_of])

    def word_of_run(self, name: str) -> Words:
        """Return a word that all rows of a run share."""
        return Words([getattr(run, name) for run in self.runs], self.run_of)

    def of_regimes(self, name: str) -> NDArray[Any]:
        """Return a number or truth value of the regime of each row."""
        return self.of_runs(lambda run: getattr(run.regime, name))

    def of_first_frames(self, name: str) -> Int64:
        """Return `offsets`, `sizes` or `flags` of the first frame of each row."""
        column: Int64 = getattr(self, name)[self.first]
        return column


def file_name(name: str | None) -> str | None:
    """Return a file name as text. Octets that are not UTF-8 become escapes."""
    return name if name is None or name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def file(columns: Any) -> Words:
    """`file`. Few different names occur, next to each other."""
    index = columns.packets >> FILE_SHIFT
    low, high = (int(index.min()), int(index.max())) if len(index) else (0, 0)
    return Words([file_name(name) for name in columns.files[low : high + 1]], index - low)


def of_stream(name: str) -> Derive:
    """Return a function that makes the column of a field that all rows of a stream share."""
    return lambda columns: columns.of_stream(name)


def word_of_run(name: str) -> Derive:
    """Return a function that makes the column of a word that all rows of a run share."""
    return lambda columns: columns.word_of_run(name)


def common(record: str) -> dict[str, Derive]:
    """Return the functions for the fields of `COMMON` and `STREAM`, in their order."""
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


class FrameRowColumns(RowColumns[FrameRun]):
    """The rows of frame runs, one per frame."""

    @classmethod
    def of(cls, runs: Sequence[FrameRun], files: Sequence[str | None]) -> Self:
        """Return the rows of some runs, in record order."""
        order = rows_in_order(runs)
        return cls(order.runs, order.run_of, order.row_of, files)

    @property
    def message_offsets(self) -> Int64:
        """Offset of the message of each frame."""
        return self.of_rows("messages")

    def long(self) -> Booleans:
        """`long`: whether the size was written in eight octets, even if it is small. Sealing between header and body
        does not count as header."""
        longest = self.of_runs(lambda run: run.longest_short_header)
        return Booleans(self.bodies[self.first] - self.offsets[self.first] > longest)


FrameRowColumns.derive = {
    **common("frame"),
    "flags": lambda columns: Integers(columns.of_first_frames("flags") & 0xFF),
    "more": lambda columns: Booleans((columns.of_first_frames("flags") & MORE) != 0),
    "long": FrameRowColumns.long,
    "size": lambda columns: Integers(columns.of_first_frames("sizes")),
    "message": lambda columns: Integers(columns.message_offsets),
}
