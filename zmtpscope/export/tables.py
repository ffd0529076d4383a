"""Write records as tables: one file per record type, all of them or none.

JSON lines and CSV (RFC 4180, UTF-8) have the values of `read --json`. CSV cells are never formulas. Null is an empty
cell and empty text `""`; octets are base64; lists and structs are JSON. Control, invisible and direction-changing
characters are escaped. `time` follows `ts_ns`, since many readers round large integers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.columns import Column, Words
from zmtpscope.dissect.records.message_columns import columns_of_rows
from zmtpscope.export.clock import timestamp
from zmtpscope.export.files import OutputFile, check_replaceable
from zmtpscope.export.json_lines import escaped, text_of
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import as_base64, record_values
from zmtpscope.records import PLURALS, RECORDS

FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""Characters that start a formula in spreadsheets; the last four are full-width forms."""

APOSTROPHE = "'"
"""Precedes text that would be a formula or starts with an apostrophe, so a first apostrophe is never data."""

LINE_END = "\r\n"


class JsonLinesTable:
    """Writes one record type as the lines of `read --json`, or only their members `columns`, in order."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self.rows = 0
        self._file = file
        self._options = options
        self._is_whole = columns == tuple(field.name for field in RECORDS[record].fields)
        self._names = with_time(columns)

    def add(self, batch: Batch) -> None:
        for text in text_of(batch, self._options):
            self._file.write(text if self._is_whole else b"".join(map(self._part, text.splitlines())))
        rows = sum(len(run.orders) for run in batch.messages) + sum(len(run.orders) for run in batch.frames)
        self.rows += rows + len(batch.records)

    def close(self) -> None:
        """Do nothing: lines are written at once."""

    def _part(self, line: bytes) -> bytes:
        values = orjson.loads(line)
        return orjson.dumps({name: values[name] for name in self._names}, option=orjson.OPT_APPEND_NEWLINE)


class CsvTable:
    """Writes one record type as CSV: a header line, then a line for each record."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self.rows = 0
        self._file = file
        self._options = options
        types = {field.name: field.type for field in RECORDS[record].fields}
        self._cell_of = {name: CELLS.get(types[name], json_cell) for name in columns}
        file.write((",".join(with_time(columns)) + LINE_END).encode())

    def add(self, batch: Batch) -> None:
        column_of = self._column_of(batch)
        cells: list[list[str]] = []
        for name, cell_of in self._cell_of.items():
            column = column_of(name)
            cells.append(cells_of(column, cell_of))
            if name == "ts_ns":
                cells.append(cells_of(column, timestamp))
        rows = [",".join(row) + LINE_END for row in zip(*cells, strict=True)]
        self._file.write("".join(rows).encode())
        self.rows += len(rows)

    def close(self) -> None:
        """Do nothing: lines are written at once."""

    def _column_of(self, batch: Batch) -> Callable[[str], Column | list[Any]]:
        columns = columns_of_rows(batch, self._options)
        if columns is not None:
            return columns.__getitem__
        records = [record_values(record, self._options) for record in batch.records]
        return lambda name: [values[name] for values in records]


def cells_of(column: Column | list[Any], cell_of: Callable[[Any], str]) -> list[str]:
    if isinstance(column, Words):
        cells = cells_of(list(column.words), cell_of)
        return [cells[code] for code in column.codes.tolist()]
    values = column if isinstance(column, list) else column.tolist()
    return ["" if value is None else cell_of(value) for value in values]


def with_time(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the column names with `time` after `ts_ns`."""
    if "ts_ns" not in columns:
        return columns
    behind = columns.index("ts_ns") + 1
    return (*columns[:behind], "time", *columns[behind:])


def no_formula(text: str) -> str:
    """Change a text that spreadsheets would execute as a formula: prefix it with an apostrophe."""
    first = text.lstrip()[:1]
    return APOSTROPHE + text if first == APOSTROPHE or first in FORMULA else text


def text_cell(text: str) -> str:
    """Change a text that a program would execute as a formula, or split into cells."""
    text = no_formula(safe_text(text))
    return _quoted(text) if not text or "," in text or '"' in text else text


def json_cell(value: Any) -> str:
    return _quoted(escaped(orjson.dumps(value, default=as_base64)).decode())


CELLS: dict[str, Callable[[Any], str]] = {
    "int": str,
    "bool": lambda value: "true" if value else "false",
    "text": text_cell,
    "octets": lambda value: text_cell(as_base64(value)),
}
"""Functions by field type; lists, structs and json use `json_cell`."""


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


Columns = tuple[str, ...]


class Table(Protocol):
    """Writes the records of one type: `add` takes batches of only this type, `close` writes buffered records."""

    rows: int

    def add(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


MakeTable = Callable[[OutputFile, str, Columns, Options], Table]


def table_maker(format: str) -> MakeTable:
    """Return the function that creates a table in a format.

    Raises `ImportError` if the library of the format is missing.
    """
    if format == "parquet":
        from zmtpscope.export.parquet import ParquetTable  # the only one that needs pyarrow

        return ParquetTable
    return CsvTable if format == "csv" else JsonLinesTable


class Written(NamedTuple):
    path: Path
    rows: int
    octets: int


class Tables:
    """The files of one export. `selection` maps record types to columns.

    A `with` block removes files that were not committed. Raises `FileExistsError` if a file exists, unless `force` is
    set, and `ImportError` like `table_maker`.
    """

    def __init__(
        self, directory: Path, format: str, selection: Mapping[str, Columns], options: Options, *, force: bool
    ) -> None:
        self.directory = directory
        self._format = format
        self._make = table_maker(format)
        self._selection = selection
        self._options = options
        self._force = force
        self._made = False
        self._files: dict[str, OutputFile] = {}
        self._tables: dict[str, Table] = {}
        check_replaceable(self.directory, map(self.path, self._selection), force=self._force)

    def path(self, record: str) -> Path:
        return self.directory / f"{PLURALS[record]}.{self._format}"

    def __enter__(self) -> Tables:
        self._made = not self.directory.exists()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            for record, columns in self._selection.items():
                file = self._files[record] = OutputFile(self.path(record))
                file.open()
                self._tables[record] = self._make(file, record, columns, self._options)
        except BaseException:
            self._discard()
            raise
        return self

    def add(self, batch: Batch) -> None:
        for record, part in by_type(batch):
            if record in self._tables:
                self._tables[record].add(part)

    def commit(self) -> list[Written]:
        """Write buffered records, and rename all temporary files to their targets."""
        for record, table in self._tables.items():
            table.close()
            self._files[record].finish()
        check_replaceable(self.directory, map(self.path, self._selection), force=self._force)
        for file in self._files.values():
            file.commit()
        return [Written(file.target, self._tables[record].rows, file.octets) for record, file in self._files.items()]

    def __exit__(self, *error: object) -> None:
        self._discard()

    def _discard(self) -> None:
        for file in self._files.values():
            file.discard()
        if self._made:
            with suppress(OSError):  # it contains files, or could not be created
                self.directory.rmdir()


def by_type(batch: Batch) -> Iterator[tuple[str, Batch]]:
    if batch.messages:
        yield "message", Batch(batch.files, messages=batch.messages)
    if batch.frames:
        yield "frame", Batch(batch.files, frames=batch.frames)
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for record in batch.records:
        records[record.type].append(record)
    for type_, some in records.items():
        yield type_, Batch(batch.files, records=some)
