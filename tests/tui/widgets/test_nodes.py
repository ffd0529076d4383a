"""Lookup of fields by octets, and of octets by fields."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tui.widgets.trees import node, trees
from zmtpscope.tui.requests import Node, Source
from zmtpscope.tui.widgets.nodes import ancestors, ends, in_sight, innermost, origin_of, paths, place_in

MESSAGE = (
    node(0, "message", 10, 30),
    node(1, "frame 0", 10, 18),
    node(2, "flags", 10, 11),
    node(2, "size", 11, 12),
    node(2, "body", 12, 18),
    node(1, "frame 1", 18, 30),
    node(2, "body", 20, 30),
    node(1, "json", 0, 5, source=1),
)


@given(trees())
def test_an_octet_leads_to_the_smallest_field_that_has_it(nodes: list[Node]) -> None:
    for source in range(5):
        for offset in range(42):
            having = [n for n in nodes if n.source == source and n.start <= offset < n.stop]
            found = innermost(nodes, source, offset)
            if found is None:
                assert not having
            else:
                assert nodes[found] in having
                assert nodes[found].stop - nodes[found].start == min(n.stop - n.start for n in having)
                deeper = nodes[found + 1 : ends(nodes)[found]]
                assert not [n for n in deeper if n in having]


def test_an_octet_between_fields_leads_to_the_enclosing_field() -> None:
    assert innermost(MESSAGE, 0, 11) == 3
    assert innermost(MESSAGE, 0, 19) == 5
    assert innermost(MESSAGE, 1, 4) == 7
    assert innermost(MESSAGE, 0, 30) is None


@given(trees())
def test_what_is_in_a_field_ends_where_the_next_one_beside_or_above_it_starts(nodes: list[Node]) -> None:
    for index, behind in enumerate(ends(nodes)):
        assert all(n.depth > nodes[index].depth for n in nodes[index + 1 : behind])
        assert behind == len(nodes) or nodes[behind].depth <= nodes[index].depth


@given(trees())
def test_the_way_up_is_the_path(nodes: list[Node]) -> None:
    for index, path in enumerate(paths(nodes)):
        assert path == (*(nodes[above].name for above in reversed(ancestors(nodes, index))), nodes[index].name)


@given(trees(), st.data())
def test_a_field_is_seen_when_everything_around_it_is_open(nodes: list[Node], data: st.DataObject) -> None:
    opened = [data.draw(st.booleans()) for _ in nodes]
    seen = in_sight(nodes, ends(nodes), opened.__getitem__)
    assert seen == [index for index in range(len(nodes)) if all(opened[above] for above in ancestors(nodes, index))]


PACKET = Source("packet 12", 0, bytes(100), parts=((54, 74, 0, 1000), (74, 90, 0, 1020)))


@given(st.integers(0, 99))
def test_an_octet_of_a_packet_is_found_in_the_stream_and_back(offset: int) -> None:
    origin = origin_of(PACKET, offset)
    if not 54 <= offset < 90:
        assert origin is None
        return
    assert origin == (0, offset + 946)
    assert place_in(PACKET, 0, origin[1], origin[1] + 1) == (offset, offset + 1)


def test_of_a_field_that_a_packet_brought_in_part_that_part_is_there() -> None:
    assert place_in(PACKET, 0, 990, 1004) == (54, 58)
    assert place_in(PACKET, 0, 900, 1000) is None
    assert place_in(PACKET, 1, 1000, 1004) is None
