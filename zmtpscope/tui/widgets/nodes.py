"""Find the fields of octets, and the octets of fields. Nodes of the field tree are in order, from top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zmtpscope.tui.requests import Node, Source

Path = tuple[str, ...]
"""The names of a node and its ancestors, outermost first."""


def innermost(nodes: Sequence[Node], source: int, offset: int) -> int | None:
    """Return the index of the smallest field that contains the octet at `offset` of a source, or None. Of equal fields,
    the deepest."""
    found, least = None, 0
    for index, node in enumerate(nodes):
        if node.source == source and node.start <= offset < node.stop:
            length = node.stop - node.start
            if found is None or length < least or (length == least and node.depth >= nodes[found].depth):
                found, least = index, length
    return found


def place_in(shown: Source, source: int, start: int, stop: int) -> tuple[int, int] | None:
    """Return where the tab `shown` contains the octets `start` until `stop` of another source, as (start, stop) in
    `shown`; or None."""
    for low, high, origin, place in shown.parts:
        begin, end = max(start, place), min(stop, place + high - low)
        if origin == source and begin < end:
            return begin - place + low, end - place + low
    return None


def origin_of(shown: Source, offset: int) -> tuple[int, int] | None:
    """Return the source from which the octet at `offset` of the tab `shown` comes, and its offset there; None if it is
    from no other."""
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
    """Return for each node its path: the names of its ancestors and its own. Siblings with one name share a path."""
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
    """Return the indexes of nodes whose ancestors are all expanded. `behind` is `ends(nodes)`."""
    seen, index = [], 0
    while index < len(nodes):
        seen.append(index)
        index = index + 1 if is_open(index) else behind[index]
    return seen
