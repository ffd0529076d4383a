"""Any record that is no row as a dict with every field of its record type."""

from __future__ import annotations

from binascii import b2a_base64
from operator import itemgetter
from typing import Any

from zmtpscope.dissect import Options, Record
from zmtpscope.dissect.records.row_columns import file_name
from zmtpscope.export.secrets import hidden_fields
from zmtpscope.records import RECORDS

LARGEST_INT = 2**63 - 1

_NUMBERS = {name: [field.name for field in type_.fields if field.type == "int"] for name, type_ in RECORDS.items()}
"""The fields of each record type that hold a number, ..."""
_NUMBERS_OF = {name: itemgetter(*fields) for name, fields in _NUMBERS.items()}
"""... and how these are had."""


def record_values(record: Record, options: Options) -> dict[str, Any]:
    """Every field of a record, by the names of `zmtpscope.records`; secrets masked unless asked for.

    Numbers that no signed 64 bits hold are null.
    """
    values = record.values
    type_ = values["record"]
    changes: dict[str, Any] = {}
    if max(filter(None, _NUMBERS_OF[type_](values)), default=0) > LARGEST_INT:
        changes = {name: None for name in _NUMBERS[type_] if (values[name] or 0) > LARGEST_INT}
    if values["file"] is not None and not values["file"].isascii():
        changes["file"] = file_name(values["file"])
    if type_ == "command" and not options.show_secrets:
        changes.update(hidden_fields(values))
    return {**values, **changes} if changes else values


def as_base64(value: object) -> str:
    """Octets as JSON has them."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")
