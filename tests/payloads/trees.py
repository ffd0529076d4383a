"""Whether the field trees of a message tile its octets (P5), and what they say."""

from __future__ import annotations

from zmtpscope.payloads.reader import Dissected, tiled
from zmtpscope.zmtp.reader import FieldNode


def assert_tiles(made: Dissected, frame: int, start: int, octets: bytes) -> None:
    """P5: the leaves of a frame's tree, which begins at `start` of its stream, name each octet once; so do those of all
    sources."""
    tree = FieldNode("body", start, len(octets), None, tiled(made.nodes.get(frame, []), start, octets))
    if tree.children:
        _assert_tiles(tree)
    for source in made.sources:
        assert source.tree.start == 0
        assert source.tree.length == len(source.octets)
        _assert_tiles(source.tree)


def _assert_tiles(tree: FieldNode) -> None:
    at = tree.start
    for leaf in tree.leaves():
        assert leaf.start == at, leaf
        at += leaf.length
    assert at == tree.start + tree.length


def values(nodes: list[FieldNode]) -> list[tuple[str, object]]:
    """Name, without prefix, and value of each leaf."""
    return [(leaf.name.partition(".")[2], leaf.value) for node in nodes for leaf in node.leaves()]
