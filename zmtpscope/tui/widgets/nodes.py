"""Fields and octets of a record, each found from the other: nodes stand flat, in the order of a tree that is read from
top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zmtpscope.tui.requests import Node, Source

Path = tuple[str, ...]
"""The names of a node and of all that it is in, outermost first."""


def innermost(nodes: Sequence[Node], source: int, offset: int) -> int | None:
    """The smallest field that has an octet, as its index; of equal ones the deepest. None: no field has it."""
    found, least = None, 0
    for index, node in enumerate(nodes):
        if node.source == source and node.start <= offset < node.stop:
            length = node.stop - node.start
            if found is None or length < least or (length == least and node.depth >= nodes[found].depth):
                found, least = index, length
    return found


def place_in(shown: Source, source: int, start: int, stop: int) -> tuple[int, int] | None:
    """Where octets of another source stand in the one that is shown, as that counts, from the first of them that it has
    on. None: it has none of them."""
    for low, high, origin, place in shown.parts:
        begin, end = max(start, place), min(stop, place + high - low)
        if origin == source and begin < end:
            return begin - place + low, end - place + low
    return None


def origin_of(shown: Source, offset: int) -> tuple[int, int] | None:
    """The source that an octet of the one that is shown is from, and its offset there. None: it is of no other."""
    for low, high, origin, place in shown.parts:
        if low <= offset < high:
            return origin, offset - low + place
    return None


def ends(nodes: Sequence[Node]) -> list[int]:
    """For each node the index behind the last one that is in it."""
    behind = [len(nodes)] * len(nodes)
    around: list[int] = []
    for index, node in enumerate(nodes):
        while around and nodes[around[-1]].depth >= node.depth:
            behind[around.pop()] = index
        around.append(index)
    return behind


def paths(nodes: Sequence[Node]) -> list[Path]:
    """For each node its path. Those with the same name in the same place have the same."""
    found: list[Path] = []
    path: list[str] = []
    for node in nodes:
        del path[node.depth :]
        path.append(node.name)
        found.append(tuple(path))
    return found


def ancestors(nodes: Sequence[Node], index: int) -> list[int]:
    """The nodes that one is in, the nearest first."""
    found, depth = [], nodes[index].depth
    for above in range(index - 1, -1, -1):
        if nodes[above].depth < depth:
            found.append(above)
            depth = nodes[above].depth
    return found


def in_sight(nodes: Sequence[Node], behind: Sequence[int], is_open: Callable[[int], bool]) -> list[int]:
    """The nodes that can be seen: those in closed ones cannot. `behind` is `ends(nodes)`."""
    seen, index = [], 0
    while index < len(nodes):
        seen.append(index)
        index = index + 1 if is_open(index) else behind[index]
    return seen
