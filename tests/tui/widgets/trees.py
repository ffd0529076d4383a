"""Generated fields of records, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from zmtpscope.tui.requests import Node


def node(depth: int, name: str, start: int = 0, stop: int = 0, source: int = 0) -> Node:
    return Node(depth, name, "", source, start, stop)


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    """Draw nested fields, each inside its parent, or in a source of its own."""
    nodes: list[Node] = []

    def grow(depth: int, source: int, start: int, stop: int) -> None:
        nodes.append(node(depth, draw(st.sampled_from("abc")), start, stop, source))
        if depth == 4:
            return
        edges = sorted(draw(st.lists(st.integers(start, stop), max_size=6)))
        for low, high in zip(edges[::2], edges[1::2], strict=False):
            if draw(st.booleans()):
                grow(depth + 1, source, low, high)
            else:
                grow(depth + 1, source + 1, 0, high - low)

    grow(0, 0, 0, draw(st.integers(0, 40)))
    return nodes
