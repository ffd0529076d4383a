"""Convert batches of records into Arrow batches for Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from zmtpscope.dissect import Batch, FrameTable, MessageTable, Options
from zmtpscope.export.arrow import arrow_batch, held_schema
from zmtpscope.spark.folders import Value
from zmtpscope.spark.schemas import TIME
from zmtpscope.spark.settings import NUMBERS_OF_CONNECTIONS, ReadSettings

if TYPE_CHECKING:
    from zmtpscope.filter import Filter

LARGEST_BATCH = 8 << 20
"""Octets of a batch; only a single row may be larger."""

MAX_WAITING = 2 << 20
"""Octets of blocks that wait to become a batch, except the last block. Conversion keeps several copies of them in
memory."""

MAX_ROWS = 1 << 14
"""Rows of a batch, which are a few megabytes when all dictionary values are expanded."""


class RowBatches:
    """Makes Arrow batches of the requested records.

    Several blocks become one batch, because each batch costs as much as a thousand rows.
    """

    def __init__(self, settings: ReadSettings, columns: Sequence[str]) -> None:
        self.options = settings.dissect_options(columns)
        """Options that let the analyser make the fields of the columns."""
        self._record = record = settings.record
        self._filter = settings.parsed_filter()
        self._folders = settings.folders
        sources = {TIME: "ts_ns"} | dict.fromkeys(self._folders, "file")
        wanted = dict.fromkeys(sources.get(name, name) for name in columns)
        made = [name for name in wanted if name not in NUMBERS_OF_CONNECTIONS]
        self._held_schema = held_schema(record, made or ["schema"])  # a table without columns has no rows
        self._schema = to_arrow_schema(settings.schema(columns), timezone="UTC")
        self._waiting: Batch | None = None
        self._rows = self._octets = 0

    def convert(self, batches: Iterable[Batch]) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches with the requested records of all batches."""
        for batch in batches:
            yield from self.add(batch)
        yield from self.finish()

    def add(self, batch: Batch) -> Iterator[pa.RecordBatch]:
        """Add the records of a batch; yield Arrow batches that are full."""
        part = selected(batch.of_type(self._record), self._filter, self.options)
        if self._waiting is None:
            self._waiting = part
        else:
            self._waiting.messages += part.messages
            self._waiting.frames += part.frames
            self._waiting.records += part.records
        self._rows += len(part.records)
        tables: list[MessageTable | FrameTable] = [*part.messages, *part.frames]
        for table in tables:
            self._rows += len(table)
            self._octets += sum(len(sender.data) for sender in table.senders)
        if self._rows >= MAX_ROWS or self._octets >= MAX_WAITING:
            yield from self.finish()

    def finish(self) -> Iterator[pa.RecordBatch]:
        if self._waiting is not None and self._rows:
            waiting, self._waiting, self._rows, self._octets = self._waiting, None, 0, 0
            held = arrow_batch(waiting, self._record, self._held_schema, self.options)
            yield from map(self._as_spark_takes_it, _pieces(held))

    def _as_spark_takes_it(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for field in self._schema:
            if field.name in NUMBERS_OF_CONNECTIONS:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            elif field.name == TIME:
                arrays.append(batch.column("ts_ns").cast(pa.timestamp("ns", "UTC")).cast(field.type, safe=False))
            elif field.name in self._folders:
                arrays.append(_of_files(batch.column("file"), self._folders[field.name].values, field.type))
            else:
                column = batch.column(field.name)
                arrays.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _of_files(files: pa.Array, values: Mapping[str, Value], type_: pa.DataType) -> pa.Array:
    """Return an Arrow array with the value of a folder column for each file name in `files`."""
    words = files if pa.types.is_dictionary(files.type) else files.dictionary_encode()
    return pa.array([values.get(file) for file in words.dictionary.to_pylist()], type_).take(words.indices)


def selected(batch: Batch, filter: Filter | None, options: Options) -> Batch:
    if filter is None:
        return batch
    from zmtpscope.filter.selection import Selection

    return Selection(filter, batch, options, None).as_batch()


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split an Arrow batch into pieces of at most `MAX_ROWS` rows and `LARGEST_BATCH` octets, but at least one row."""
    if batch.num_rows == 1 or (batch.num_rows <= MAX_ROWS and batch.nbytes <= LARGEST_BATCH):
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))
