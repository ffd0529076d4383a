"""Parquet: row groups of bounded size, compressed with zstd."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.arrow import arrow_batch, arrow_schema
from zmtpscope.export.files import OutputFile

GROUP_ROWS = 1 << 16
GROUP_OCTETS = 32 << 20
"""A row group ends with the rows that reach one of these; the second counts what the rows take in memory."""


class ParquetTable:
    """One record type as Parquet. What waits for a row group to be full is held as Arrow batches."""

    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self.rows = 0
        self._record = record
        self._schema = arrow_schema(record, columns)
        self._options = options
        self._waiting: list[pa.RecordBatch] = []
        leaves = [leaf for field in self._schema for leaf in _leaves(field.name, field.type)]
        self._writer = pq.ParquetWriter(
            pa.PythonFile(file, "w"),
            self._schema,
            compression="zstd",
            # words repeat, numbers rise or stay, octets are what they are
            use_dictionary=[path for path, type_ in leaves if type_ == pa.string()],
            column_encoding={path: "DELTA_BINARY_PACKED" for path, type_ in leaves if type_ == pa.int64()},
            # the least and greatest word of a row group rules out next to no search
            write_statistics=[path for path, type_ in leaves if type_ == pa.int64()],
        )

    def add(self, batch: Batch) -> None:
        """Take in the records of a batch; write row groups that are full."""
        rows = arrow_batch(batch, self._record, self._schema, self._options)
        self.rows += rows.num_rows
        self._waiting.append(rows)
        while sum(part.num_rows for part in self._waiting) >= GROUP_ROWS:
            self._write(GROUP_ROWS)
        if sum(part.nbytes for part in self._waiting) >= GROUP_OCTETS:
            self._write(GROUP_ROWS)

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        if self._waiting:
            self._write(GROUP_ROWS)
        self._writer.close()

    def _write(self, rows: int) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        self._writer.write_table(table.slice(0, rows))
        self._waiting = table.slice(rows).to_batches()


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a file that a column of a table takes, by their names in Parquet."""
    if pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    elif pa.types.is_struct(type_):
        for member in type_:
            yield from _leaves(f"{path}.{member.name}", member.type)
    else:
        yield path, type_
