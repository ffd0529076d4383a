"""Tables made of lines: JSON lines, and CSV (RFC 4180, UTF-8) for spreadsheets. Both hold what `read --json` prints.

In CSV every value is a cell in which nothing is a formula. Null is an empty cell and empty text `""`; octets are
base64; lists and structs are their JSON. Exact text is in the other formats: here control, invisible and
direction-changing characters are escaped. `time` stands beside `ts_ns` in both, since what reads lines rounds large
integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import orjson

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.files import OutputFile
from zmtpscope.export.json_lines import escaped, lines
from zmtpscope.export.safe_text import safe_text
from zmtpscope.records import RECORDS

FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""Characters that make a spreadsheet take text for a formula; the last four are their full-width forms."""

APOSTROPHE = "'"
"""Stands in front of text that would be a formula, and of text that begins with one: a first one is never data."""

LINE_END = "\r\n"


LINES_AT_ONCE = 1000


class LineTable:
    """One record type as lines, `columns` in their order."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self.rows = 0
        self._file = file
        self._options = options
        self._types = {field.name: field.type for field in RECORDS[record].fields}
        self._whole = columns == tuple(self._types)
        self._names = with_time(columns)

    def add(self, batch: Batch) -> None:
        """Write the records of a batch."""
        written = self._lines(lines(batch, self._options))
        while some := list(islice(written, LINES_AT_ONCE)):
            self._file.write(b"".join(some))
            self.rows += len(some)

    def close(self) -> None:
        """Every line is written already."""

    def _lines(self, json_lines: Iterator[bytes]) -> Iterator[bytes]:
        raise NotImplementedError


class JsonLinesTable(LineTable):
    """One record type as JSON lines: the lines of `read --json`, or the wanted members of them."""

    def _lines(self, json_lines: Iterator[bytes]) -> Iterator[bytes]:
        return json_lines if self._whole else map(self._part, json_lines)

    def _part(self, line: bytes) -> bytes:
        values = orjson.loads(line)
        return orjson.dumps({name: values[name] for name in self._names}, option=orjson.OPT_APPEND_NEWLINE)


class CsvTable(LineTable):
    """One record type as CSV: a header line, then a line for each record."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        super().__init__(file, record, columns, options)
        types = {**self._types, "time": "text"}
        self._cells = [(name, CELLS.get(types[name], json_cell)) for name in self._names]
        file.write(_line(self._names))

    def _lines(self, json_lines: Iterator[bytes]) -> Iterator[bytes]:
        for values in map(orjson.loads, json_lines):
            yield _line(["" if (value := values[name]) is None else cell(value) for name, cell in self._cells])


def with_time(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns with `time` behind `ts_ns`."""
    if "ts_ns" not in columns:
        return columns
    behind = columns.index("ts_ns") + 1
    return (*columns[:behind], "time", *columns[behind:])


def text_cell(text: str) -> str:
    """Text as a cell that no program takes for a formula, or for the end of a cell or line."""
    text = safe_text(text)
    first = text.lstrip()[:1]
    if first == APOSTROPHE or first in FORMULA:
        text = APOSTROPHE + text
    return _quoted(text) if not text or "," in text or '"' in text else text


def json_cell(value: Any) -> str:
    """A list or struct as its JSON, in ASCII."""
    return _quoted(escaped(orjson.dumps(value)).decode())


CELLS: dict[str, Callable[[Any], str]] = {
    "int": str,
    "bool": lambda value: "true" if value else "false",
    "text": text_cell,
    "octets": text_cell,
}
"""How values of the logical types are written; lists, structs and json are `json_cell`."""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _line(cells: Iterable[str]) -> bytes:
    return (",".join(cells) + LINE_END).encode()
