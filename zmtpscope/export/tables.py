"""Write records as tables: one file per record type, all of them or none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.export.files import OutputFile, check_replaceable
from zmtpscope.export.line_tables import CsvTable, JsonLinesTable
from zmtpscope.records import PLURALS

Columns = tuple[str, ...]


class Table(Protocol):
    """`add` takes batches of its record type only; `close` writes buffered records."""

    rows: int

    def add(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


MakeTable = Callable[[OutputFile, str, Columns, Options], Table]
"""Takes a file, a record type, its columns and options."""


def table_maker(format: str) -> MakeTable:
    """Raises `ImportError` if the library of the format is missing."""
    if format == "parquet":
        from zmtpscope.export.parquet import ParquetTable  # the only one that needs pyarrow

        return ParquetTable
    return CsvTable if format == "csv" else JsonLinesTable


class Written(NamedTuple):
    """A written table with its rows and octets."""

    path: Path
    rows: int
    octets: int


class Tables:
    """The files of one run. `selection` maps record types to columns.

    Raises `FileExistsError` if a file exists, unless `force` is set, and `ImportError` as `table_maker` does. Use in a
    `with` block, which removes files that were not committed.
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
        """Return the path of a table, such as `messages.parquet`."""
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
        """Write the records of a batch to the tables of their types."""
        for record, part in by_type(batch):
            if record in self._tables:
                self._tables[record].add(part)

    def commit(self) -> list[Written]:
        """Write buffered records, and move all files to their places."""
        for record, table in self._tables.items():
            table.close()
            self._files[record].finish()
        check_replaceable(self.directory, map(self.path, self._selection), force=self._force)
        for file in self._files.values():
            file.commit()
        return [Written(file.target, self._tables[record].rows, file.octets) for record, file in self._files.items()]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._discard()

    def _discard(self) -> None:
        for file in self._files.values():
            file.discard()
        if self._made:
            with suppress(OSError):  # it contains files, or could not be created
                self.directory.rmdir()


def by_type(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """Split a batch into one batch per record type."""
    if batch.messages:
        yield "message", Batch(batch.files, messages=batch.messages)
    if batch.frames:
        yield "frame", Batch(batch.files, frames=batch.frames)
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for record in batch.records:
        records[record.type].append(record)
    for type_, some in records.items():
        yield type_, Batch(batch.files, records=some)
