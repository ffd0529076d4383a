"""Any item of a batch as a dict with every field of its record type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zmtpscope.capture.segments import FILE_SHIFT, PACKET_MASK
from zmtpscope.dissect import FrameRun, MessageRun, Options, Record
from zmtpscope.dissect.rows import frame_values, message_values
from zmtpscope.records import SCHEMA

MASK = "***"
"""What stands in place of a secret, whatever its size."""

LARGEST_INT = 2**63 - 1


def record_values(
    item: Record | MessageRun | FrameRun, index: int, files: Sequence[str | None], options: Options
) -> dict[str, Any]:
    """Every field of a record or row, by the names of `zmtpscope.records`; secrets masked unless asked for."""
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
        "file": files[packet >> FILE_SHIFT],
        "packet": packet & PACKET_MASK,
        "src_ip": stream.src_ip,
        "src_port": stream.src_port,
        "dst_ip": stream.dst_ip,
        "dst_port": stream.dst_port,
        "source": 0,
        "offset": offset,
        "length": int(item.bodies[last] + item.sizes[last]) - offset,
        **own,
    }


def _public(values: dict[str, Any], show_secrets: bool) -> dict[str, Any]:
    """A record that is not a row: without passwords, and without numbers that no signed 64 bits hold."""
    if values["record"] != "command":
        return values
    changes: dict[str, Any] = {}
    if not show_secrets:
        if values["password"] is not None:
            changes["password"] = MASK
        if values["name"] == "HELLO" and values["data"] is not None:
            # a HELLO that could not be read may hold credentials anywhere
            changes["data"] = None
    if values["nonce"] is not None and values["nonce"] > LARGEST_INT:
        changes["nonce"] = None
    return {**values, **changes} if changes else values
