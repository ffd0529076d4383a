"""Builds the field trees of one message from named reads."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.payloads.dissected import tiled
from zmtpscope.payloads.values import Json, shown
from zmtpscope.zmtp.reader import FieldNode


class Group(NamedTuple):
    """A node whose children are being read, and its level."""

    node: FieldNode
    level: list[FieldNode]


class TreeBuilder:
    """Collects `nodes`: the top-level nodes of each frame, by frame index."""

    __slots__ = ("_frame", "_level", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[int, list[FieldNode]] = {}

    def go_to(self, frame: int) -> None:
        """Add following nodes to this frame."""
        self._frame = frame
        self._level = self.nodes.setdefault(frame, [])

    def leaf(self, name: str, start: int, length: int, value: Json) -> None:
        """Add a field of `length` octets at stream offset `start`."""
        self._level.append(FieldNode(name, start, length, shown(value)))

    def add(self, nodes: list[FieldNode]) -> None:
        """Add nodes made elsewhere."""
        self._level += nodes

    def begin(self, name: str, start: int) -> Group:
        """Open a group of fields at stream offset `start`."""
        group = Group(FieldNode(name, start, 0), self._level)
        self._level.append(group.node)
        self._level = group.node.children
        return group

    def end(self, group: Group) -> None:
        """Close a group after the last node read, possibly in a later frame."""
        node, level = group
        if self.nodes.get(self._frame) is not self._level:
            self._level = level
        if node.children:
            last = node.children[-1]
            node.length = last.start + last.length - node.start
        elif level and level[-1] is node:
            level.pop()  # it has no octets


def tree_of(name: str, nodes: list[FieldNode], start: int, octets: bytes) -> FieldNode:
    """Return the tree of octets with these `nodes`. Unread octets become leaves, so that the leaves cover all (P5)."""
    children = tiled(nodes, start, octets)
    return FieldNode(name, start, len(octets), None if children else octets, children)
