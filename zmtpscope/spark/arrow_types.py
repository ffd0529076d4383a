"""Arrow types of the columns of each record type, as Spark accepts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import DataType

from zmtpscope.export.types import translate
from zmtpscope.spark.schemas import TIME, column_types

ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.binary(), "json": pa.string()}
"""Arrow types for Spark, by field type. Spark accepts neither dictionaries nor types with 64-bit offsets."""

ARROW_FOLDERS = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "date": pa.date32(),
    "string": pa.string(),
}
"""Types of folder columns, by their names in Spark."""

ARROW_TIME = pa.timestamp("us", tz="UTC")


def arrow_schema(record: str, columns: Sequence[str], others: Mapping[str, DataType]) -> pa.Schema:
    """Return the schema of Arrow batches for Spark. Columns are fields of the record type, or named in `others` with
    their types."""
    own = {name: arrow_type(type_) for name, type_ in column_types(record).items()} | {TIME: ARROW_TIME}
    types = own | {name: ARROW_FOLDERS[type_.simpleString()] for name, type_ in others.items()}
    return pa.schema([(name, types[name]) for name in columns])


def arrow_type(type_: str) -> pa.DataType:
    """Return the Arrow type, for Spark, of a logical type of `zmtpscope.records`."""
    return translate(type_, ARROW, _arrow_list, _arrow_struct)


def _arrow_list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _arrow_struct(members: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list(members.items()))
