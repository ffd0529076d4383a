"""Any item of a batch as a dict with every field of its record type."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import FrameRun, MessageRun, Options, Record
from zmtpscope.dissect.records.rows import frame_values, message_values
from zmtpscope.export.secrets import hidden_fields
from zmtpscope.records import RECORDS, SCHEMA

LARGEST_INT = 2**63 - 1

_NUMBERS = {name: [field.name for field in type_.fields if field.type == "int"] for name, type_ in RECORDS.items()}
"""The fields of each record type that hold a number."""


def record_values(
    item: Record | MessageRun | FrameRun, index: int, files: Sequence[str | None], options: Options
) -> dict[str, Any]:
    """Every field of a record or row, by the names of `zmtpscope.records`; secrets masked unless asked for.

    Numbers that no signed 64 bits hold are null.
    """
    if isinstance(item, Record):
        return _public(item.values, options.show_secrets)
    if isinstance(item, MessageRun):
        first, last = int(item.first[index]), int(item.last[index])
        own = message_values(item, index, options)
        kind = "message"
    else:
        first = last = index
        own = frame_values(item, index)
        kind = "frame"
    offset = int(item.offsets[first])
    packet = int(item.packets[index])
    stream = item.stream
    return {
        "schema": SCHEMA,
        "record": kind,
        "conn": stream.conn,
        "conn_id": stream.conn_id,
        "side": stream.side,
        "ts_ns": int(item.times[index]),
        "file": file_name(files[packet >> FILE_SHIFT]),
        "packet": packet & PACKET_MASK,
        "src_ip": stream.src_ip,
        "src_port": stream.src_port,
        "dst_ip": stream.dst_ip,
        "dst_port": stream.dst_port,
        "source": item.source,
        "offset": offset,
        "length": item.length(first, last),
        **own,
    }


def as_base64(value: object) -> str:
    """Octets as JSON has them."""
    if isinstance(value, bytes):
        return b2a_base64(value, newline=False).decode()
    raise TypeError(f"no JSON for {type(value).__name__}")


def file_name(name: str | None) -> str | None:
    """A file name as text; what is no UTF-8 in it becomes an escape."""
    return name if name is None or name.isascii() else name.encode("utf-8", "backslashreplace").decode()


def _public(values: dict[str, Any], show_secrets: bool) -> dict[str, Any]:
    """The fields of a record that is not a row: without secrets, and what no output can hold as null."""
    changes: dict[str, Any] = {}
    for name in _NUMBERS[values["record"]]:
        if (number := values[name]) is not None and number > LARGEST_INT:
            changes[name] = None
    if values["file"] is not None and not values["file"].isascii():
        changes["file"] = file_name(values["file"])
    if values["record"] == "command" and not show_secrets:
        changes.update(hidden_fields(values))
    return {**values, **changes} if changes else values
