"""Build the fields of a record, and the field trees of a message, from named reads."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.payloads.dissected import tiled
from zmtpscope.payloads.values import Json, plain, shown, to_key
from zmtpscope.zmtp.reader import FieldNode


class RecordBuilder:
    """Collects the fields of a record. New values go into the open object or array; at first this is `fields`
    itself."""

    __slots__ = ("_open", "fields")

    def __init__(self) -> None:
        self.fields: Json = {}
        self._open: Json = self.fields

    def store(self, name: str, value: Json) -> None:
        """Add a field to the open object, or an item to the open array."""
        into = self._open
        if isinstance(into, list):
            into.append(plain(value))
        else:
            into[to_key(name)] = plain(value)

    def existing(self, name: str, empty: Json) -> Json:
        """Return the field `name` of the open object, set to `empty` if it is missing."""
        return self._open.setdefault(to_key(name), empty)

    def enter(self, container: Json) -> Json:
        """Open an object or array. Return the previously open one, for `leave`."""
        outer, self._open = self._open, container
        return outer

    def leave(self, outer: Json) -> None:
        """Open the previous object or array again."""
        self._open = outer


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
        """Add the following nodes to the frame with this index."""
        self._frame = frame
        self._level = self.nodes.setdefault(frame, [])

    def leaf(self, name: str, start: int, length: int, value: Json) -> None:
        """Add a field of `length` octets at stream offset `start`."""
        self._level.append(FieldNode(name, start, length, shown(value)))

    def add(self, nodes: list[FieldNode]) -> None:
        """Add nodes that another parser has made."""
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
    """Return one node with these `nodes` as children. Unread octets become leaves, so that the leaves cover all octets
    (P5)."""
    children = tiled(nodes, start, octets)
    return FieldNode(name, start, len(octets), None if children else octets, children)
