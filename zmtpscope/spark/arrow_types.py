"""The columns of each record type in Arrow, with the types that Spark takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import DataType

from zmtpscope.export.types import translate
from zmtpscope.spark.schemas import TIME, column_types

ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.binary(), "json": pa.string()}
"""Spark takes no dictionaries and none of the types with offsets of 64 bits."""

ARROW_FOLDERS = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "string": pa.string(),
}
"""The types of columns that folders are, by their names in Spark."""

ARROW_TIME = pa.timestamp("us", tz="UTC")


def arrow_schema(record: str, columns: Sequence[str], others: Mapping[str, DataType]) -> pa.Schema:
    """The schema of the Arrow batches that Spark takes for these columns of a record type, or `others`."""
    own = {name: arrow_type(type_) for name, type_ in column_types(record).items()} | {TIME: ARROW_TIME}
    types = own | {name: ARROW_FOLDERS[type_.simpleString()] for name, type_ in others.items()}
    return pa.schema([(name, types[name]) for name in columns])


def arrow_type(type_: str) -> pa.DataType:
    """A logical type of `zmtpscope.records` in Arrow, as Spark takes it."""
    return translate(type_, ARROW, _arrow_list, _arrow_struct)


def _arrow_list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _arrow_struct(members: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list(members.items()))
