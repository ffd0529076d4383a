"""Filters from the value of a cell, and for the conversations of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zmtpscope.export.preview import quoted
from zmtpscope.filter.checking import operand_of
from zmtpscope.filter.writing import comparison
from zmtpscope.records import to_text
from zmtpscope.tui.requests import Followed
from zmtpscope.tui.worker.sides import Sides

Values = Mapping[str, Any]

FIELDS_OF_COLUMNS = {
    "time": ("ts_ns",),
    "from": ("src_ip", "src_port"),
    "to": ("dst_ip", "dst_port"),
    "src": ("src_ip", "src_port"),
    "dst": ("dst_ip", "dst_port"),
    "content": ("payload.protocol",),
    "after": ("ts_ns",),
    **dict.fromkeys(("left", "right", "left_hex", "right_hex"), ("conn", "side")),
}
"""Fields of columns that have no field of their name."""


def cell_filter(values: Values, column: str) -> str | None:
    """Return a filter for records with the same values in a column, or None."""
    conditions = []
    for name in FIELDS_OF_COLUMNS.get(column, (column,)):
        found = [comparison(name, value) for value in operand_of(name).values(values)]
        if len(found) != 1 or found[0] is None:
            return None
        conditions.append(found[0])
    return " && ".join(conditions)


def followed(values: Values, sides: Sides) -> Iterator[Followed]:
    conn = values.get("conn")
    if conn is None:
        return
    yield Followed("conn", f"connection {conn}", f"conn == {conn}")
    topic = values.get("topic")
    if topic is not None and (filter := comparison("topic", topic)) is not None:
        yield Followed("topic", f"topic {quoted(to_text(topic) if isinstance(topic, bytes) else topic)}", filter)
    for side in (values.get("side"), None if values.get("side") is None else 1 - values["side"]):
        identity = None if side is None else sides.announced(conn, side)[1]
        if identity:
            conns = ", ".join(map(str, sides.connections_of(identity)))
            yield Followed("peer", f"peer {quoted(identity)}", f"conn in {{{conns}}}")
            return
