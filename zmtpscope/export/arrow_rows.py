"""Message and frame rows as Arrow columns, over all runs of a batch at once and without an object per row.

`MESSAGE_COLUMNS` and `FRAME_COLUMNS` make each column of `zmtpscope.records` from numpy columns; what they hold is what
`zmtpscope.export.values.record_values` says of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import FrameRun, MessageRun, Options
from zmtpscope.dissect.records.batch import HEAD_KEPT
from zmtpscope.dissect.records.rows import (
    KINDS,
    NO_TOPIC,
    NOTHING_INSIDE,
    TEXT_INSIDE,
    is_enveloped,
    payload_kinds,
    payload_values,
    topic_sizes,
)
from zmtpscope.export.arrow_arrays import column_array, value_array
from zmtpscope.export.values import as_base64, file_name
from zmtpscope.payloads.values import LONGEST_SUMMARY
from zmtpscope.records import SCHEMA, to_text
from zmtpscope.zmtp.events import ENCRYPTED, MARKED, SPECIAL
from zmtpscope.zmtp.framing import MORE

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

UNLIMITED = 2**64 - 1

WORD = pa.dictionary(pa.int32(), pa.string())
"""Text of which a block has few different values. Rows hold its place among them, which is quicker to make and to
write than text; written to a file it is text like any other."""

_OF_ALL_ROWS = frozenset({"record", "conn_id", "file", "src_ip", "dst_ip"})
WORDS = {
    "message": _OF_ALL_ROWS | {"bodies_kept", "version", "socket_type", "peer_socket_type", "kind", "confidence"},
    "frame": _OF_ALL_ROWS,
}
"""The columns that hold words, of the record types that are rows."""

R = TypeVar("R", MessageRun, FrameRun)


class Rows(Generic[R]):
    """The rows of many runs. Columns that runs have are joined run by run; `order` brings rows of that kind into the
    order of the schema: row i of the table is row `order[i]` of the joined columns."""

    def __init__(self, runs: Sequence[R], files: Sequence[str | None]) -> None:
        self.runs: list[R] = sorted(runs, key=lambda run: (run.stream.conn, run.stream.side or 0, run.source))
        self.files = files
        self.count = sum(len(run.orders) for run in self.runs)
        # runs are sorted by connection, side and source, and rows of a run by offset: what is left is the packet
        self.order = np.argsort(self.joined("orders"), kind="stable")
        self.run_of = np.repeat(np.arange(len(self.runs)), [len(run.orders) for run in self.runs])[self.order]

    def joined(self, name: str) -> Any:
        """One column of all runs."""
        return np.concatenate([getattr(run, name) for run in self.runs])

    @cached_property
    def frames(self) -> Frames:
        """The frames of all runs."""
        return Frames(self)

    @cached_property
    def first(self) -> Int64:
        """The first frame of each row, in order."""
        return self.order

    @cached_property
    def last(self) -> Int64:
        """The last frame of each row, in order."""
        return self.order

    # -- columns -----------------------------------------------------------------------------------------------------

    def ints(self, values: Int64, known: Bool | None = None) -> pa.Array:
        """Integers, one a row in order; null where not `known`."""
        return column_array(values, None if known is None or known.all() else ~known)

    def same(self, value: Any, type_: pa.DataType) -> pa.Array:
        """The same value in every row."""
        return value_array([value], type_).take(column_array(np.zeros(self.count, np.int32)))

    def of_run(self, value_of: Callable[[R], int | None]) -> pa.Array:
        """Integers that all rows of a run share."""
        return value_array([value_of(run) for run in self.runs], pa.int64()).take(column_array(self.run_of))

    def words_of_run(self, value_of: Callable[[R], str | None]) -> pa.Array:
        """Words that all rows of a run share."""
        return self.words([value_of(run) for run in self.runs], self.run_of)

    def words(self, values: Sequence[str | None], index: NDArray[Any]) -> pa.Array:
        """Words: row i has `values[index[i]]`."""
        different: dict[str, int] = {}  # no value may be twice in a dictionary, nor null
        codes = [-1 if value is None else different.setdefault(value, len(different)) for value in values]
        same = len(set(codes)) == 1
        places = np.full(self.count, codes[0], np.int32) if same else np.array(codes, np.int32)[index]
        mask = places < 0 if -1 in codes else None
        return pa.DictionaryArray.from_arrays(column_array(places, mask), value_array(list(different), pa.string()))

    def file(self) -> pa.Array:
        """`file`: few different ones, next to each other."""
        index = (self.joined("packets") >> FILE_SHIFT)[self.order]
        low, high = int(index.min()), int(index.max())
        return self.words([file_name(name) for name in self.files[low : high + 1]], index - low)

    def length(self) -> pa.Array:
        """`length`: as far as the octets are there."""
        frames, last = self.frames, self.last
        bodies = frames.bodies[last]
        there = np.minimum(frames.sizes[last], np.array([run.end for run in self.runs])[self.run_of] - bodies)
        return self.ints(bodies + there - frames.offsets[self.first])


class Frames:
    """The frames of all runs, joined run by run: the columns of `Run`, and where their bodies are in the joined data.

    Body j is all of `data[starts[j] : starts[j] + held[j]]` that was kept; it is `there` if its first octet was.
    """

    def __init__(self, rows: Rows[Any]) -> None:
        runs = rows.runs
        self.offsets, self.bodies, self.sizes, self.flags = map(rows.joined, ("offsets", "bodies", "sizes", "flags"))
        self.data = runs[0].data if len(runs) == 1 else b"".join([run.data for run in runs])
        ends = np.cumsum([len(run.data) for run in runs])
        begins = np.concatenate(([0], ends[:-1]))
        of_run = np.repeat(np.arange(len(runs)), [len(run.offsets) for run in runs])
        begin, end = begins[of_run], ends[of_run]
        starts = self.bodies - np.array([run.base for run in runs])[of_run] + begin
        self.there: Bool = (starts >= begin) & ((starts < end) | (self.sizes == 0))
        self.starts = np.clip(starts, begin, end)
        self.held = np.where(self.there, np.minimum(self.sizes, end - self.starts), 0)

    def octets(self, starts: Int64, lengths: Int64, wanted: Int64) -> pa.Array:
        """The octets `starts[j] .. starts[j] + lengths[j]` for each j of `wanted`; `starts` increase.

        Cut at all these places the data is a column without gaps, every second value of which is wanted.
        """
        edges = np.empty(2 * len(starts), np.int64)
        edges[0::2] = starts
        edges[1::2] = starts + lengths
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(edges) - 1, buffers).take(column_array(2 * wanted))


class MessageRows(Rows[MessageRun]):
    """The rows of message runs."""

    def __init__(self, runs: Sequence[MessageRun], files: Sequence[str | None], options: Options) -> None:
        super().__init__(runs, files)
        self.options = options
        rows_before = np.cumsum([0, *[len(run.orders) for run in self.runs[:-1]]])
        self.row_of = self.order - rows_before[self.run_of]
        frames_before = np.cumsum([0, *[len(run.offsets) for run in self.runs[:-1]]])
        before = frames_before[self.run_of]
        self.first = self.joined("first")[self.order] + before
        self.last = self.joined("last")[self.order] + before

    @cached_property
    def special(self) -> Int64:
        """What else than data each message is: the bits of `SPECIAL`."""
        special: Int64 = self.frames.flags[self.first] & SPECIAL
        return special

    @cached_property
    def open(self) -> Bool:
        """Which messages are not encrypted."""
        is_open: Bool = self.special != ENCRYPTED
        return is_open

    @cached_property
    def counts(self) -> Int64:
        """How many frames each message has."""
        return self.last - self.first + 1

    def lists(self, counts: Int64, known: Bool, values: Callable[[Int64], pa.Array]) -> pa.Array:
        """A list a row: `values` of the first `counts` frames of each message; null where not `known`."""
        counts = np.where(known, counts, 0)
        edges = np.concatenate(([0], np.cumsum(counts)))
        mask = None if known.all() else column_array(~known)
        return pa.ListArray.from_arrays(
            column_array(edges.astype(np.int32)), values(numbers(self.first, counts)), mask=mask
        )

    def totals(self, values: NDArray[Any]) -> NDArray[Any]:
        """The sum over the frames of each message. (Frames lie side by side, so no sum of sizes reaches 2^64.)"""
        edges = np.concatenate((np.zeros(1, np.uint64), np.cumsum(values.astype(np.uint64))))
        return edges[self.last + 1] - edges[self.first]

    # -- columns -----------------------------------------------------------------------------------------------------

    def parts(self) -> pa.Array:
        return self.ints(self.counts, self.open)

    def sizes(self) -> pa.Array:
        frames = self.frames
        return self.lists(self.counts, self.open, lambda index: self.ints(frames.sizes[index]))

    @cached_property
    def kept(self) -> tuple[Int64, Bool, Bool]:
        """Octets of each frame's body that the row shows; whether it shows all of them, and any."""
        options, frames = self.options, self.frames
        lengths = frames.held
        if options.bodies == "head":
            lengths = np.minimum(lengths, options.head)
        elif options.bodies == "full":
            too_large = self.totals(frames.sizes) > min(options.body_limit, UNLIMITED)
            if too_large.any():
                lengths = lengths.copy()
                lengths[numbers(self.first[too_large], self.counts[too_large])] = 0
        wanted = self.open & (options.bodies != "none")
        whole = wanted & (self.totals(frames.there & (lengths == frames.sizes)) == self.counts)
        return lengths, whole, wanted & (whole | (self.totals(lengths) > 0))

    def bodies(self) -> pa.Array:
        lengths, _, some = self.kept
        starts = self.frames.starts
        return self.lists(self.counts, some, lambda index: self.frames.octets(starts, lengths, index))

    def bodies_kept(self) -> pa.Array:
        _, whole, some = self.kept
        return self.words(["none", "head", "full"], whole.astype(np.int8) + some)

    def envelope(self) -> pa.Array:
        """The frames in front of the first empty one, where the socket types tell of an envelope."""
        enveloped = np.array(list(map(is_enveloped, self.runs)))
        type_ = pa.list_(pa.string())
        if not enveloped.any():
            return pa.nulls(self.count, type_)
        frames = self.frames
        empty = np.flatnonzero(frames.sizes == 0)
        places = np.append(empty, len(frames.sizes))
        delimiter = places[np.searchsorted(empty, self.first)]
        known = enveloped[self.run_of] & (self.kind_codes == 0) & (delimiter < self.last)
        behind, first = np.where(known, delimiter, self.first), self.first
        whole = np.append(0, np.cumsum(frames.there & (frames.held == frames.sizes)))
        known &= whole[behind] - whole[first] == behind - first
        known &= frames.bodies[behind] - frames.offsets[first] <= HEAD_KEPT
        texts = lambda index: as_text(frames.octets(frames.starts, frames.held, index))  # noqa: E731
        return self.lists(delimiter - self.first, known, texts)

    def topic(self) -> pa.Array:
        """The octets at the beginning of the first frame that are the topic, behind the mark of subscriptions."""
        sizes = np.concatenate(list(map(topic_sizes, self.runs)))[self.order]
        known = sizes != NO_TOPIC
        if not known.any():
            return pa.nulls(self.count, pa.string())
        frames, first = self.frames, self.first[known]
        mark, lengths = np.zeros((2, len(frames.sizes)), np.int64)
        mark[first] = (frames.flags[first] & MARKED) != 0
        lengths[first] = sizes[known]
        texts = as_text(frames.octets(frames.starts + np.minimum(mark, frames.held), lengths, first))
        return texts.take(column_array(np.cumsum(known) - 1, ~known))

    @cached_property
    def kind_codes(self) -> NDArray[np.int8]:
        codes = np.zeros(self.count, np.int8)
        for bits, kind in KINDS.items():
            codes[self.special == bits] = KIND_CODES[kind]
        return codes

    def kind(self) -> pa.Array:
        return self.words(list(KIND_CODES), self.kind_codes)

    def payload(self) -> pa.Array:
        """What rides inside: texts as columns, the rest one by one."""
        inside = np.concatenate(list(map(payload_kinds, self.runs)))[self.order]
        if not inside.any():
            return pa.nulls(self.count, PAYLOAD)
        frames, last = self.frames, self.last
        texts: Bool = inside == TEXT_INSIDE
        short = texts & (frames.sizes[last] <= LONGEST_SUMMARY)
        lengths = np.where(frames.sizes <= LONGEST_SUMMARY, frames.held, 0)
        short_texts = frames.octets(frames.starts, lengths, last[short]).cast(pa.string())
        # row by row: long texts, and what dissectors made
        places = np.where(short, np.cumsum(short) - 1, -1)
        protocols, summaries = ["text"], list[str]()
        contents: list[str | None] = [None]
        protocol_of = np.where(texts, 0, -1)
        content_of = np.zeros(self.count, np.int64)
        for row in np.flatnonzero((inside != NOTHING_INSIDE) & ~short).tolist():
            values = payload_values(self.runs[int(self.run_of[row])], int(self.row_of[row]))
            if values is None:
                continue
            places[row] = len(short_texts) + len(summaries)
            summaries.append(values["summary"])
            if values["protocol"] not in protocols:
                protocols.append(values["protocol"])
            protocol_of[row] = protocols.index(values["protocol"])
            if values["fields"] is not None:
                content_of[row] = len(contents)
                contents.append(orjson.dumps(values["fields"], default=as_base64).decode())
        known = places >= 0
        missing = column_array(~known)
        arrays = [
            value_array(protocols, pa.string()).take(column_array(protocol_of, ~known)),
            pa.concat_arrays([short_texts, value_array(summaries, pa.string())]).take(column_array(places, ~known)),
            value_array(contents, pa.string()).take(column_array(content_of)),
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(PAYLOAD), mask=missing)


