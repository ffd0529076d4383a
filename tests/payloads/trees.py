"""What the field trees of a message say."""

from __future__ import annotations

from zmtpscope.zmtp.reader import FieldNode


def values(nodes: list[FieldNode]) -> list[tuple[str, object]]:
    """Name, without prefix, and value of each leaf."""
    return [(leaf.name.partition(".")[2], leaf.value) for node in nodes for leaf in node.leaves()]
