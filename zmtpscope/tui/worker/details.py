"""The details of a record: fields, octets and findings, for the lower part of the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from zmtpscope.capture.packet_headers import HeaderField, header_fields
from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.records.details import Detail
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.clock import timestamp
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.details import MAX_FIELDS, value_text
from zmtpscope.export.rows import RowWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.filter.writing import comparison
from zmtpscope.store import OctetsError, Store
from zmtpscope.store.segment_index import WholePacket
from zmtpscope.tui.requests import Details, Node
from zmtpscope.tui.worker.record_fields import nodes_of_findings, nodes_of_record
from zmtpscope.tui.worker.sources import MAX_PACKETS, Sources
from zmtpscope.zmtp.reader import FieldNode

RECORD_FIELDS = {
    "zmtp.mechanism": "mechanism",
    "zmtp.as_server": "as_server",
    "zmtp.command.name": "name",
    "zmtp.metadata.name": "metadata.name",
    "zmtp.metadata.value": "metadata.value",
    "zmtp.size": "frame_sizes",
    "zmtp.body": "bodies",
    "zmtp1.body": "bodies",
    "plain.username": "username",
}
"""Record fields that usually equal a field of the octets; each filter is checked."""

MORE_FIELDS = f"... and more than {MAX_FIELDS:,} fields: read --json has all of them"


def details_of(store: Store, number: int) -> Details:
    """Return the details of a record: fields with their octets, findings, and fields by their names in outputs.

    If the octets are not available, `problem` is the reason, and the rest is returned.
    """
    values, line = row_of(store.batch([number]), store.options)
    sources = Sources()
    nodes: list[Node] = []
    problem = None
    try:
        for detail in store.details(number):
            nodes += _nodes_of_unit(detail, sources.add(detail), values, MAX_FIELDS - len(nodes))
            if len(nodes) >= MAX_FIELDS:
                nodes.append(Node(0, MORE_FIELDS, "", -1))
                break
        for shown in store.packets(values, number, MAX_PACKETS):
            nodes += nodes_of_packet(shown.packet, sources.add_packet(shown), values)
    except OctetsError as error:
        problem = safe_text(str(error))
    nodes += nodes_of_findings(store, number, values)
    nodes += nodes_of_record(store, number, values)
    return Details(number, line, tuple(nodes), sources.all(), problem or sources.problem)


def row_of(batch: Batch, options: Options) -> tuple[dict[str, Any], str]:
    """Return the fields, and the description, of the only record of a batch."""
    if batch.records:
        values = record_values(batch.records[0], options)
        return values, DESCRIBE[values["record"]](values)
    if batch.messages:
        messages = MessageColumns.of(batch, options)
        return messages.values(0), RowWords(messages, options, None).describe(0, 0)
    frames = FrameRowColumns.of(batch)
    return frames.values(0), RowWords(frames, options, None).describe(0, 0).strip()


def _nodes_of_unit(detail: Detail, source: int, values: dict[str, Any], most: int) -> Iterator[Node]:
    """Yield the fields of a greeting or frame as nodes, from top to bottom, at most `most`."""
    known: dict[tuple[str, Any], str] = {}
    waiting = [(0, NamedField(safe_text(detail.tree.name), detail.tree))]
    while waiting and most > 0:
        depth, field = waiting.pop()
        node = field.node
        waiting += [(depth + 1, child) for child in reversed(list(named_children(node)))]
        most -= 1
        stop = node.start + node.length
        filter, style = _filter_of(node, values, known), "member" if field.is_member else ""
        yield Node(depth, field.name, field.text, source, node.start, stop, style=style, filter=filter)


def _filter_of(node: FieldNode, values: dict[str, Any], known: dict[tuple[str, Any], str]) -> str:
    """Return a filter for the value of a field, or "" if no field of the record contains this value."""
    name = RECORD_FIELDS.get(node.name)
    if name is None or node.value is None:
        return ""
    key = name, node.value
    if key not in known:
        text = comparison(name, node.value)
        known[key] = text if text is not None and Filter(text).holds(values) else ""
    return known[key]


JSON_NUMBER = "json.number"

FORMATS = ("json", "messagepack", "cbor")
TOKENS = ("open", "close", "comma", "space", "pairs", "items")
"""Parts of a container that have no value."""


class NamedField(NamedTuple):
    """A field with the name to show. `is_member`: the name is a key or an index of a decoded payload."""

    name: str
    node: FieldNode
    is_member: bool = False

    @property
    def text(self) -> str:
        """The value as text without control characters. Numbers in decoded payloads are not repeated in hex."""
        value = self.node.value
        if value is None:
            return ""
        if self.is_member and (isinstance(value, int | float) or self.node.name == JSON_NUMBER):
            return safe_text(str(value))
        return value_text(self.node)


def named_children(node: FieldNode) -> Iterator[NamedField]:
    """Yield the fields inside of a field. Members of a container (object, array) are named by their key or index.

    The octets of a member include those of its key.
    """
    key: FieldNode | None = None
    index = 0
    for child in node.children:
        kind, _, word = child.name.partition(".")
        if not node.name.startswith(f"{kind}.") or kind not in FORMATS:
            yield NamedField(safe_text(child.name), child)
        elif key is not None:
            start, stop = key.start, child.start + child.length
            member = FieldNode(child.name, start, stop - start, child.value, child.children)
            yield NamedField(safe_text(str(key.value)), member, is_member=True)
            key = None
        elif word == "key":
            key = child
        elif word not in TOKENS:
            yield NamedField(f"[{index}]", child, is_member=True)
            index += 1


ADDRESSES = {"ip.src": "src_ip", "ip.dst": "dst_ip", "ipv6.src": "src_ip", "ipv6.dst": "dst_ip"}
PORTS = {"tcp.srcport": "src_port", "tcp.dstport": "dst_port"}
"""Record fields that contain a value of a header."""


def nodes_of_packet(packet: WholePacket, source: int, values: Mapping[str, Any]) -> Iterator[Node]:
    """Yield the header fields of a packet that carries octets of a record, from top to bottom.

    `values` are the fields of the record. The time is known only for the first and the last packet of the record.
    """
    number, size = packet.reference & PACKET_MASK, len(packet.octets)
    time = {values["packet"]: values["ts_ns"], values.get("packet_end"): values.get("ts_end_ns")}.get(number)
    when = "" if time is None else f", {timestamp(time)}"
    filter = comparison("packet", number) if number == values["packet"] else None
    yield Node(0, f"packet {number}", f"{size} octets{when}", source, 0, size, filter=filter or "")
    fields = list(header_fields(packet.octets, packet.start))
    for place, field in enumerate(fields):
        value = field.value or _ends_of(fields[place + 1 :], field.depth)
        yield Node(field.depth + 1, field.name, value, source, field.start, field.stop, filter=_filter_of_header(field))
    payload = f"{packet.stop - packet.start} octets of the stream from {packet.begin} on"
    yield Node(1, "tcp.payload", payload, source, packet.start, packet.stop)
    if packet.stop < size:
        yield Node(1, "padding", f"{size - packet.stop} octets", source, packet.stop, size)


def _ends_of(fields: Iterable[HeaderField], depth: int) -> str:
    """Return source and destination of a header: `10.0.0.1 > 10.0.0.2` for IP, `40000 > 5555` for TCP.

    `fields` begin with the fields of the header; its last one is before the next field at `depth`.
    """
    inside = takewhile(lambda field: field.depth > depth, fields)
    return " > ".join(field.value for field in inside if field.name in ADDRESSES or field.name in PORTS)


def _filter_of_header(field: HeaderField) -> str:
    if field.name in ADDRESSES:
        return comparison(ADDRESSES[field.name], field.value) or ""
    return (comparison(PORTS[field.name], int(field.value)) or "") if field.name in PORTS else ""
