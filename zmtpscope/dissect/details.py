"""The field tree and the octets behind one record, made when somebody looks."""

from __future__ import annotations

from zmtpscope.dissect.batch import FrameRun, MessageRun, Record
from zmtpscope.zmtp.details import field_tree
from zmtpscope.zmtp.reader import FieldNode


def units(item: Record | MessageRun | FrameRun, index: int) -> list[tuple[int, bytes, FieldNode]]:
    """(stream offset, octets, field tree) of the greeting, command or frames that the record was made of.

    Frames whose octets were not kept, and records that stand for no octets (findings, gaps, connections), are left out.
    """
    if isinstance(item, Record):
        unit = item.unit
        return [] if unit is None else [(unit.offset, unit.octets, field_tree(unit.regime, unit.octets, unit.offset))]
    frames = range(int(item.first[index]), int(item.last[index]) + 1) if isinstance(item, MessageRun) else (index,)
    trees = []
    for frame in frames:
        offset = int(item.offsets[frame])
        stop = int(item.bodies[frame] + item.sizes[frame])
        octets = item.data[max(0, offset - item.base) : max(0, stop - item.base)]
        if offset >= item.base and octets:
            trees.append((offset, octets, field_tree(item.regime, octets, offset)))
    return trees
