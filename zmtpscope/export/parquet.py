"""Write Parquet files with row groups of bounded size, compressed with zstd."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.arrow import arrow_batch, arrow_schema, held_schema
from zmtpscope.export.files import OutputFile

GROUP_ROWS = 1 << 16
GROUP_OCTETS = 32 << 20
"""Memory of a row group, which ends with the rows that reach a limit."""

MAX_PARTS = 64
"""Waiting batches; more are joined, since small batches are mostly overhead."""


class ParquetTable:
    def __init__(self, file: OutputFile, record: str, columns: tuple[str, ...], options: Options) -> None:
        self._record = record
        self._schema = held_schema(record, columns)
        self._options = options
        self._writer = ParquetRows(pa.PythonFile(file, "w"), record, columns)
        self.rows = 0

    def add(self, batch: Batch) -> None:
        self._writer.add(arrow_batch(batch, self._record, self._schema, self._options))
        self.rows = self._writer.rows

    def close(self) -> None:
        self._writer.close()


class ParquetRows:
    """Writes Arrow batches with the schema `held_schema`. Rows are buffered until a row group is full."""

    def __init__(self, sink: pa.NativeFile, record: str, columns: Sequence[str]) -> None:
        self.rows = 0
        self._schema = held_schema(record, columns)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_octets = 0
        schema = arrow_schema(record, columns)
        leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
        self._writer = pq.ParquetWriter(
            sink,
            self._schema,
            compression="zstd",
            # words repeat, numbers rise or stay equal, octets have no pattern
            use_dictionary=[path for path, type_ in leaves if type_ == pa.string()],
            column_encoding={path: "DELTA_BINARY_PACKED" for path, type_ in leaves if type_ == pa.int64()},
            # the minimum and maximum word of a row group rule out nearly no search
            write_statistics=[path for path, type_ in leaves if type_ == pa.int64()],
            store_schema=False,
        )
        # for readers of the file, in which words are text
        self._writer.add_key_value_metadata({"ARROW:schema": b64encode(schema.serialize()).decode()})

    def add(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        self._wait(rows)
        while self._waiting_rows >= GROUP_ROWS:
            self._write()
        if self._waiting_octets >= GROUP_OCTETS:
            self._write()

    def close(self) -> None:
        if self._waiting:
            self._write()
        self._writer.close()

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting, self._schema)
        # columns of words are written as indexes while all parts have the same dictionary
        self._writer.write_table(table.slice(0, GROUP_ROWS).unify_dictionaries())
        self._waiting, self._waiting_rows, self._waiting_octets = [], 0, 0
        for rows in table.slice(GROUP_ROWS).to_batches():
            self._wait(rows)

    def _wait(self, rows: pa.RecordBatch) -> None:
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_octets += rows.nbytes
        if len(self._waiting) == MAX_PARTS:
            self._waiting = pa.Table.from_batches(self._waiting, self._schema).combine_chunks().to_batches()


def _leaves(path: str, type_: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    """Yield name and type of the Parquet columns into which a nested column is divided."""
    if pa.types.is_list(type_):
        yield from _leaves(f"{path}.list.element", type_.value_type)
    elif pa.types.is_struct(type_):
        for member in type_:
            yield from _leaves(f"{path}.{member.name}", member.type)
    else:
        yield path, type_
