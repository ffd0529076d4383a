"""Lookup between fields and octets. Nodes are flat, in the order of a tree read from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zmtpscope.tui.requests import Node, Source

Path = tuple[str, ...]
"""The names of a node and its ancestors, outermost first."""


def innermost(nodes: Sequence[Node], source: int, offset: int) -> int | None:
    """Return the index of the smallest field that contains an octet, the deepest of equals, or None."""
    found, least = None, 0
    for index, node in enumerate(nodes):
        if node.source == source and node.start <= offset < node.stop:
            length = node.stop - node.start
            if found is None or length < least or (length == least and node.depth >= nodes[found].depth):
                found, least = index, length
    return found


def place_in(shown: Source, source: int, start: int, stop: int) -> tuple[int, int] | None:
    """Return the start and stop of octets of another source within `shown`, or None.

    They are offsets in `shown`, from the first contained octet on.
    """
    for low, high, origin, place in shown.parts:
        begin, end = max(start, place), min(stop, place + high - low)
        if origin == source and begin < end:
            return begin - place + low, end - place + low
    return None


def origin_of(shown: Source, offset: int) -> tuple[int, int] | None:
    """Return the other source that an octet of `shown` is from, and its offset there, or None."""
    for low, high, origin, place in shown.parts:
        if low <= offset < high:
            return origin, offset - low + place
    return None


def ends(nodes: Sequence[Node]) -> list[int]:
    """Return for each node the index after its last descendant."""
    behind = [len(nodes)] * len(nodes)
    around: list[int] = []
    for index, node in enumerate(nodes):
        while around and nodes[around[-1]].depth >= node.depth:
            behind[around.pop()] = index
        around.append(index)
    return behind


def paths(nodes: Sequence[Node]) -> list[Path]:
    """Return the path of each node. Siblings of the same name share it."""
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
    """Return the visible nodes: all outside closed ones. `behind` is `ends(nodes)`."""
    seen, index = [], 0
    while index < len(nodes):
        seen.append(index)
        index = index + 1 if is_open(index) else behind[index]
    return seen
