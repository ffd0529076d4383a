"""The octets, the field tree and the packets behind one record, made when somebody looks."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.dissect.batch import FrameRun, MessageRun, PacketSlice, Record
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.reader import FieldNode


class Detail(NamedTuple):
    """One greeting or frame: the stream offset of its first octet, its octets, its fields, the packets it came in."""

    offset: int
    octets: bytes
    tree: FieldNode
    slices: list[PacketSlice]


def details(item: Record | MessageRun | FrameRun, index: int) -> list[Detail]:
    """The greeting, command or frames that a record was made of, in stream order.

    Ask with `Options.details` set. Frames whose octets were not kept, and records that stand for no octets (findings,
    gaps, connections), are left out.
    """
    if isinstance(item, Record):
        unit = item.unit
        if unit is None:
            return []
        tree = field_tree(unit.regime, unit.octets, unit.offset)
        return [Detail(unit.offset, unit.octets, tree, unit.slices)]
    first, last = index, index
    if isinstance(item, MessageRun):
        first, last = int(item.first[index]), int(item.last[index])
    found = []
    for frame in range(first, last + 1):
        start, stop = int(item.offsets[frame]), int(item.bodies[frame]) + int(item.sizes[frame])
        octets = item.data[max(0, start - item.base) : max(0, stop - item.base)]
        if start >= item.base and octets:
            slices = item.pieces.slices(start, stop) if item.pieces is not None else []
            found.append(Detail(start, octets, field_tree(item.regime, octets, start, inside=frame > first), slices))
    return found
