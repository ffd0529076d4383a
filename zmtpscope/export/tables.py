"""Records as tables: a file for each record type, all of them complete or none there."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.export.files import OutputFile
from zmtpscope.export.line_tables import CsvTable, JsonLinesTable
from zmtpscope.records import PLURALS

Columns = tuple[str, ...]


class Table(Protocol):
    """One table on its way into a file. `add` takes batches that hold records of its type only, `close` writes out
    what waits."""

    rows: int

    def add(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


MakeTable = Callable[[OutputFile, str, Columns, Options], Table]
"""(file, record type, its columns, options): a table that is empty so far."""


def table_maker(format: str) -> MakeTable:
    """What makes the tables of a format. Raises `ImportError` where the library that the format needs is missing."""
    if format == "parquet":
        from zmtpscope.export.parquet import ParquetTable  # the only one that needs pyarrow

        return ParquetTable
    return CsvTable if format == "csv" else JsonLinesTable


class Written(NamedTuple):
    """A file that was written: its rows and octets."""

    path: Path
    rows: int
    octets: int


class Tables:
    """The files of one run, `selection` naming record types and their columns.

    Raises `FileExistsError` when made if a file is there already, unless `force` is set, and `ImportError` as
    `table_maker` does. To be used in a `with` block: what `commit` has not put in its place at its end is removed.
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
        self._refuse_to_overwrite()

    def path(self, record: str) -> Path:
        """Where the table of a record type goes: `messages.parquet`."""
        return self.directory / f"{PLURALS[record]}.{self._format}"

    def _refuse_to_overwrite(self) -> None:
        if self.directory.exists() and not self.directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(self.directory))
        for record in self._selection:
            path = self.path(record)
            if path.is_dir():  # which no file can take the place of
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
            if os.path.lexists(path) and not self._force:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))

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
        """Write the records of a batch into the tables of their types."""
        for record, part in by_type(batch):
            if record in self._tables:
                self._tables[record].add(part)

    def commit(self) -> list[Written]:
        """Write what is left, and put all files in their places; what they are."""
        for record, table in self._tables.items():
            table.close()
            self._files[record].finish()
        self._refuse_to_overwrite()
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
            with suppress(OSError):  # it holds files, or could not be made
                self.directory.rmdir()


def by_type(batch: Batch) -> Iterator[tuple[str, Batch]]:
    """The records of a batch, those of each type in a batch of their own."""
    if batch.runs:
        yield "message", Batch(batch.files, runs=batch.runs)
    if batch.frame_runs:
        yield "frame", Batch(batch.files, frame_runs=batch.frame_runs)
    records: defaultdict[str, list[Record]] = defaultdict(list)
    for record in batch.records:
        records[record.type].append(record)
    for type_, some in records.items():
        yield type_, Batch(batch.files, records=some)
