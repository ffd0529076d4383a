"""Columns from folder names such as `day=2026-11-27`, as in other Spark sources.

A column has one type for all files: the first of int, bigint, double, date and string that fits every value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple
from urllib.parse import unquote

from pyspark.sql.types import DataType, DateType, DoubleType, IntegerType, LongType, StringType, StructField

Value = int | float | date | str | None

NULL = "__HIVE_DEFAULT_PARTITION__"


def _integer(bits: int) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if re.fullmatch("[+-]?[0-9]{1,19}", text) is None or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
            raise ValueError(text)
        return int(text)

    return parse


def _double(text: str) -> Value:
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)", text) is None:
        raise ValueError(text)
    return float(text)


def _date(text: str) -> Value:
    if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is None:
        raise ValueError(text)
    return date.fromisoformat(text)


TYPES: tuple[tuple[DataType, Callable[[str], Value]], ...] = (
    (IntegerType(), _integer(32)),
    (LongType(), _integer(64)),
    (DoubleType(), _double),
    (DateType(), _date),
    (StringType(), str),
)
"""Types of folder columns, with the parser of a folder name, which raises `ValueError`."""


class FolderColumn(NamedTuple):
    """A column for folders such as `day=2026-11-27`: its type, and its value for each capture file.

    A file outside of these folders has no value.
    """

    type: DataType
    values: Mapping[str, Value]

    def field(self, name: str) -> StructField:
        return StructField(name, self.type, metadata={"comment": f"From the folder {name}=... of the capture"})


def folder_columns(roots: Mapping[str, str]) -> dict[str, FolderColumn]:
    """Return the folder columns by name. `roots` maps each capture file to the folder (ending with a slash) below which
    columns begin."""
    texts: dict[str, dict[str, str | None]] = {}
    for file, root in roots.items():
        for folder in os.path.dirname(file.removeprefix(root)).split("/"):
            name, equals, value = folder.partition("=")
            if name and equals:
                text = unquote(value)
                texts.setdefault(unquote(name), {})[file] = None if text == NULL else text
    return {name: _column(of_files) for name, of_files in texts.items()}


def is_column(folder: str) -> bool:
    """Whether the name of a folder defines a column."""
    name, equals, _ = folder.partition("=")
    return bool(name and equals) and not folder.startswith((".", "_"))


def _column(texts: Mapping[str, str | None]) -> FolderColumn:
    for type_, parse in TYPES:
        try:
            return FolderColumn(type_, {file: None if text is None else parse(text) for file, text in texts.items()})
        except ValueError:
            continue
    raise AssertionError("every text is a string")
