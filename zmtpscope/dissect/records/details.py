"""Octets, field tree and packets of one record, made on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from zmtpscope.dissect.records.batch import Record
from zmtpscope.dissect.records.tables import FrameTable, MessageTable, PacketSlice
from zmtpscope.payloads.dissected import Dissected, tiled
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.reader import FieldNode


class Detail(NamedTuple):
    """Octets, field tree and packets of one greeting, command or frame.

    Unpacked contents follow the frames of a message; their `source` is 2 or more, and offsets count within them.
    """

    offset: int
    octets: bytes
    tree: FieldNode
    slices: list[PacketSlice]
    source: int = 0
    secrets: Sequence[range] = ()
    """Offsets of octets to hide, perhaps already replaced by stars."""


def details(item: Record | MessageTable | FrameTable, index: int) -> Iterator[Detail]:
    """Yield octets, field trees and packets of a record: its greeting, its command, or each of its frames.

    `index` is the row if `item` is a table. Requires `Options.details`. Frames whose octets were not kept are skipped,
    and records without octets (findings, gaps, connections) yield none. A leftover yields its first octets.
    """
    if isinstance(item, Record):
        unit = item.unit
        if unit is None:
            values = item.values
            if (
                item.type == "leftover" and values["data"] and values["bytes"] == values["length"]
            ):  # the octets are contiguous
                yield _not_understood(values)
            return
        tree, source = unit.tree, 0
        if unit.regime is not None:
            tree, source = field_tree(unit.regime, unit.octets, unit.offset), unit.regime.source
        if tree is not None:
            yield Detail(unit.offset, unit.octets, tree, unit.slices, source)
        return
    first, last = index, index
    made: Dissected | None = None
    if isinstance(item, MessageTable):
        first, last = int(item.first[index]), int(item.last[index])
        made = item.made(index)
    for frame in range(first, last + 1):
        start, stop = int(item.offsets[frame]), int(item.bodies[frame]) + int(item.sizes[frame])
        octets = item.data[max(0, start - item.base) : max(0, stop - item.base)]
        if start >= item.base and octets:
            pieces = item.sender.pieces
            slices = [] if pieces is None else pieces.slices(start, start + len(octets))
            tree = field_tree(item.regime, octets, start, inside=frame > first)
            secrets: Sequence[range] = ()
            if made is not None:
                body = int(item.bodies[frame])
                if frame - first in made.secrets:
                    secrets = [range(body, stop)]
                put_inside(tree, made.nodes.get(frame - first, []), body, octets[body - start :])
            yield Detail(start, octets, tree, slices, item.source, secrets)
    for packed in made.sources if made is not None else ():
        yield Detail(0, packed.octets, packed.tree, [], packed.number)


def _not_understood(values: dict[str, Any]) -> Detail:
    offset, octets = values["offset"], values["data"]
    return Detail(offset, octets, FieldNode("not understood", offset, len(octets), octets), [])


def put_inside(tree: FieldNode, nodes: list[FieldNode], start: int, body: bytes) -> None:
    """Replace the body of a frame, at offset `start`, by the field tree of its payload."""
    inside = tiled(nodes, start, body)
    leaf = next((leaf for leaf in tree.leaves() if leaf.start == start and leaf.length == len(body)), None)
    if inside and leaf is not None:
        leaf.value, leaf.children = None, inside
