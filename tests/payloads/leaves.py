"""P5 for payloads: the leaves of each frame's tree tile its body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zmtpscope.payloads.reader import Dissected, tiled


def leaves_of(made: Dissected, frames: Sequence[bytes]) -> list[tuple[str, Any]]:
    """Name and value of each leaf of what `tests.payloads.reading` dissected with trees; raises where they do not tile
    the frames."""
    found = []
    offset = 2
    for index, frame in enumerate(frames):
        at = offset
        for node in tiled(made.nodes.get(index, []), offset, frame):
            for leaf in node.leaves():
                assert leaf.start == at
                at += leaf.length
                found.append((leaf.name, leaf.value))
        assert at == offset + len(frame) or not made.nodes.get(index)
        offset += len(frame) + 2
    return found
