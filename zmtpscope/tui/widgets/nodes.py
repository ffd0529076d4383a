"""Lookup between fields and octets. Nodes are in order, from the top of the tree to the bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zmtpscope.tui.requests import Node, Source

Path = tuple[str, ...]
"""The names of a node and its ancestors, outermost first."""


def innermost(nodes: Sequence[Node], source: int, offset: int) -> int | None:
    """Return the index of the smallest field with this octet, the deepest of equals, or None."""
    found, least = None, 0
    for index, node in enumerate(nodes):
        if node.source == source and node.start <= offset < node.stop:
            length = node.stop - node.start
            if found is None or length < least or (length == least and node.depth >= nodes[found].depth):
                found, least = index, length
    return found


def place_in(shown: Source, source: int, start: int, stop: int) -> tuple[int, int] | None:
    """Return the part of octets of another source that `shown` contains, as start and stop in `shown`, or None."""
    for low, high, origin, place in shown.parts:
        begin, end = max(start, place), min(stop, place + high - low)
        if origin == source and begin < end:
            return begin - place + low, end - place + low
    return None


def origin_of(shown: Source, offset: int) -> tuple[int, int] | None:
    """Return the other source of an octet in `shown` and its offset there, or None."""
    for low, high, origin, place in shown.parts:
        if low <= offset < high:
            return origin, offset - low + place
    return None


def ends(nodes: Sequence[Node]) -> list[int]:
    """Return the index after the last descendant, for each node."""
    behind = [len(nodes)] * len(nodes)
    around: list[int] = []
    for index, node in enumerate(nodes):
        while around and nodes[around[-1]].depth >= node.depth:
            behind[around.pop()] = index
        around.append(index)
    return behind


def paths(nodes: Sequence[Node]) -> list[Path]:
    """Return the path of each node. Siblings with one name share it."""
    found: list[Path] = []
    path: list[str] = []
    for node in nodes:
        del path[node.depth :]
        path.append(node.name)
        found.append(tuple(path))
    return found


def ancestors(nodes: Sequence[Node], index: int) -> list[int]:
    """Return the ancestors of a node, the nearest first."""
    found, depth = [], nodes[index].depth
    for above in range(index - 1, -1, -1):
        if nodes[above].depth < depth:
            found.append(above)
            depth = nodes[above].depth
    return found


def in_sight(nodes: Sequence[Node], behind: Sequence[int], is_open: Callable[[int], bool]) -> list[int]:
    """Return the nodes outside closed ones. `behind` is `ends(nodes)`."""
    seen, index = [], 0
    while index < len(nodes):
        seen.append(index)
        index = index + 1 if is_open(index) else behind[index]
    return seen
