"""The store of a capture: append batches of records, and restore any of the records."""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.details import Detail, details
from zmtpscope.dissect.records.message_columns import columns_of_rows
from zmtpscope.dissect.records.tables import LATER
from zmtpscope.export.clock import Clock
from zmtpscope.export.details import OPENED
from zmtpscope.export.text import Look, detail_lines
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.conditions import (
    Compared,
    Comparison,
    Condition,
    Either,
    Every,
    FieldOperand,
    OneOf,
    Operand,
    Within,
)
from zmtpscope.filter.fields import FIELDS, FilterField
from zmtpscope.filter.filter import types_of
from zmtpscope.store.chunk import NUMBER_OF, Chunk, join, pack
from zmtpscope.store.counting import CountedMessages, messages_of
from zmtpscope.store.files import OctetsError, Spool
from zmtpscope.store.keeping import Keeping, Kept
from zmtpscope.store.lines import Lines
from zmtpscope.store.packed import Int64
from zmtpscope.store.packets import ShownPacket, make_trees, with_secrets, without_secrets
from zmtpscope.store.record_tables import PackedRecords
from zmtpscope.store.rows import PackedRows
from zmtpscope.store.seen import values_seen
from zmtpscope.store.segment_index import SegmentIndex
from zmtpscope.store.selecting import Selecting
from zmtpscope.store.sorting import SortKeys, ordered

SMALL = 8192
"""Smaller chunks are joined with their neighbours, because each takes some kB."""


AROUND = 1000
"""Records before and after a record in which findings about it are searched."""

REACH, MAX_UNITS = 8192, 4096
"""Records before and after a record that are searched for units in its packets, and maximum number of these units."""

IN_STREAM = ("greeting", "command", "message", "leftover")
"""Records with octets of a stream."""

OTHER_MECHANISMS, WITHOUT_MECHANISMS = ("NULL", "CURVE", "GSSAPI"), ("1.0", "2.0")
"""Mechanisms that send no password, and versions without mechanisms."""

UNITS = ("greeting", "command", "message")
"""Records of parsed octets."""

IDENTITY = ("conn_id", "side", "source", "offset", "record")
"""Parts of the identity of a record."""


