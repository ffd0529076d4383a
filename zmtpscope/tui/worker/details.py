"""The details of a record: fields, octets and findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zmtpscope.dissect import Batch, Options
from zmtpscope.dissect.records.details import Detail
from zmtpscope.dissect.records.message_columns import MessageColumns
from zmtpscope.dissect.records.row_columns import FrameRowColumns
from zmtpscope.export.describe import DESCRIBE
from zmtpscope.export.details import MAX_FIELDS
from zmtpscope.export.rows import RowWords
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import record_values
from zmtpscope.filter import Filter
from zmtpscope.filter.writing import comparison
from zmtpscope.store import OctetsError, Store
from zmtpscope.tui.requests import Details, Node
from zmtpscope.tui.worker.members import NamedField, named_children
from zmtpscope.tui.worker.packets import nodes_of_packet
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
    """Return the details of a record: fields of octets, findings, and fields by output name.

    Without octets, `problem` is the reason and the rest is returned.
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
    """Return fields and description of the single record of a batch."""
    if batch.records:
        values = record_values(batch.records[0], options)
        return values, DESCRIBE[values["record"]](values)
    if batch.messages:
        messages = MessageColumns.of(batch, options)
        return messages.values(0), RowWords(messages, options, None).describe(0, 0)
    frames = FrameRowColumns.of(batch)
    return frames.values(0), RowWords(frames, options, None).describe(0, 0).strip()


def _nodes_of_unit(detail: Detail, source: int, values: dict[str, Any], most: int) -> Iterator[Node]:
    """Yield at most `most` fields of a greeting or frame, from top to bottom."""
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
    """Return a filter for a field of octets, "" if no field of the record contains the value."""
    name = RECORD_FIELDS.get(node.name)
    if name is None or node.value is None:
        return ""
    key = name, node.value
    if key not in known:
        text = comparison(name, node.value)
        known[key] = text if text is not None and Filter(text).holds(values) else ""
    return known[key]
