"""The packets of a record as fields: headers, and octets of the stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any

from zmtpscope.capture.packet_headers import HeaderField, header_fields
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.export.clock import timestamp
from zmtpscope.filter.writing import comparison
from zmtpscope.store.segment_index import WholePacket
from zmtpscope.tui.requests import Node

ADDRESSES = {"ip.src": "src_ip", "ip.dst": "dst_ip", "ipv6.src": "src_ip", "ipv6.dst": "dst_ip"}
PORTS = {"tcp.srcport": "src_port", "tcp.dstport": "dst_port"}
"""Record fields that contain a value of a header."""


def nodes_of_packet(packet: WholePacket, source: int, values: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the fields of a packet with octets of a record, from top to bottom.

    Its time is known for the first and last packet of the record only (`values`).
    """
    number, size = packet.reference & PACKET_MASK, len(packet.octets)
    time = {values["packet"]: values["ts_ns"], values.get("packet_end"): values.get("ts_end_ns")}.get(number)
    when = "" if time is None else f", {timestamp(time)}"
    filter = comparison("packet", number) if number == values["packet"] else None
    yield Node(0, f"packet {number}", f"{size} octets{when}", source, 0, size, filter=filter or "")
    fields = list(header_fields(packet.octets, packet.start))
    for place, field in enumerate(fields):
        value = field.value or _ends_of(fields[place + 1 :], field.depth)
        yield Node(field.depth + 1, field.name, value, source, field.start, field.stop, filter=_filter_of(field))
    payload = f"{packet.stop - packet.start} octets of the stream from {packet.begin} on"
    yield Node(1, "tcp.payload", payload, source, packet.start, packet.stop)
    if packet.stop < size:
        yield Node(1, "padding", f"{size - packet.stop} octets", source, packet.stop, size)


def _ends_of(fields: Iterable[HeaderField], depth: int) -> str:
    """Return source and destination from the fields of a header, which precede the next field at `depth`."""
    inside = takewhile(lambda field: field.depth > depth, fields)
    return " > ".join(field.value for field in inside if field.name in ADDRESSES or field.name in PORTS)


def _filter_of(field: HeaderField) -> str:
    if field.name in ADDRESSES:
        return comparison(ADDRESSES[field.name], field.value) or ""
    return (comparison(PORTS[field.name], int(field.value)) or "") if field.name in PORTS else ""
