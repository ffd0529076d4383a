"""The columns of each record type, as Spark names and types them; loops over `zmtpscope.records`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zmtpscope.export.types import translate
from zmtpscope.option_texts import nearest
from zmtpscope.records import RECORDS, SINGULARS

SPARK: dict[str, DataType] = {
    "int": LongType(),
    "bool": BooleanType(),
    "text": StringType(),
    "octets": BinaryType(),
    "json": StringType(),
}
ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.binary(), "json": pa.string()}
"""Spark takes no dictionaries and none of the types with offsets of 64 bits."""

TIME = "time"
"""The column that only Spark's tables have: `ts_ns` as a timestamp, in whole microseconds."""
ARROW_TIME = pa.timestamp("us", tz="UTC")


def record_name(name: str) -> str:
    """The record type of a table: "messages" and "message" are "message". Raises `ValueError` with a sentence."""
    record = SINGULARS.get(name.lower(), name.lower())
    if record not in RECORDS:
        raise ValueError(f"there is no table {name!r}{nearest(name, SINGULARS)}")
    return record


def column_names(record: str, names: Sequence[str] | None = None) -> list[str]:
    """The columns of a record type; those of `names`, in their order, if they are given.

    Raises `ValueError` with a sentence where the record type has no such column.
    """
    known = [field.name for field in RECORDS[record].fields]
    if names is None:
        return known
    for name in names:
        if name not in known:
            raise ValueError(f"{record}s has no column {name!r}{nearest(name, known)}")
        if names.count(name) > 1:
            raise ValueError(f"{record}s has the column {name!r} twice")
    return list(names)


def table_columns(record: str, names: Sequence[str] | None = None) -> list[str]:
    """The columns of a table of captures: those of the record type, and `time` after `ts_ns`; those of `names`, in
    their order, if they are given. Raises `ValueError` as `column_names` does."""
    if names is None:
        known = column_names(record)
        known.insert(known.index("ts_ns") + 1, TIME)
        return known
    column_names(record, [name for name in names if name != TIME])
    if names.count(TIME) > 1:
        raise ValueError(f"{record}s has the column {TIME!r} twice")
    return list(names)


def schema(record: str, columns: Sequence[str] | None = None) -> StructType:
    """Return the schema of a table ("messages", "findings", ...) that `zmtpscope export` writes as JSON lines or
    Parquet, with all its columns or these. A comment says what each column means.

    With `columns`, which may name `time`, it selects the columns of `format("zmtp")`. Raises `ValueError` with a
    sentence where there is no such table or column.
    """
    record = record_name(record)
    return StructType(
        [
            StructField(name, _column_type(record, name), metadata={"comment": _comment(record, name)})
            for name in (column_names(record) if columns is None else table_columns(record, columns))
        ]
    )


def table_schema(record: str, columns: Sequence[str] | None = None) -> StructType:
    """Return the schema of a table of captures, which has the column `time` besides those of `schema`."""
    return schema(record, table_columns(record_name(record), columns))


def check_schema(record: str, given: StructType) -> None:
    """Whether a schema that the user declared has columns of the record type, as they are. Raises `ValueError` with a
    sentence."""
    for name in table_columns(record, given.fieldNames()):
        wanted, declared = _column_type(record, name), given[name].dataType
        if wanted != declared:
            words = wanted.simpleString(), declared.simpleString()
            raise ValueError(f"the column {name!r} of {record}s is {words[0]}, not {words[1]}")
        if not given[name].nullable:
            raise ValueError(f"the column {name!r} of {record}s may be null")


def spark_type(type_: str) -> DataType:
    """A logical type of `zmtpscope.records` in Spark."""
    return translate(type_, SPARK, ArrayType, _spark_struct)


def arrow_schema(record: str, columns: Sequence[str]) -> pa.Schema:
    """The schema of the Arrow batches that Spark takes for these columns of a record type."""
    types = _types(record)
    return pa.schema([(name, ARROW_TIME if name == TIME else arrow_type(types[name])) for name in columns])


def arrow_type(type_: str) -> pa.DataType:
    """A logical type of `zmtpscope.records` in Arrow, as Spark takes it."""
    return translate(type_, ARROW, _arrow_list, _arrow_struct)


def _column_type(record: str, name: str) -> DataType:
    return TimestampType() if name == TIME else spark_type(_types(record)[name])


def _comment(record: str, name: str) -> str:
    if name == TIME:
        return "Time of the packet, ts_ns in whole microseconds"
    field = next(field for field in RECORDS[record].fields if field.name == name)
    return field.meaning + (f" [{field.unit}]" if field.unit else "")


@cache
def _types(record: str) -> dict[str, str]:
    return {field.name: field.type for field in RECORDS[record].fields}


def _spark_struct(members: dict[str, DataType]) -> DataType:
    return StructType([StructField(name, type_) for name, type_ in members.items()])


def _arrow_list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _arrow_struct(members: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list(members.items()))
