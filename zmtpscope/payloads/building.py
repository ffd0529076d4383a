"""Build record fields and field trees while a dissector reads a message."""

from __future__ import annotations

from typing import NamedTuple

from zmtpscope.payloads.dissected import tiled
from zmtpscope.payloads.values import Json, plain, shown, to_key
from zmtpscope.zmtp.reader import FieldNode


class RecordBuilder:
    """Collects the fields of a record.

    Values are added to the open object or array, at first to `fields`.
    """

    __slots__ = ("_open", "fields")

    def __init__(self) -> None:
        self.fields: Json = {}
        self._open: Json = self.fields

    def store(self, name: str, value: Json) -> None:
        """Add a value to the open object under this name, or to the open array."""
        into = self._open
        if isinstance(into, list):
            into.append(plain(value))
        else:
            into[to_key(name)] = plain(value)

    def existing(self, name: str, empty: Json) -> Json:
        return self._open.setdefault(to_key(name), empty)

    def enter(self, container: Json) -> Json:
        """Open an object or array for further values; return the previous one for `leave`."""
        outer, self._open = self._open, container
        return outer

    def leave(self, outer: Json) -> None:
        self._open = outer


class Group(NamedTuple):
    node: FieldNode
    level: list[FieldNode]


class TreeBuilder:
    """Builds the field tree of a message. `nodes` are the top-level nodes of each frame, by frame index."""

    __slots__ = ("_frame", "_level", "nodes")

    def __init__(self) -> None:
        self.nodes: dict[int, list[FieldNode]] = {}

    def go_to(self, frame: int) -> None:
        """Add later nodes to the tree of the frame with this index."""
        self._frame = frame
        self._level = self.nodes.setdefault(frame, [])

    def leaf(self, name: str, start: int, length: int, value: Json) -> None:
        self._level.append(FieldNode(name, start, length, shown(value)))

    def add(self, nodes: list[FieldNode]) -> None:
        """Add complete nodes from another parser."""
        self._level += nodes

    def begin(self, name: str, start: int) -> Group:
        group = Group(FieldNode(name, start, 0), self._level)
        self._level.append(group.node)
        self._level = group.node.children
        return group

    def end(self, group: Group) -> None:
        """Close a group, in the frame in which it was opened or in a later one."""
        node, level = group
        if self.nodes.get(self._frame) is not self._level:
            self._level = level
        if node.children:
            last = node.children[-1]
            node.length = last.start + last.length - node.start
        elif level and level[-1] is node:
            level.pop()  # it has no octets


def tree_of(name: str, nodes: list[FieldNode], start: int, octets: bytes) -> FieldNode:
    """Return a node with the children `nodes`, over `octets` at stream offset `start`.

    Octets that no child covers become leaves, so that the leaves cover all octets (P5).
    """
    children = tiled(nodes, start, octets)
    return FieldNode(name, start, len(octets), None if children else octets, children)
