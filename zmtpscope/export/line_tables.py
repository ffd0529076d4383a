"""Tables of lines: JSON lines, and CSV (RFC 4180, UTF-8) for spreadsheets. Both contain the output of `read --json`.

CSV cells are never formulas. Null is an empty cell and empty text `""`; octets are base64; lists and structs are JSON.
Control, invisible and direction-changing characters are escaped; other formats have the exact text. `time` follows
`ts_ns` in both, because many readers round large integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.files import OutputFile
from zmtpscope.export.json_lines import escaped, text_of
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import RECORDS

T = TypeVar("T", str, bytes)

FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""Characters that start a formula in spreadsheets; the last four are their full-width forms."""

APOSTROPHE = "'"
"""Precedes text that would be a formula, and text that starts with an apostrophe. A first apostrophe is therefore never
data."""

LINE_END = b"\r\n"

LONGEST, MOST = 1000, 1000
"""Maximum octets of a cached text, and maximum number of cached texts."""


class LineTable:
    """One record type as lines, with `columns` in order."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self.rows = 0
        self._file = file
        self._options = options
        self._types = {field.name: field.type for field in RECORDS[record].fields}
        self._whole = columns == tuple(self._types)
        self._names = with_time(columns)

    def add(self, batch: Batch) -> None:
        """Write the records of a batch."""
        for text in text_of(batch, self._options):
            self._file.write(self._translated(text))
        rows = sum(len(run.orders) for run in batch.runs) + sum(len(run.orders) for run in batch.frame_runs)
        self.rows += rows + len(batch.records)

    def close(self) -> None:
        """Do nothing, because all lines are written."""

    def _translated(self, json_lines: bytes) -> bytes:
        raise NotImplementedError

    def _wanted(self, line: bytes) -> dict[str, Any]:
        """Return the wanted members of a JSON line."""
        values = orjson.loads(line)
        return values if self._whole else {name: values[name] for name in self._names}


class JsonLinesTable(LineTable):
    """One record type as JSON lines: the lines of `read --json`, or only their wanted members."""

    def _translated(self, json_lines: bytes) -> bytes:
        return json_lines if self._whole else b"".join(map(self._part, json_lines.splitlines()))

    def _part(self, line: bytes) -> bytes:
        return orjson.dumps(self._wanted(line), option=orjson.OPT_APPEND_NEWLINE)


class CsvTable(LineTable):
    """One record type as CSV: a header line, then a line for each record.

    Most values of a message equal those of the previous row. Its JSON line is therefore split around the values that
    differ, first by message and then by packet, and the rest is converted to cells once for all rows that share it.
    """

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        super().__init__(file, record, columns, options)
        texts = Memory(text_cell)
        self._cell_of: dict[str, Callable[[Any], str]] = {
            name: texts.__getitem__ if type_ == "text" else CELLS.get(type_, json_cell)
            for name, type_ in self._types.items()
        }
        self._cell_of["time"] = str
        self._fronts = Memory(self._front)
        self._backs = Memory(self._back)
        self._members = Memory(lambda members: self._cells(orjson.loads(b"{%b}" % members)))
        self._line = self._message if self._whole and record == "message" else self._record
        file.write(",".join(self._names).encode() + LINE_END)

    def _translated(self, json_lines: bytes) -> bytes:
        return b"".join(map(self._line, json_lines.splitlines()))

    def _record(self, line: bytes) -> bytes:
        return self._cells(self._wanted(line)) + LINE_END

    def _cells(self, values: dict[str, Any]) -> bytes:
        cell_of = self._cell_of
        return ",".join(["" if value is None else cell_of[name](value) for name, value in values.items()]).encode()

    # No text contains these separators, because a quotation mark in a text follows a backslash.

    def _message(self, line: bytes) -> bytes:
        front, _, line = line.partition(b',"offset":')
        offset, _, line = line.partition(b',"length":')
        sizes, _, line = line.partition(b',"bodies":')
        bodies, _, back = line.partition(b',"bodies_kept":')
        return b"%b,%b,%b,%b,%b\r\n" % (
            self._fronts[front],
            offset,
            self._members[b'"length":' + sizes],
            b"" if bodies == b"null" else b'"%b"' % bodies.replace(b'"', b'""'),
            self._backs[back],
        )

    def _front(self, front: bytes) -> bytes:
        stream, _, front = front.partition(b',"ts_ns":')
        nanoseconds, _, front = front.partition(b',"time":"')
        time, _, front = front.partition(b'","file":')
        file, _, front = front.partition(b',"packet":')
        packet, _, ends = front.partition(b',"src_ip":')
        cells = self._members
        file, ends = cells[b'"file":' + file], cells[b'"src_ip":' + ends]
        return b"%b,%b,%b,%b,%b,%b" % (cells[stream[1:]], nanoseconds, time, file, packet, ends)

    def _back(self, back: bytes) -> bytes:
        kept, _, back = back.partition(b',"packet_end":')
        packet, _, back = back.partition(b',"ts_end_ns":')
        nanoseconds, _, rest = back.partition(b',"version":')
        cells = self._members
        kept, rest = cells[b'"bodies_kept":' + kept], cells[b'"version":' + rest[:-1]]
        return b"%b,%b,%b,%b" % (kept, packet, nanoseconds, rest)


class Memory(dict[T, T]):
    """A bounded cache of translated texts."""

    def __init__(self, translate: Callable[[T], T]) -> None:
        self._translate: Callable[[T], T] = translate

    def __missing__(self, text: T) -> T:
        translated: T = self._translate(text)
        if len(text) <= LONGEST:
            if len(self) == MOST:
                self.clear()
            self[text] = translated
        return translated


def with_time(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns with `time` after `ts_ns`."""
    if "ts_ns" not in columns:
        return columns
    behind = columns.index("ts_ns") + 1
    return (*columns[:behind], "time", *columns[behind:])


def no_formula(text: str) -> str:
    """Return text that no spreadsheet takes for a formula."""
    first = text.lstrip()[:1]
    return APOSTROPHE + text if first == APOSTROPHE or first in FORMULA else text


def text_cell(text: str) -> str:
    """Return text as one cell that no program takes for a formula or splits."""
    text = no_formula(safe_text(text))
    return _quoted(text) if not text or "," in text or '"' in text else text


def json_cell(value: Any) -> str:
    """Return a list or struct as JSON in ASCII."""
    return _quoted(escaped(orjson.dumps(value)).decode())


CELLS: dict[str, Callable[[Any], str]] = {
    "int": str,
    "bool": lambda value: "true" if value else "false",
    "text": text_cell,
    "octets": text_cell,
}
"""Formats of the logical types; lists, structs and json use `json_cell`."""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
