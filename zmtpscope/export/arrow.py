"""Records as Arrow tables; schema and columns follow `zmtpscope.records`. Only this module, `arrow_arrays`,
`arrow_rows` and `parquet` import pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pyarrow as pa

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns
from zmtpscope.export.arrow_arrays import value_array
from zmtpscope.export.arrow_rows import WORD, WORDS, arrow_array
from zmtpscope.export.types import translate
from zmtpscope.export.values import as_base64, record_values
from zmtpscope.records import RECORDS

ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.large_binary(), "json": pa.string()}
"""Arrow types by field type. Spark reads no unsigned integers, no times in nanoseconds and no views, so they are not
used."""


def arrow_type(type_: str) -> pa.DataType:
    """Return the Arrow type of a logical type; json is text."""
    return translate(type_, ARROW, pa.list_, lambda members: pa.struct(list(members.items())))


def arrow_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of a table of a record type with these columns, as readers see it."""
    types = {field.name: field.type for field in RECORDS[record].fields}
    return pa.schema([(name, arrow_type(types[name])) for name in columns])


def held_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of the batches of `arrow_batch`, with dictionaries for words."""
    fields = arrow_schema(record, columns)
    words = WORDS.get(record, frozenset())
    return pa.schema([field.with_type(WORD) if field.name in words else field for field in fields])


def arrow_batch(batch: Batch, record: str, schema: pa.Schema, options: Options) -> pa.RecordBatch:
    """Return the records of a batch, which have one type, in order. `schema` is the `held_schema` of the wanted
    columns."""
    if record in ROWS:
        columns = ROWS[record](batch, options)
        arrays = [arrow_array(columns[name]) for name in schema.names]
    else:
        types = {field.name: field.type for field in RECORDS[record].fields}
        rows = [record_values(record, options) for record, _ in batch.in_order() if isinstance(record, Record)]
        arrays = [arrow_column([row[name] for row in rows], types[name]) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


ROWS: dict[str, Callable[[Batch, Options], RowColumns[Any]]] = {
    "message": MessageColumns.of,
    "frame": lambda batch, _: FrameRowColumns.of(batch.frame_runs, batch.files),
}
"""Functions that return the columns of record types that are rows."""


def arrow_column(values: list[Any], type_: str) -> pa.Array:
    """Return an array of values of a logical type, as in records."""
    if "json" in type_:
        values = list(map(translate(type_, PLAIN, _each, _members), values))
    return value_array(values, arrow_type(type_))


Convert = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


PLAIN: dict[str, Convert] = {
    "int": _same,
    "bool": _same,
    "text": _same,
    "octets": _same,
    "json": lambda value: None if value is None else orjson.dumps(value, default=as_base64).decode(),
}
"""Conversions of values that Arrow needs: json to its text."""


def _each(convert: Convert) -> Convert:
    return lambda values: None if values is None else [convert(value) for value in values]


def _members(converts: dict[str, Convert]) -> Convert:
    return lambda struct: (
        None if struct is None else {name: convert(struct[name]) for name, convert in converts.items()}
    )
