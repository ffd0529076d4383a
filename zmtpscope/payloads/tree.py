"""The field trees of one message, as named reads give their nodes."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.payloads.dissected import tiled
from zmtpscope.payloads.values import Json, shown
from zmtpscope.zmtp.reader import FieldNode


class Group(NamedTuple):
    """A node whose children are being read, and the level that it stands on."""

    node: FieldNode
    level: list[FieldNode]


class TreeBuilder:
    """`nodes` are those on the uppermost level of each frame, by the index of the frame."""

    __slots__ = ("_frame", "_level", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[int, list[FieldNode]] = {}

    def go_to(self, frame: int) -> None:
        """What is read from now on stands in this frame."""
        self._frame = frame
        self._level = self.nodes.setdefault(frame, [])

    def leaf(self, name: str, start: int, length: int, value: Json) -> None:
        """A field of `length` octets from stream offset `start` on."""
        self._level.append(FieldNode(name, start, length, shown(value)))

    def add(self, nodes: list[FieldNode]) -> None:
        """Nodes that somebody else made."""
        self._level += nodes

    def begin(self, name: str, start: int) -> Group:
        """A group of fields begins at stream offset `start`."""
        group = Group(FieldNode(name, start, 0), self._level)
        self._level.append(group.node)
        self._level = group.node.children
        return group

    def end(self, group: Group) -> None:
        """It ends with what was read last; another frame may have begun meanwhile."""
        node, level = group
        if self.nodes.get(self._frame) is not self._level:
            self._level = level
        if node.children:
            last = node.children[-1]
            node.length = last.start + last.length - node.start
        elif level and level[-1] is node:
            level.pop()  # it has no octets


def tree_of(name: str, nodes: list[FieldNode], start: int, octets: bytes) -> FieldNode:
    """The tree of octets of which `nodes` were read; those that nobody read are a leaf, so that the leaves tile them
    (P5)."""
    children = tiled(nodes, start, octets)
    return FieldNode(name, start, len(octets), None if children else octets, children)