class Store:
    """The records of one run, in order, numbered from 0.

    `options` are the options of the analysis. `spool` is a temporary file for octets. `first_time` is the time of the
    first packet; filters on the time since the start need it. One thread may append while others read, because appended
    data never change.
    """

    def __init__(self, options: Options, *, spool: Spool | None = None) -> None:
        self.options = options
        self.spool = spool or Spool()
        self.index = SegmentIndex(self.spool)
        self.problem: str | None = None
        """Reason why octets could not be read last time, as a sentence."""
        self.files: list[str | None] = []
        self.first_time: int | None = None
        self._chunks: tuple[tuple[Chunk, ...], tuple[int, ...]] = (), ()
        """Chunks, and the number of records before each."""
        self._count = 0
        self._kept_once: dict[bytes, int] = {}
        self._lines: Lines | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """How many octets of memory all columns and the index use."""
        return self.index.nbytes + sum(chunk.nbytes for chunk in self._chunks[0])

    # -- records in --------------------------------------------------------------------------------------------------

    def append(self, batch: Batch) -> int:
        """Append the records of a batch; return the number of records in the store.

        Raises `OctetsError` if there is no space for octets; earlier records stay, and no more may be appended.
        """
        self.files = batch.files
        self.index.append(batch.segments, batch.files, self._count)
        if not (batch.messages or batch.frames or batch.records):
            return self._count
        keeping = Keeping(self.spool, self._kept_once, is_indexed=self.options.index)
        chunk = pack(batch, self.options, keeping)
        keeping.end()
        chunks, begins = list(self._chunks[0]), list(self._chunks[1])
        chunks.append(chunk)
        begins.append(self._count)
        while len(chunks) > 1 and len(chunks[-2]) < SMALL and 2 * len(chunks[-1]) >= len(chunks[-2]):
            chunks[-2:] = [join(chunks[-2:])]
            begins.pop()
        self._chunks = tuple(chunks), tuple(begins)
        self._count += len(chunk)
        return self._count

    # -- records out -------------------------------------------------------------------------------------------------

    def batch(
        self, rows: Int64 | Sequence[int] | range | slice, *, octets: bool = True, details: bool = False
    ) -> Batch:
        """Return the records with the numbers `rows` as a batch, in order.

        Without `octets` there are no bodies and payloads. With `details`, field trees can be made. Every output of this
        batch equals the output of the analyser's batch. Missing octets are left out as if not kept, and `problem` has
        the reason.
        """
        if isinstance(rows, slice):
            rows = range(*rows.indices(self._count))
        numbers = np.unique(np.asarray(rows, np.int64))
        if len(numbers) and (numbers[0] < 0 or numbers[-1] >= self._count):
            raise IndexError(f"records are numbered from 0 to {self._count - 1}")
        whole = Batch(self.files)
        for chunk, begin, some in self._by_chunk(numbers):
            part = chunk.batch(some, self.files, self._kept(chunk, begin, octets=octets, details=details))
            whole.messages += part.messages
            whole.frames += part.frames
            whole.records += part.records
            if details:
                self._find_packets(part.records, begin + len(chunk) - 1)
        return whole

    def _find_packets(self, records: list[Record], count: int) -> None:
        for record in records:
            unit = record.unit
            if unit is not None and len(unit.slices) == 1 and unit.slices[0].packet == LATER:
                _, start, stop = unit.slices[0]
                stream = Stream(*[record.values[name] for name in Stream._fields])
                record.unit = unit._replace(slices=self.index.pieces(stream, start, stop, count).slices(start, stop))

    def _kept(self, chunk: Chunk, begin: int, *, octets: bool = True, details: bool = False) -> Kept:
        return Kept(self.spool, self.index, begin + len(chunk) - 1, self._remember_problem, octets, details)

    def _remember_problem(self, problem: str) -> None:
        self.problem = problem

    def times(self, rows: Int64) -> Int64:
        """Return the times (ns) by which records are in order: `ts_ns`, but of connections `end_ns`."""
        found = [np.empty(0, np.int64)]
        for chunk, _, some in self._by_chunk(rows):
            times = np.empty(len(some), np.int64)
            for kind, places in chunk.places(some):
                times[some.searchsorted(chunk.rows_of(kind)[places])] = ordering_times(chunk.tables[kind])[places]
            found.append(times)
        return np.concatenate(found)

    def messages(self, rows: Int64 | range) -> Iterator[CountedMessages]:
        """Yield the messages among sorted record numbers, one object per chunk."""
        for chunk, begin, some in self._by_chunk(np.asarray(rows, np.int64)):
            found = messages_of(chunk, some, begin, self.batch)
            if found is not None:
                yield found

    def others(self, rows: Int64 | range, types: Collection[str]) -> Iterator[tuple[int, Record]]:
        """Yield (number, record) for sorted record numbers; only records of these `types`, which are neither message
        nor frame."""
        wanted = [NUMBER_OF[name] for name in types]
        for chunk, begin, some in self._by_chunk(np.asarray(rows, np.int64)):
            found: list[tuple[int, Record]] = []
            for kind, places in chunk.places(some):
                if kind in wanted:
                    numbers = chunk.rows_of(kind)[places]
                    batch = chunk.batch(numbers, self.files, self._kept(chunk, begin, octets=False))
                    found += zip((numbers + begin).tolist(), batch.records, strict=True)
            yield from sorted(found, key=itemgetter(0))

    def row(self, number: int) -> dict[str, Any]:
        """Return all fields of a record by name, as in `zmtpscope.records`.

        Octets are bytes, and secrets are masked.
        """
        batch = self.batch([number if number >= 0 else self._count + number])
        columns = columns_of_rows(batch, self.options)
        return record_values(batch.records[0], self.options) if columns is None else columns.values(0)

    def line(self, number: int) -> str | None:
        """Return a record's line as `read` prints it after all earlier records, or None if it is not printed.

        The first call for a late record passes over all earlier records once.
        """
        number = number if number >= 0 else self._count + number
        return self.lines(number, number + 1)[0]

    def lines(self, low: int, high: int) -> list[str | None]:
        """Return the lines of the records `low..high` (high excluded); None for a record that is not printed."""
        if self._lines is None:
            clock = Clock("r", lambda: self.row(0)["ts_ns"] if self.first_time is None else self.first_time)
            self._lines = Lines(Look(clock, chat=True), self.options, self._batch_of)
        return self._lines.lines(low, min(high, self._count))

    def _batch_of(self, low: int, high: int, octets: bool) -> Batch:
        return self.batch(range(low, high), octets=octets)

    def details(self, number: int) -> list[Detail]:
        """Return octets, field trees and packets of a record: of its greeting, its command, or each of its frames.

        Secrets are asterisks. Empty for records without octets. Raises `OctetsError` if octets are missing.
        """
        item, index = self._item(number)
        found = details(item, index)
        if self.options.show_secrets:
            return [each._replace(secrets=()) for each in found]
        return list(map(without_secrets, found))

    def detail(self, number: int, *, tree: bool = True, hex: bool = True) -> list[str]:
        """Return the lines that `read -V -x` prints below a record: its field tree (`tree`) and octets (`hex`)."""
        look = Look(Clock("e", lambda: None), tree=tree, hex=hex)
        try:
            return list(detail_lines(*self._item(number), look, self.options))
        except OctetsError as error:
            return [f"    {error}\n"]

    def octets(self, number: int) -> bytes:
        """Return the stream octets of a record, including frame headers. Secrets are asterisks.

        Raises `OctetsError` if octets are missing.
        """
        return b"".join([each.octets for each in self.details(number) if each.source <= OPENED])

    def _item(self, number: int) -> tuple[Record | MessageTable | FrameTable, int]:
        """Return the record, or a table with the message or frame and its row in the table.

        Octets, packets and field trees are included.
        """
        self.problem = None
        batch = self.batch([number if number >= 0 else self._count + number], details=True)
        if self.problem is not None:
            raise OctetsError(self.problem)
        for run in batch.messages:
            make_trees(run, self.options)
            return run, 0
        for frames in batch.frames:
            return frames, 0
        return batch.records[0], -1

    def select(self, filter: Filter, rows: Int64 | None = None) -> Int64:
        """Return the numbers of the records that match `filter`, in order.

        If `rows` is given, only these sorted record numbers are examined.
        """
        return self._selected(filter.condition, rows)

    def find(self, reference: str, near: int = 0) -> int | None:
        """Return the number of the record with the identity `reference`, as in `refs` of findings.

        The identity of a frame finds its message if there are no frame records. The search starts at the record `near`.
        """
        parts = reference.split("/")
        if len(parts) != len(IDENTITY) or not all(each.isdecimal() for each in parts[1:4]):
            return None
        conn_id, record = parts[0], parts[4]
        side, source, offset = map(int, parts[1:4])
        of_stream = [equals("conn_id", conn_id), equals("side", side), equals("source", source)]
        found = self._nearest(Every((equals("record", record), *of_stream, equals("offset", offset))), near)
        if found is None and record == "frame":
            before = Compared(FieldOperand(FIELDS["offset"]), Comparison(operator.le, offset), is_all=False)
            messages = self._selected(Every((equals("record", "message"), *of_stream, before)))
            return int(messages[-1]) if len(messages) else None
        return found

    def connection(self, conn: int | None, near: int = 0) -> int | None:
        """Return the number of the record of a closed connection, or None. The search starts at the record `near`."""
        if conn is None:
            return None
        return self._nearest(Every((equals("record", "connection"), equals("conn", conn))), near)

    def findings_about(self, values: Mapping[str, Any], number: int) -> Int64:
        """Return the numbers of the findings about octets of a record, whose fields are `values`.

        Only the `AROUND` records before and after it are examined.
        """
        about = offset_within(values["offset"], values["offset"] + max(1, values["length"]) - 1)
        return self._around(number, equals("record", "finding"), about, *of_side(values))

    def unit_of(self, values: Mapping[str, Any], number: int) -> int | None:
        """Return the number of the greeting, command or message that contains the octets of a finding.

        `values` are the fields of the finding.
        """
        if values["offset"] is None:
            return None
        begins = Compared(FieldOperand(FIELDS["offset"]), Comparison(operator.le, values["offset"]), is_all=False)
        is_unit = Compared(FieldOperand(FIELDS["record"]), OneOf(tuple(map(equal_to, UNITS))), is_all=False)
        found = self._around(number, is_unit, begins, *of_side(values)).tolist()
        if not found:
            return None
        unit = self.row(found[-1])
        return found[-1] if values["offset"] < unit["offset"] + unit["length"] else None

    def packets(self, values: Mapping[str, Any], number: int, most: int) -> list[ShownPacket]:
        """Return at most `most` packets that first carried the octets of a record, whose fields are `values`.

        Packets that are not in a file are left out. Raises `OctetsError`.
        """
        if values.get("offset") is None or values["conn"] is None:
            return []
        stream = Stream(*[values[name] for name in Stream._fields])
        chunks, begins = self._chunks
        place = bisect_right(begins, number) - 1
        start, stop = values["offset"], values["offset"] + values["length"]
        found = self.index.whole_packets(stream, start, stop, begins[place] + len(chunks[place]) - 1, most)
        if self.options.show_secrets or not found:
            return [ShownPacket(packet, []) for packet in found]
        low, high = found[0].begin, found[-1].begin + found[-1].stop - found[-1].start
        are_units = Compared(FieldOperand(FIELDS["record"]), OneOf(tuple(map(equal_to, IN_STREAM))), is_all=False)
        inside, before = (
            self._around(number, are_units, *of_side(values), offset_within(*bounds), reach=REACH)
            for bounds in ((low, high - 1), (0, low - 1))
        )
        batch = self.batch(np.concatenate((before[-1:], inside[:MAX_UNITS])))
        shows_leftovers = self._has_no_passwords(values["conn"], number)
        return [with_secrets(packet, batch, shows_leftovers=shows_leftovers) for packet in found]

    def _has_no_passwords(self, conn: int, near: int) -> bool:
        connection = self.connection(conn, near)
        values = {} if connection is None else self.row(connection)
        return values.get("mechanism") in OTHER_MECHANISMS or values.get("version") in WITHOUT_MECHANISMS

    def _around(self, number: int, *conditions: Condition, reach: int = AROUND) -> Int64:
        return self._selected(Every(conditions), np.arange(max(0, number - reach), min(self._count, number + reach)))

    def _nearest(self, condition: Condition, near: int) -> int | None:
        """Return the first record that fulfils a condition, in the chunk nearest to the record `near` that has one."""
        chunks, begins = self._chunks
        middle = bisect_right(begins, near) - 1
        kinds = {NUMBER_OF[name] for name in types_of(condition)}
        having = [place for place, chunk in enumerate(chunks) if not kinds.isdisjoint(chunk.tables)]
        for place in sorted(having, key=lambda place: abs(place - middle)):
            begin = begins[place]
            for _, found in self._selecting(condition, np.arange(begin, begin + len(chunks[place]))):
                if len(found):
                    return int(found[0])
        return None

    def follow(self, *, conn: int | None = None, peer: str | None = None, topic: str | None = None) -> Int64:
        """Return the numbers of the records of one conversation.

        `conn` selects a connection, `peer` the connections on which a side has this identity, `topic` messages and
        subscriptions of a topic. All given conditions must hold.
        """
        parts: list[Condition] = []
        if conn is not None:
            parts.append(equals("conn", conn))
        if peer is not None:
            names = ("identity", "identity_0", "identity_1")
            named = self._selected(Either(tuple(equals(name, peer) for name in names)))
            conns = {record.values["conn"] for record in self.batch(named, octets=False).records}
            parts.append(Compared(FieldOperand(FIELDS["conn"]), OneOf(tuple(map(equal_to, conns))), is_all=False))
        if topic is not None:
            parts.append(equals("topic", topic))
        return self._selected(Every(tuple(parts)))

    def values_seen(self, field: FilterField) -> list[Any]:
        """Return the values of a field that occur in records, most frequent first; see `seen.py`."""
        return values_seen(field, self._chunks[0], self.files, self.options, self.spool.read)

    def _selected(self, condition: Condition, rows: Int64 | None = None) -> Int64:
        most = sum(map(len, self._chunks[0])) if rows is None else len(rows)
        room: Int64 = np.empty(most, np.int64)  # unwritten memory is not used
        count = 0
        for _, part in self._selecting(condition, rows):
            part = part[: most - count]  # another thread may have appended
            room[count : count + len(part)] = part
            count += len(part)
        return room[:count].copy() if 2 * count < len(room) else room[:count]

    def selecting(self, filter: Filter, rows: Int64 | None = None) -> Iterator[tuple[int, Int64]]:
        """Select records in steps, so that callers can show results early or cancel.

        Yields (number of records examined so far, numbers of the matching records of this step).
        """
        return self._selecting(filter.condition, rows)

    def _selecting(self, condition: Condition, rows: Int64 | None = None) -> Iterator[tuple[int, Int64]]:
        selecting = Selecting(
            condition, files=self.files, options=self.options, start=self.first_time, read=self.spool.read
        )
        for chunk, begin, some in self._all_chunks() if rows is None else self._by_chunk(rows):
            batch_of = partial(chunk.batch, files=self.files, source=self._kept(chunk, begin))
            chosen = selecting.rows(chunk, some, batch_of)
            chosen += begin
            yield begin + (len(chunk) if some is None else int(some[-1]) + 1), chosen

    def sorting(self, rows: Int64, operand: Operand, *, descending: bool = False) -> Iterator[Int64 | None]:
        """Sort record numbers by a field or a function of one, in steps.

        Yields None until the result is available. Equal values stay in order, and records without a value are last.
        """
        keys = SortKeys(operand, len(rows), self.options, self.first_time)
        at = 0
        for chunk, begin, some in self._by_chunk(rows):
            batch_of = partial(chunk.batch, files=self.files, source=self._kept(chunk, begin))
            part = slice(at, at + len(some))
            for _ in keys.fill(part, chunk, some, self.files, self.spool.read, batch_of):
                yield None
            at = part.stop
            yield None
        for order in ordered(keys, descending=descending):
            yield None if order is None else rows[order]

    def sorted(self, rows: Int64, name: str, *, descending: bool = False) -> Int64:
        """Return record numbers sorted by the field `name`. Raises `FilterError` for an unknown field."""
        *_, found = self.sorting(rows, operand_of(name), descending=descending)
        assert found is not None
        return found

    def _all_chunks(self) -> Iterator[tuple[Chunk, int, None]]:
        for chunk, begin in zip(*self._chunks, strict=True):
            yield chunk, begin, None

    def _by_chunk(self, numbers: Int64) -> Iterator[tuple[Chunk, int, Int64]]:
        """Group record numbers by chunk: yield (chunk, number of records before it, rows in the chunk)."""
        chunks, begins = self._chunks
        if not len(numbers):
            return
        number = bisect_right(begins, int(numbers[0])) - 1
        at = 0
        for chunk, begin in zip(chunks[number:], begins[number:], strict=True):
            if at == len(numbers):
                return
            stop = int(numbers.searchsorted(begin + len(chunk)))
            if stop > at:
                yield chunk, begin, numbers[at:stop] - begin
            at = stop


def ordering_times(table: PackedRows | PackedRecords) -> Int64:
    """Return the times (ns) by which the records of a table are in order."""
    if isinstance(table, PackedRecords) and table.type == "connection":
        return table.numbers["end_ns"].values.all()
    return table.times


def of_side(values: Mapping[str, Any]) -> list[Condition]:
    return [equals(name, values[name]) for name in ("conn_id", "side")]


def offset_within(low: int, high: int) -> Condition:
    return Compared(FieldOperand(FIELDS["offset"]), Within(low, high), is_all=False)


def equal_to(value: Any) -> Comparison:
    return Comparison(operator.eq, value)


def equals(name: str, value: Any) -> Compared:
    return Compared(FieldOperand(FIELDS[name]), equal_to(value), is_all=False)
