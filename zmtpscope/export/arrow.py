"""Records as Arrow tables. Only this module, `arrow_arrays` and `parquet` import pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from zmtpscope.dissect import Batch, Options, Record
from zmtpscope.dissect.records.batch import order_of_record
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns, RowColumns, file_name
from zmtpscope.export.arrow_arrays import WORD, WORDS, arrow_array, column_array, json_text, value_array
from zmtpscope.export.types import translate
from zmtpscope.export.values import shown_fields
from zmtpscope.record_fields import COMMON
from zmtpscope.records import RECORDS

ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.large_binary(), "json": pa.string()}
"""Arrow types by field type. Spark reads no unsigned integers, no nanosecond times and no views."""


def arrow_type(type_: str) -> pa.DataType:
    return translate(type_, ARROW, pa.list_, lambda members: pa.struct(list(members.items())))


def arrow_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema that readers see."""
    types = {field.name: field.type for field in RECORDS[record].fields}
    return pa.schema([(name, arrow_type(types[name])) for name in columns])


def held_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """Return the schema of `arrow_batch`, with dictionaries for words."""
    fields = arrow_schema(record, columns)
    words = WORDS.get(record, frozenset())
    return pa.schema([field.with_type(WORD) if field.name in words else field for field in fields])


def arrow_batch(batch: Batch, record: str, schema: pa.Schema, options: Options) -> pa.RecordBatch:
    """Convert a batch of one record type. `schema` is the `held_schema` of the wanted columns."""
    if record in ROWS:
        columns = ROWS[record](batch, options)
        arrays = [arrow_array(columns[name]) for name in schema.names]
    else:
        arrays = record_arrays(sorted(batch.records, key=order_of_record), record, schema.names, options)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def record_arrays(records: Sequence[Record], type_: str, names: Sequence[str], options: Options) -> list[pa.Array]:
    """Convert records to arrays, fields that several records share once."""
    numbers: dict[int, int] = {}
    places, different = list[int](), list[dict[str, Any]]()
    for record in records:
        number = numbers.setdefault(id(record.own), len(different))
        if number == len(different):
            different.append(shown_fields(record, options))
        places.append(number)
    common = [record.common for record in records]
    taken = column_array(np.array(places, np.int64)) if len(different) < len(records) else None

    def column(name: str, logical: str) -> pa.Array:
        if name == "file":
            return arrow_column([file_name(record.file) for record in records], logical)
        if name in COMMON_PLACES:
            return arrow_column([values[COMMON_PLACES[name]] for values in common], logical)
        made = arrow_column([own[name] for own in different], logical)
        return made if taken is None else made.take(taken)

    types = {field.name: field.type for field in RECORDS[type_].fields}
    return [column(name, types[name]) for name in names]


COMMON_PLACES = {field.name: place for place, field in enumerate(COMMON)}
"""Index of each field in `Record.common`."""

ROWS: dict[str, Callable[[Batch, Options], RowColumns[Any]]] = {
    "message": MessageColumns.of,
    "frame": lambda batch, _: FrameRowColumns.of(batch),
}


def arrow_column(values: list[Any], type_: str) -> pa.Array:
    """Convert values of a field type, as in records. The fields of a payload become JSON text."""
    if "json" in type_:  # only payloads contain JSON
        values = [payload and {**payload, "fields": json_text(payload["fields"])} for payload in values]
    return value_array(values, arrow_type(type_))
