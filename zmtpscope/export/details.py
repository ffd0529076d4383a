"""Prints the octets of a record, field by field (`-V`) and in hex (`-x`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from zmtpscope.capture.segments import PACKET_MASK
from zmtpscope.dissect.records.details import Detail
from zmtpscope.dissect.records.tables import PacketSlice
from zmtpscope.export.preview import preview, quoted
from zmtpscope.export.safe_text import safe_text
from zmtpscope.export.values import secret_spans
from zmtpscope.records import MASK
from zmtpscope.words import listed
from zmtpscope.zmtp.reader import FieldNode

INDENT = "    "
SHOWN_PACKETS = 8
OPENED = 1
"""The last source with octets from packets. Later sources are unpacked from messages."""
MAX_FIELDS = 20_000
"""Fields of a unit to print; a message with a dissector has at most half as many."""
ROW = 16


def tree_lines(detail: Detail, show_secrets: bool) -> Iterator[str]:
    """Yield a line for each field of a record, with value and stream offsets (both included).

    The first line names the packets of the record. Secrets are masked unless `show_secrets`.
    """
    secrets = [] if show_secrets else secret_spans(detail.tree)
    lines = _node_lines(detail.tree, INDENT, secrets)
    where = f"source {detail.source}" if detail.source > OPENED else _packets(detail.slices)
    yield f"{next(lines):<60} {where}".rstrip()
    yield from islice(lines, MAX_FIELDS)
    if next(lines, None) is not None:
        yield f"{INDENT}... and more than {MAX_FIELDS:,} fields: --json has all of them"


def _packets(slices: list[PacketSlice]) -> str:
    """Name the packets of a record: `packet 12`, or several packets with the octets of each."""
    if len(slices) == 1:
        return f"packet {slices[0].packet & PACKET_MASK}"
    names = [f"{part.packet & PACKET_MASK} {_place(part.start, part.stop)}" for part in slices]
    return f"packets {listed(names, SHOWN_PACKETS)}" if slices else ""


def _place(start: int, stop: int) -> str:
    return f"[{start}..{stop - 1}]" if stop - start > 1 else f"[{start}]" if stop > start else ""


def _node_lines(node: FieldNode, indent: str, secrets: list[range]) -> Iterator[str]:
    place = _place(node.start, node.start + node.length)
    value = ""
    if node.value is not None:
        hidden = any(node.start in span for span in secrets if node.length)
        value = MASK if hidden else value_text(node)
    yield f"{indent}{safe_text(node.name):<{max(1, 40 - len(indent))}} {place:<14} {value}".rstrip()
    for child in node.children:
        yield from _node_lines(child, indent + "  ", secrets)


def value_text(node: FieldNode) -> str:
    """Format the value of a field; the value must not be null."""
    if isinstance(node.value, bytes):
        size = len(node.value)
        return preview(node.value, size, 64) + (f" ({size} octets)" if size > 16 else "")
    if isinstance(node.value, int):
        return f"{node.value} (0x{node.value:x})" if node.value > 9 else f"{node.value}"
    return quoted(node.value or "", 100)


def hex_lines(detail: Detail, show_secrets: bool) -> Iterator[str]:
    """Yield lines of hex digits with stream offsets. Secret octets become asterisks unless `show_secrets`."""
    secrets = [] if show_secrets else secret_spans(detail.tree)
    octets = detail.octets
    for start in range(0, len(octets), ROW):
        row = octets[start : start + ROW]
        digits = [f"{octet:02x}" for octet in row]
        letters = [chr(octet) if 0x20 <= octet < 0x7F else "." for octet in row]
        for span in secrets:
            for place in range(
                max(0, span.start - detail.offset - start), min(len(row), span.stop - detail.offset - start)
            ):
                digits[place], letters[place] = "**", "*"
        yield f"{INDENT}{detail.offset + start:08x}  {' '.join(digits):<{3 * ROW - 1}}  {''.join(letters)}"
