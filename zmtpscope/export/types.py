"""The logical types of `zmtpscope.records` in other notations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def translate(
    type_: str, simple: Mapping[str, T], list_of: Callable[[T], T], struct_of: Callable[[dict[str, T]], T]
) -> T:
    """A logical type in another notation: `simple` has its words for int, bool, text, octets and json."""
    name, _, inner = type_.removesuffix(">").partition("<")
    if name == "list":
        return list_of(translate(inner, simple, list_of, struct_of))
    if name == "struct":  # no field of a struct is a list or struct itself
        members = dict(member.split(":") for member in inner.split(","))
        return struct_of({member: translate(of, simple, list_of, struct_of) for member, of in members.items()})
    return simple[name]


def spark_type(type_: str) -> str:
    """A logical type as Spark writes it in DDL. JSON lines give BINARY as base64, which Spark decodes."""
    return translate(type_, SPARK, "ARRAY<{}>".format, _spark_struct)


SPARK = {"int": "BIGINT", "bool": "BOOLEAN", "text": "STRING", "octets": "BINARY", "json": "STRING"}


def _spark_struct(members: dict[str, str]) -> str:
    return f"STRUCT<{', '.join(f'{name}: {type_}' for name, type_ in members.items())}>"
