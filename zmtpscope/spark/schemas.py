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
)

from zmtpscope.export.types import translate
from zmtpscope.option_texts import nearest
from zmtpscope.records import PLURALS, RECORDS

SPARK: dict[str, DataType] = {
    "int": LongType(),
    "bool": BooleanType(),
    "text": StringType(),
    "octets": BinaryType(),
    "json": StringType(),
}
ARROW = {"int": pa.int64(), "bool": pa.bool_(), "text": pa.string(), "octets": pa.binary(), "json": pa.string()}
"""Spark takes no dictionaries and none of the types with offsets of 64 bits."""

SINGULARS = {plural: name for name, plural in PLURALS.items()}


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


def schema(record: str, columns: Sequence[str] | None = None) -> StructType:
    """The schema of a table ("messages", "findings", ...), of all its columns or of these.

    It fits what `format("zmtp")` gives as well as the JSON lines and Parquet files of `zmtpscope export`. Raises
    `ValueError` with a sentence where there is no such table or column.
    """
    record = record_name(record)
    types = _types(record)
    return StructType([StructField(name, spark_type(types[name])) for name in column_names(record, columns)])


def check_schema(record: str, given: StructType) -> None:
    """Whether a schema that the user declared has columns of the record type, as they are. Raises `ValueError` with a
    sentence."""
    for name in column_names(record, given.fieldNames()):
        wanted, declared = spark_type(_types(record)[name]), given[name].dataType
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
    return pa.schema([(name, arrow_type(types[name])) for name in columns])


def arrow_type(type_: str) -> pa.DataType:
    """A logical type of `zmtpscope.records` in Arrow, as Spark takes it."""
    return translate(type_, ARROW, _arrow_list, _arrow_struct)


@cache
def _types(record: str) -> dict[str, str]:
    return {field.name: field.type for field in RECORDS[record].fields}


def _spark_struct(members: dict[str, DataType]) -> DataType:
    return StructType([StructField(name, type_) for name, type_ in members.items()])


def _arrow_list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def _arrow_struct(members: dict[str, pa.DataType]) -> pa.DataType:
    return pa.struct(list(members.items()))
