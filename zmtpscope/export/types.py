"""Translate field types to other notations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from zmtpscope.records import RECORDS

T = TypeVar("T")


def translate(
    type_: str, simple: Mapping[str, T], list_of: Callable[[T], T], struct_of: Callable[[dict[str, T]], T]
) -> T:
    """Translate a field type of `zmtpscope.records`, such as "list<text>".

    `simple` has the translations of int, bool, text, octets and json; `list_of` and `struct_of` make lists and structs
    of translated types.
    """
    name, _, inner = type_.removesuffix(">").partition("<")
    if name == "list":
        return list_of(translate(inner, simple, list_of, struct_of))
    if name == "struct":  # no field of a struct is a list or struct itself
        members = dict(member.split(":") for member in inner.split(","))
        return struct_of({member: translate(of, simple, list_of, struct_of) for member, of in members.items()})
    return simple[name]


SPARK = {"int": "BIGINT", "bool": "BOOLEAN", "text": "STRING", "octets": "BINARY", "json": "STRING"}


def spark_schema(record: str) -> str:
    """Return Spark's DDL for the JSON lines and the Parquet file of a record type.

    Octets are base64 in JSON lines; Spark decodes them if the schema says BINARY. Names are quoted, since `offset` is a
    word of SQL.
    """
    types = {field.name: spark_type(field.type) for field in RECORDS[record].fields}
    return ", ".join(f"`{name}` {type_}" for name, type_ in types.items())


def spark_type(type_: str) -> str:
    return translate(type_, SPARK, "ARRAY<{}>".format, _spark_struct)


def _spark_struct(members: dict[str, str]) -> str:
    return f"STRUCT<{', '.join(f'{name}: {type_}' for name, type_ in members.items())}>"