class FrameRows(Rows[FrameRun]):
    """The rows of frame runs: each is one frame."""

    def long(self) -> pa.Array:
        """`long`: what stands between the header and the body is no part of the header."""
        longest = np.array([run.longest_short_header for run in self.runs])[self.run_of]
        frames = self.frames
        return column_array((frames.bodies - frames.offsets)[self.order] > longest)


KIND_CODES = {kind: code for code, kind in enumerate(["data", *KINDS.values()])}

PAYLOAD = pa.struct([("protocol", pa.string()), ("summary", pa.string()), ("fields", pa.string())])


def numbers(first: Int64, counts: Int64) -> Int64:
    """`counts[i]` numbers from `first[i]` on, for every i."""
    ends = np.cumsum(counts)
    return np.repeat(first - ends + counts, counts) + np.arange(ends[-1])


def as_text(octets: pa.Array) -> pa.Array:
    """Octets as `to_text` has them: the same octets, unless one of the values has a backslash or is no UTF-8."""
    try:
        texts = octets.cast(pa.string())
        if not pc.any(pc.match_substring(texts, "\\")).as_py():
            return texts
    except pa.ArrowInvalid:
        pass
    different = octets.dictionary_encode()
    texts = [to_text(value) for value in different.dictionary.to_pylist()]
    return value_array(texts, pa.string()).take(different.indices)


