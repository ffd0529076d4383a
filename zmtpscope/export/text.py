"""Format one line per record: packet, time, connection, sender and receiver, description.

The first and the last line of a connection have both addresses. Other lines name a side by identity or socket type, and
the listener also by its port, to fit in 80 columns; `wide` lines have the addresses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from zmtpscope.capture.segments import FILE_SHIFT
from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options, Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.message_columns import MessageColumns, columns_of_table
from zmtpscope.dissect.records.tables import Sender
from zmtpscope.export.clock import Clock
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.front import Column, Files, Front, SidesColumn
from zmtpscope.export.repeats.cuts import CutFold
from zmtpscope.export.repeats.fold import Repeats, RowRange
from zmtpscope.export.repeats.heartbeats import HeartbeatFold
from zmtpscope.export.repeats.retries import RetryFold
from zmtpscope.export.row_lines import lines_of
from zmtpscope.export.rows import RowWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.styles import Paint, plain
from zmtpscope.export.time_order import RECORDS, Item, TimeOrder
from zmtpscope.export.values import of_fields, record_values
from zmtpscope.export.words import packet_name
from zmtpscope.findings import FINDINGS
from zmtpscope.findings.kinds import is_habitual
from zmtpscope.record_fields import COMMON, STREAM
from zmtpscope.records import DERIVED

Fold = HeartbeatFold | RetryFold | CutFold
"""A filter that delays ranges or replaces them by `Repeats`. `feed` yields those to print now, `rest` the others."""


class Folding:
    """Applies the filters of `export/repeats` to the lines, or none unless `folds`.

    `waits`: lines are delayed until it is known whether they repeat earlier ones; otherwise for about a second.
    """

    def __init__(self, *, folds: bool, waits: bool) -> None:
        self._folds: tuple[Fold, ...] = (HeartbeatFold(waits=waits), RetryFold(waits=waits), CutFold()) if folds else ()

    def feed(self, ranges: Iterable[RowRange]) -> Iterable[RowRange]:
        """Return the records and rows that are to be printed now."""
        for fold in self._folds:
            ranges = fold.feed(ranges)
        return ranges

    def rest(self, ranges: Iterable[RowRange]) -> Iterable[RowRange]:
        """Return `ranges` and the records that are still delayed, at the end of the capture."""
        for fold in self._folds:
            ranges = _with_rest(fold, ranges)
        return ranges


def _with_rest(fold: Fold, ranges: Iterable[RowRange]) -> Iterator[RowRange]:
    yield from fold.feed(ranges)
    yield from fold.rest()


Source = tuple[Record | RowWords, Files]
"""Records or rows, with the files of their batch."""

ROWS_AT_ONCE = 1000

MAX_FRAMES = 1000
"""Frames of a message, unpacked ones too, to print field by field or in hex."""
MORE_FRAMES = f"... and more than {MAX_FRAMES:,} frames: --frames prints one line for each, --json their bodies"

MAX_BEACONS = 4096
"""Beacons to remember, so that only new ones are printed."""

HOW_TO_UNFOLD = "--all prints one line for each"

LOSS = "ZMTP-CONN-05"
"""Finding that accompanies every gap."""


class Look(NamedTuple):
    """Settings of the lines. `width` is the terminal width, or None. `wide`: all lines have both addresses."""

    clock: Clock
    paint: Paint = plain
    width: int | None = None
    wide: bool = False
    waits: bool = False
    """Whether lines wait for records that may precede them; otherwise each is printed with its packet."""
    chat: bool = False
    """Whether to print findings about normal events or habits."""
    folds: bool = False
    """Whether to count repeated heartbeats and retries, and print them as one line."""
    tree: bool = False
    hex: bool = False


class TextLines:
    def __init__(self, look: Look, options: Options) -> None:
        self.look = look
        self.options = options
        self.sides = SidesColumn(look.paint, wide=look.wide)
        self.order = TimeOrder(self._source_of, records=RECORDS if look.waits else 0)
        self.folding = Folding(folds=look.folds, waits=look.waits)
        self.front = Front(look.clock, look.paint)
        self.hints: set[str] = set()
        """Hints that were printed, each once."""
        self.beacons: set[tuple[str, str]] = set()
        """Contents and sources of printed beacons."""
        self.gap: tuple[Stream | None, int | None] | None = None

    def lines(self, batch: Batch) -> Iterator[str]:
        """Yield the lines of all records that need not wait for others, in order of time."""
        return self._lines(self.folding.feed(self.order.feed(batch)))

    def rest(self) -> Iterator[str]:
        return self._lines(self.folding.rest(self.order.finish()))

    def lines_in_order(self, batch: Batch) -> Iterator[tuple[int, str]]:
        """Yield (record's number in the batch, line), in the order of records and not of time.

        A record that only repeats earlier lines has no line.
        """
        number = 0
        words: dict[int, RowWords] = {}
        """Rows by table, because a table can have many ranges."""
        for item, low, high in batch.ranges():
            if isinstance(item, Record):
                made: Sequence[str | None] = [self._record(item, batch.files)]
            else:
                if id(item) not in words:
                    words[id(item)] = self._words_of(item, batch.files)
                made = self._rows(words[id(item)], range(low, high))
            for place, line in enumerate(made, number):
                if line is not None:
                    yield place, line
            number += len(made)

    def pass_by(self, batch: Batch) -> None:
        """Update the state as if the lines of a batch had been formatted, without formatting them."""
        for item, low, high in batch.ranges():
            if isinstance(item, Record):
                self._record(item, batch.files)
            else:
                self._pass_rows(item, low, high, batch.files)

    def copy(self) -> TextLines:
        front = self.front.copy()
        copied = TextLines(self.look._replace(clock=front.clock), self.options)
        copied.sides, copied.front = self.sides.copy(), front
        copied.hints, copied.beacons, copied.gap = self.hints.copy(), self.beacons.copy(), self.gap
        return copied

    def _source_of(self, item: Item, files: Files) -> Source:
        return item if isinstance(item, Record) else self._words_of(item, files), files

    def _words_of(self, item: MessageColumns | MessageTable | FrameTable, files: Files) -> RowWords:
        columns = item if isinstance(item, MessageColumns) else columns_of_table(item, files)
        return RowWords(columns, self.options, self.look.width)

    def _lines(self, ranges: Iterable[RowRange]) -> Iterator[str]:
        has_details = self.look.tree or self.look.hex
        for (source, files), rows in ranges:
            if isinstance(source, Repeats):
                yield self._line_of_repeats(source, files)
            elif isinstance(source, Record):
                line = self._record(source, files)
                if line is not None:
                    yield line
                    if has_details:
                        yield from detail_lines(source, -1, self.look, self.options)
            else:
                for begin in range(0, len(rows), ROWS_AT_ONCE):
                    some = rows[begin : begin + ROWS_AT_ONCE]
                    for row, line in zip(some, self._rows(source, some), strict=True):
                        yield line
                        if has_details:
                            yield from detail_lines(source.columns.alone(row), 0, self.look, self.options)

    def _record(self, record: Record, files: Files) -> str | None:
        kind = record.type
        if kind == "finding" and self._left_out(record):
            return None
        if kind == "datagram" and self._is_repeated(record):
            return None
        if kind == "gap":
            self.gap = _place(record)
        return self._line_of(record, files, of_fields(record, self.options, _described), _hint(record))

    def _line_of_repeats(self, repeats: Repeats, files: Files) -> str:
        return self._line_of(repeats.last, files, repeats.text, HOW_TO_UNFOLD)

    def _line_of(self, record: Record, files: Files, words: str, hint: str | None) -> str:
        """Format the line of a record, of which `words` describe the record. Each hint is printed once in a run."""
        kind = record.type
        who, columns = self._who_of_record(record)
        if kind == "connection":
            packet, time = "", record.own["end_ns"]
        else:
            packet, time = packet_name(record.file, record.packet, files), record.ts_ns
        what = self.look.paint(record.own["severity"] if kind == "finding" else kind, words)
        if hint is not None and hint not in self.hints:
            self.hints.add(hint)
            what += f" -> {hint}"
        front = self.front.of(packet, time)
        return self._wrapped(self.look.paint("dim", front) + who, len(front) + columns, what)

    def _wrapped(self, prefix: str, used: int, what: str) -> str:
        if self.look.width is None:
            return f"{prefix}{what}\n"
        from zmtpscope.export.wrap import wrap

        return wrap(prefix, used, what, self.look.width) + "\n"

    def _left_out(self, finding: Record) -> bool:
        """Whether a finding is not printed: a normal event, a habit, or a repetition of the line of a gap."""
        severity, id_ = finding.own["severity"], finding.own["id"]
        if id_ == LOSS:
            return _place(finding) == self.gap
        return not self.look.chat and is_habitual(severity, id_)

    def _is_repeated(self, datagram: Record) -> bool:
        """Whether a beacon repeats an earlier one; ZRE nodes send one per second."""
        if self.look.chat or datagram.own["kind"] != "beacon":
            return False
        content = datagram.values["src_ip"], datagram.own["payload"]["summary"]
        if content in self.beacons:
            return True
        if len(self.beacons) == MAX_BEACONS:
            self.beacons.clear()
        self.beacons.add(content)
        return False

    def _rows(self, words: RowWords, rows: Sequence[int]) -> list[str]:
        names = self._names(words, rows)
        if self.look.width is None:
            return lines_of(words, rows, names, self.front)
        return [self._fitting(words, row, name, self.look.width) for row, name in zip(rows, names, strict=True)]

    def _names(self, words: RowWords, rows: Sequence[int]) -> list[Column]:
        """Return the sender and receiver of each row, with addresses in the first line of a connection."""
        names: list[Column] = []
        known: dict[int, Column] = {}
        """Columns by sender, valid while `changes` is unchanged."""
        changes = self.sides.changes
        for row in rows:
            number = words.sender_of[row]
            column = known.get(number)
            if column is None:
                sender = words.sender(row)
                is_first = self.sides.is_new(sender.stream)
                column = self.sides.names(sender.stream)
                if is_first and words.messages is not None:  # no earlier line has named the sides
                    self._introduce(sender)
                if changes != self.sides.changes:
                    changes = self.sides.changes
                    known.clear()
                if not is_first:
                    known[number] = column
            names.append(column)
        return names

    def _fitting(self, words: RowWords, row: int, name: Column, width: int) -> str:
        """Format the line of a message so that it fits in `width` columns; `name` is sender and receiver."""
        who, columns = name
        front = self.front.of_row(*words.packet_and_time(row), words.columns.files)
        prefix, used = self.look.paint("dim", front) + who, len(front) + columns
        line = words.describe(row, used)
        if used + len(line) <= width:
            return f"{prefix}{line}\n"
        from zmtpscope.export.wrap import INDENT  # it has a line of its own, where more fits

        return self._wrapped(prefix, used, words.describe(row, INDENT))

    def _pass_rows(self, run: MessageTable | FrameTable, low: int, high: int, files: Files) -> None:
        """Update the state as if the lines of the rows `low..high` had been formatted."""
        for part in run.part(low, high).by_sender() if isinstance(run, MessageTable) else (run,):
            is_new = self.sides.is_new(part.stream)
            self.sides.names(part.stream)
            if is_new and isinstance(part, MessageTable):
                self._introduce(part.sender)
            if is_new and min(len(part), high - low) > 1:
                self.sides.names(part.stream)
        packets = run.packets[low:high]
        for file in np.unique(packets >> FILE_SHIFT).tolist():
            self.front.widen(self.front.packet(int(packets[packets >> FILE_SHIFT == file].max()), files))
        if self.look.clock.moves:
            self.look.clock(int(run.times[high - 1]))

    def _introduce(self, sender: Sender) -> None:
        """Store the socket types of a message's sender and receiver, if no line has named them."""
        stream = sender.stream
        self.sides.learn(stream, sender.socket_type, None)
        self.sides.learn(stream._replace(side=1 - (stream.side or 0)), sender.peer_socket_type, None)

    def _who_of_record(self, record: Record) -> tuple[str, int]:
        """Return sender and receiver as known before this record; socket types that it announces are in its
        description."""
        kind, stream = record.type, record.stream
        if stream is None or stream.src_ip is None:
            return self.sides.nobody(kind if kind in DERIVED else "the capture")
        if kind == "connection":
            return self.sides.last_names(stream)
        who = self.sides.names(stream)
        if kind in ("greeting", "command"):
            self.sides.learn(stream, record.own["socket_type"], record.own["identity"])
        return who


def _described(record: Record, options: Options) -> str:
    return DESCRIBE[record.type](record_values(record, options))


def _hint(record: Record) -> str | None:
    if record.type == "gap":
        return FINDINGS[LOSS].hint
    hint: str | None = record.own["hint"] if record.type == "finding" else None
    return hint


def detail_lines(item: Record | MessageTable | FrameTable, index: int, look: Look, options: Options) -> Iterator[str]:
    from zmtpscope.dissect.records.details import details
    from zmtpscope.export.details import hex_lines, tree_lines

    secrets = options.show_secrets
    shown = 0
    for shown, detail in enumerate(details(item, index), 1):
        if shown > MAX_FRAMES:
            yield f"    {MORE_FRAMES}\n"
            return
        if look.tree:
            for line in tree_lines(detail, secrets):
                yield line + "\n"
        if look.hex:
            for line in hex_lines(detail, secrets):
                yield look.paint("dim", line) + "\n"
    if isinstance(item, Record) and not shown and look.tree:
        for name, value in _own(record_values(item, options)):
            yield f"    {name:<20} {value}\n"


def _place(record: Record) -> tuple[Stream | None, int | None]:
    return record.stream, record.own["offset"]


IN_THE_LINE = (
    *("id", "severity", "text", "hint", "count", "last_packet"),
    *("duration_ns", "syns", "answer", "answered_by", "was_connected"),
)


def _own(values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the fields that a record's line leaves out, if the record has no octets."""
    front = {field.name for field in (*COMMON, *STREAM)}.union(IN_THE_LINE)
    for name, value in values.items():
        if name not in front and value is not None and value != []:
            yield name, safe_text(str(value))
