"""Spark names and types of the columns of each record type.

Processes that plan queries import this module, so it does not import pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

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
from zmtpscope.option_texts import check_columns, nearest
from zmtpscope.records import RECORDS, SINGULARS

SPARK: dict[str, DataType] = {
    "int": LongType(),
    "bool": BooleanType(),
    "text": StringType(),
    "octets": BinaryType(),
    "json": StringType(),
}
TIME = "time"
"""A column of Spark's tables only: `ts_ns` as a timestamp, in whole microseconds."""


def record_name(name: str) -> str:
    """Return the record type for the name of a type or table: "message" for "messages" and "message".

    Raises `ValueError` with a sentence.
    """
    record = SINGULARS.get(name.lower(), name.lower())
    if record not in RECORDS:
        raise ValueError(f"no table named {name!r}{nearest(name, SINGULARS)}")
    return record


def column_names(record: str, names: Sequence[str] | None = None) -> list[str]:
    """Return the names of all columns of a record type, or `names` after checking them.

    Raises `ValueError` with a sentence for an unknown column.
    """
    known = [field.name for field in RECORDS[record].fields]
    if names is None:
        return known
    check_columns(f"{record}s", names, known)
    return list(names)


def table_columns(record: str, names: Sequence[str] | None = None) -> list[str]:
    """Return the fields of the record type, with `time` after `ts_ns`; or `names` after checking them. Raises
    `ValueError` with a sentence for an unknown column."""
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
    Parquet. Comments explain the columns.

    `columns` selects columns of `format("zmtp")`, which may include `time`. Raises `ValueError` with a sentence for an
    unknown table or column.
    """
    record = record_name(record)
    names = column_names(record) if columns is None else table_columns(record, columns)
    return StructType([column_field(record, name) for name in names])


def column_field(record: str, name: str) -> StructField:
    return StructField(name, _column_type(record, name), metadata={"comment": _comment(record, name)})


def check_schema(record: str, given: StructType, others: Mapping[str, DataType]) -> None:
    """Check that a user's schema has columns of the record type, or `others`, with their types. Raises `ValueError`
    with a sentence."""
    table_columns(record, [name for name in given.fieldNames() if name not in others])
    for name in given.fieldNames():
        wanted, declared = others.get(name) or _column_type(record, name), given[name].dataType
        if wanted != declared:
            words = wanted.simpleString(), declared.simpleString()
            raise ValueError(f"the column {name!r} of {record}s is {words[0]}, not {words[1]}")
        if not given[name].nullable:
            raise ValueError(f"the column {name!r} of {record}s may be null")


def spark_type(type_: str) -> DataType:
    return translate(type_, SPARK, ArrayType, _spark_struct)


def _column_type(record: str, name: str) -> DataType:
    return TimestampType() if name == TIME else spark_type(column_types(record)[name])


def _comment(record: str, name: str) -> str:
    if name == TIME:
        return "Time of the packet, ts_ns in whole microseconds"
    field = next(field for field in RECORDS[record].fields if field.name == name)
    return field.meaning + (f" [{field.unit}]" if field.unit else "")


@cache
def column_types(record: str) -> dict[str, str]:
    return {field.name: field.type for field in RECORDS[record].fields}


def _spark_struct(members: dict[str, DataType]) -> DataType:
    return StructType([StructField(name, type_) for name, type_ in members.items()])