def _number_of_stream(name: str) -> Callable[[Any], pa.Array]:
    return lambda rows: rows.of_run(lambda run: getattr(run.stream, name))


def _word_of_stream(name: str) -> Callable[[Any], pa.Array]:
    return lambda rows: rows.words_of_run(lambda run: getattr(run.stream, name))


def _word_of_run(name: str) -> Callable[[Any], pa.Array]:
    return lambda rows: rows.words_of_run(lambda run: getattr(run, name))


def _common(record: str) -> dict[str, Callable[[Any], pa.Array]]:
    return {
        "schema": lambda rows: rows.same(SCHEMA, pa.int64()),
        "record": lambda rows: rows.words([record], rows.run_of),
        "conn": _number_of_stream("conn"),
        "conn_id": _word_of_stream("conn_id"),
        "side": _number_of_stream("side"),
        "ts_ns": lambda rows: rows.ints(rows.joined("times")[rows.order]),
        "file": Rows.file,
        "packet": lambda rows: rows.ints(rows.joined("packets")[rows.order] & PACKET_MASK),
        "src_ip": _word_of_stream("src_ip"),
        "src_port": _number_of_stream("src_port"),
        "dst_ip": _word_of_stream("dst_ip"),
        "dst_port": _number_of_stream("dst_port"),
        "source": lambda rows: rows.of_run(lambda run: run.source),
        "offset": lambda rows: rows.ints(rows.frames.offsets[rows.first]),
        "length": Rows.length,
    }


