"""Rows as Python objects: an attribute for each field, read from the columns on first access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from typing import Any, ClassVar, NamedTuple

from zmtpscope.dissect.records.columns import Booleans, Column, Integers, Lists, Words
from zmtpscope.dissect.records.row_columns import RowColumns
from zmtpscope.export.safe_text import safe_text
from zmtpscope.payloads.values import shortened
from zmtpscope.record_fields import COMMON, STREAM
from zmtpscope.records import RecordType

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LONGEST_SHOWN = 60
"""Characters of a value where a whole row is shown."""


class Payload(NamedTuple):
    protocol: str
    summary: str
    fields: Any


class Property(NamedTuple):
    name: str
    value: str


class Departure(NamedTuple):
    ts_ns: int
    conn_id: str
    cause: str
    by: str


class Evidence(NamedTuple):
    ts_ns: int
    file: str | None
    packet: int | None
    ref: str | None
    text: str


class Values(dict[str, Any]):
    """The fields of many records, as `values[field][row]`.

    A field is computed on first access: cheap fields for all rows at once, other fields row by row.
    """

    def __init__(self, columns: RowColumns[Any]) -> None:
        self._columns = columns

    def __missing__(self, field: str) -> Any:
        column = self._columns[field] if field in self._columns.derive else _total(self._columns["sizes"])
        self[field] = values = column.tolist() if isinstance(column, Integers | Words | Booleans) else column
        return values


def _total(sizes: Column) -> Column:
    """Return the total size of each message, which no record contains."""
    assert isinstance(sizes, Lists)
    return sizes.sums()


class Record:
    """A record with an attribute for each field of its type, None if unknown (docs/records.md).

    Message values are read on access from columns of many messages, so keeping one message keeps these columns in
    memory.
    """

    __slots__ = ("_row", "_values")

    type: ClassVar[RecordType]

    def __init__(self, values: Mapping[str, Any], row: int = 0) -> None:
        self._values = values
        self._row = row

    @property
    def time(self) -> datetime:
        """The time of the record, truncated to microseconds; `ts_ns` is exact."""
        return EPOCH + timedelta(microseconds=self._values["ts_ns"][self._row] // 1000)

    def as_dict(self) -> dict[str, Any]:
        """Return every field by name; octets are bytes."""
        return {field.name: self._values[field.name][self._row] for field in self.type.fields}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in shown_fields(self))})"

    def _repr_html_(self) -> str:
        rows = (f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in shown_fields(self))
        return f"<table><caption>{escape(type(self).__name__)}</caption>{''.join(rows)}</table>"


_PASSED_OVER = {field.name for field in (*COMMON, *STREAM)} - {"conn", "side", "packet"} | {
    "bodies_kept",
    "confidence",
    "last_packet",
    "packet_end",
    "ts_end_ns",
    "version",
}
"""Fields that are not displayed with a whole record."""


def shown_fields(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each field of a record, as text without control characters."""
    for field in record.type.fields:
        value = None if field.name in _PASSED_OVER else getattr(record, field.name)
        if value is not None and value != []:
            yield field.name, shortened(safe_text(repr(value)), LONGEST_SHOWN)


def class_of(type_: RecordType) -> type[Record]:
    members: dict[str, Any] = {field.name: _attribute(field.name, field.type, field.meaning) for field in type_.fields}
    if "sizes" in members:
        members["size"] = _attribute("size", "int", "Octets in all frames; None if they are unknown")
    members |= {"__doc__": f"{type_.meaning}.", "__module__": "zmtpscope", "__slots__": (), "type": type_}
    return type(class_name(type_.name), (Record,), members)


def class_name(record: str) -> str:
    """Return the name of the Python class for a record type: `ZrePair` for `zre_pair`."""
    return "".join(word.capitalize() for word in record.split("_"))


def _attribute(name: str, type_: str, meaning: str) -> property:
    convert = next((convert for start, convert in _STRUCTS.items() if type_.startswith(start)), None)

    def value(record: Record) -> Any:
        return record._values[name][record._row]

    def converted(record: Record) -> Any:
        found = record._values[name][record._row]
        return None if found is None or convert is None else convert(found)

    return property(value if convert is None else converted, doc=meaning)


_STRUCTS: dict[str, Callable[[Any], Any]] = {
    "struct<protocol": lambda payload: Payload(**payload),
    "list<struct<name": lambda properties: [Property(**each) for each in properties],
    "list<struct<ts_ns:int,conn_id": lambda departures: [Departure(**each) for each in departures],
    "list<struct<ts_ns:int,file": lambda evidence: [Evidence(**each) for each in evidence],
}
"""Named tuples for the structs of some field types."""


def check_class(record: object) -> None:
    """Raise `TypeError` unless `record` is a record class."""
    if not isinstance(record, type) or not issubclass(record, Record):
        raise TypeError(f"records are selected by class, for example zmtpscope.Finding, not {record!r}")
