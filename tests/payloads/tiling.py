"""Seam P5 for payloads: the leaves of a frame's tree tile it."""

from __future__ import annotations

from tests.payloads.reading import START
from zmtpscope.payloads.reader import Dissected, tiled
from zmtpscope.zmtp.reader import FieldNode


def assert_tiled(made: Dissected, *frames: bytes) -> list[FieldNode]:
    """P5: the leaves of each frame follow one another and leave no octet out; those of all frames."""
    leaves = []
    at = START
    for index, frame in enumerate(frames):
        begin = at
        for node in tiled(made.nodes.get(index, []), at, frame):
            for leaf in node.leaves():
                assert (leaf.start, leaf.length > 0) == (begin, True)
                begin += leaf.length
                leaves.append(leaf)
        assert begin == at + len(frame) or not made.nodes.get(index)
        at += len(frame) + 2
    return leaves