MESSAGE_COLUMNS: dict[str, Callable[[MessageRows], pa.Array]] = {
    **_common("message"),
    "parts": MessageRows.parts,
    "sizes": MessageRows.sizes,
    "bodies": MessageRows.bodies,
    "bodies_kept": MessageRows.bodies_kept,
    "packet_end": lambda rows: rows.ints(rows.joined("packet_ends")[rows.order] & PACKET_MASK),
    "ts_end_ns": lambda rows: rows.ints(rows.joined("time_ends")[rows.order]),
    "version": _word_of_run("version"),
    "socket_type": _word_of_run("socket_type"),
    "peer_socket_type": _word_of_run("peer_socket_type"),
    "envelope": MessageRows.envelope,
    "topic": MessageRows.topic,
    "kind": MessageRows.kind,
    "decrypted": lambda rows: column_array(np.array([run.regime.opened for run in rows.runs])[rows.run_of]),
    "payload": MessageRows.payload,
    "complete": lambda rows: column_array(rows.joined("complete")[rows.order]),
    "confidence": _word_of_run("confidence"),
}

FRAME_COLUMNS: dict[str, Callable[[FrameRows], pa.Array]] = {
    **_common("frame"),
    "flags": lambda rows: rows.ints(rows.frames.flags[rows.order] & 0xFF),
    "more": lambda rows: column_array((rows.frames.flags[rows.order] & MORE) != 0),
    "long": FrameRows.long,
    "size": lambda rows: rows.ints(rows.frames.sizes[rows.order]),
    "message": lambda rows: rows.ints(rows.joined("messages")[rows.order]),
}
"""A column of each name in `zmtpscope.records`."""
