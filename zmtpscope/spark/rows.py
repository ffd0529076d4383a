"""Rows of a batch as Spark takes them: Arrow batches of its types, of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from zmtpscope.dissect import Batch, Options
from zmtpscope.export.arrow import arrow_batch, held_schema
from zmtpscope.export.tables import by_type
from zmtpscope.spark.schemas import arrow_schema

LARGEST_BATCH = 8 << 20
"""Octets of an Arrow batch that is handed to Spark; only a single row may be larger."""

NUMBERS_OF_CONNECTIONS = frozenset({"conn", "conn_0", "conn_1"})
"""These columns are null: each worker would count the connections that it sees. `conn_id` is the key."""


def rows(batch: Batch, record: str, columns: Sequence[str], options: Options) -> Iterator[pa.RecordBatch]:
    """The records of one type in a batch, in their order, with these columns; nothing where there are none."""
    for type_, part in by_type(batch):
        if type_ == record:
            made = [name for name in columns if name not in NUMBERS_OF_CONNECTIONS]
            held = arrow_batch(part, record, held_schema(record, made), options)
            for piece in _pieces(held):
                yield _as_spark_takes_it(piece, record, columns)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of at most `LARGEST_BATCH`, or of one row."""
    if batch.get_total_buffer_size() <= LARGEST_BATCH or batch.num_rows == 1 or batch.nbytes <= LARGEST_BATCH:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _pieces(batch.slice(0, half))
    yield from _pieces(batch.slice(half))


def _as_spark_takes_it(batch: pa.RecordBatch, record: str, columns: Sequence[str]) -> pa.RecordBatch:
    schema = arrow_schema(record, columns)
    arrays = [
        pa.nulls(batch.num_rows, field.type)
        if field.name in NUMBERS_OF_CONNECTIONS
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
