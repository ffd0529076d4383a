"""Selecting a field highlights its octets, and the reverse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from tests.suites import examples
from tests.tui.widgets.screens import screen_text
from tests.tui.widgets.trees import trees
from zmtpscope.tui.requests import Details, Node, Source
from zmtpscope.tui.widgets.byte_panes import Tabs
from zmtpscope.tui.widgets.details_pane import DetailsPane
from zmtpscope.tui.widgets.field_tree import FieldTree
from zmtpscope.tui.widgets.line_view import LineView

STREAM = Source("stream", 100, bytes(range(0x30, 0x60)) + bytes(16), stars=((110, 113),))
OPENED = Source("opened", 0, b'{"price": 12}')
NODES = (
    Node(0, "message", "", 0, 100, 164),
    Node(1, "frame 0", "", 0, 100, 113),
    Node(2, "flags", "more", 0, 100, 101),
    Node(2, "size", "11", 0, 101, 102),
    Node(2, "body", "'secret'", 0, 102, 113),
    Node(1, "json", "", 1, 0, 13),
    Node(2, "price", "12", 1, 10, 12),
    Node(1, "answer to", "message 7", -1, link=7),
)
DETAILS = Details(12, "message 12", NODES, (STREAM, OPENED))


class Screen(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.followed: list[int] = []

    def compose(self) -> ComposeResult:
        yield DetailsPane()

    def on_mount(self) -> None:
        pane = self.query_one(DetailsPane)
        pane.show(DETAILS)
        pane.fields.focus()

    def on_field_tree_followed(self, message: FieldTree.Followed) -> None:
        self.followed.append(message.record)


def with_pane(use: Callable[[Screen, DetailsPane, Pilot[None]], Awaitable[None]], width: int = 160) -> None:
    async def run() -> None:
        screen = Screen()
        async with screen.run_test(size=(width, 24)) as pilot:
            await pilot.pause()
            await use(screen, screen.query_one(DetailsPane), pilot)

    asyncio.run(run())


def lines(view: LineView) -> list[str]:
    return [text for y in range(view.size.height) if (text := view.render_line(y).text.rstrip())]


def test_a_selected_field_highlights_its_octets() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j", "j", "j")
        assert pane.selected_node == NODES[4]
        assert pane.panes.octets.lit == STREAM.octets[2:13]

    with_pane(use)


@examples(25)
@given(trees(), st.data())
def test_fields_and_octets_lead_to_each_other(nodes: list[Node], data: st.DataObject) -> None:
    sources = tuple(Source(f"source {number}", 0, bytes(range(42))) for number in range(5))
    field = data.draw(st.integers(0, len(nodes) - 1))
    octet = data.draw(st.integers(1, 41))

    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.show(Details(1, "", tuple(nodes), sources))
        pane.fields.select(field)
        assert pane.selected_node is nodes[field]
        pane.fields.post_message(FieldTree.Selected(field))
        await pilot.pause()
        source = nodes[field].source
        assert pane.panes.octets.lit == sources[source].octets[nodes[field].start : nodes[field].stop]
        pane.panes.octets.focus()
        await pilot.press("g", *str(octet), "l")
        reached = pane.panes.octets.offset_selected
        lengths = [n.stop - n.start for n in nodes if n.source == source and n.start <= reached < n.stop]
        if lengths:
            selected = pane.selected_node
            assert selected is not None
            assert (selected.source, selected.stop - selected.start) == (source, min(lengths))
            assert reached in range(selected.start, selected.stop)

    with_pane(use)


def test_a_field_of_another_source_opens_its_tab() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.fields.select(6)
        await pilot.press("k", "j")
        assert (pane.panes.chosen, pane.panes.octets.lit) == (1, b"12")

    with_pane(use)


def test_a_selected_octet_opens_the_innermost_field_that_has_it() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        assert lines(pane.fields) == ["▸ message"]
        pane.panes.octets.focus()
        await pilot.press("l")
        assert pane.selected_node == NODES[3]
        assert pane.panes.octets.offset_selected == 101
        await pilot.press("5", "l")
        assert pane.selected_node == NODES[4]
        assert pane.panes.octets.offset_selected == 106
        assert pane.panes.octets.lit == STREAM.octets[2:13]

    with_pane(use)


def test_only_secret_octets_are_stars() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        first = lines(pane.panes.octets)[0]
        assert first == "00000064  30 31 32 33 34 35 36 37 38 39 ** ** ** 3d 3e 3f  0123456789***=>?"

    with_pane(use)


def test_an_octet_is_clicked_as_digits_or_as_a_character() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        await pilot.click(pane.panes.octets, offset=(10 + 3 * 4, 1))
        assert pane.panes.octets.offset_selected == 100 + 16 + 4
        await pilot.click(pane.panes.octets, offset=(10 + 3 * 16 + 1 + 7, 0))
        assert pane.panes.octets.offset_selected == 107

    with_pane(use)


def test_other_octets_are_shown_by_their_tab() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.panes.octets.focus()
        await pilot.press("right_square_bracket")
        assert lines(pane.panes.octets)[0].endswith('{"price": 12}')
        await pilot.click(pane.panes, offset=(3, 0))
        assert pane.panes.chosen == 0

    with_pane(use)


def test_a_narrow_dump_has_eight_octets_a_line() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        assert lines(pane.panes.octets)[0] == "00000064  30 31 32 33 34 35 36 37  01234567"

    with_pane(use, 60)


def test_opened_nodes_stay_open_for_other_records() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.fields.select(1)
        await pilot.press("space")
        closed = lines(pane.fields)
        assert "▸ frame 0" in closed[1]
        pane.show(Details(13, "message 13", NODES[1:2] + NODES[5:], (STREAM, OPENED)))
        pane.show(Details(14, "message 14", NODES, (STREAM, OPENED)))
        assert lines(pane.fields) == closed
        assert pane.selected_node == NODES[1]

    with_pane(use)


def test_a_link_leads_to_its_record() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        assert lines(pane.fields)[-1].endswith("message 7 →")
        await pilot.press("G", "enter")
        assert screen.followed == [7]

    with_pane(use)


def test_a_long_value_can_be_read_to_its_end() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.show(Details(1, "", (Node(0, "text", "x" * 100 + "the end", -1),), ()))
        assert lines(pane.fields)[0].endswith("x…")
        await pilot.press(*["right"] * 20)
        assert lines(pane.fields)[0].endswith("the end")
        await pilot.press(*["left"] * 20)
        assert lines(pane.fields)[0].startswith("  text  xxx")

    with_pane(use)


def test_missing_octets_are_reported() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.show(Details(12, "message 12", NODES, (), problem="the file [/b] has changed"))
        await pilot.pause()
        assert "the file [/b] has changed" in screen_text(screen)

    with_pane(use)


def test_the_same_record_again_changes_nothing() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.panes.octets.focus()
        await pilot.press("7", "l")
        before = pane.panes.octets.offset_selected
        pane.show(Details(12, "message 12", NODES, (STREAM, OPENED)))
        assert pane.panes.octets.offset_selected == before == 107

    with_pane(use)


def test_without_a_record_there_are_neither_fields_nor_octets() -> None:
    async def use(screen: Screen, pane: DetailsPane, pilot: Pilot[None]) -> None:
        pane.show(None)
        await pilot.pause()
        tabs = pane.query_one(Tabs)
        assert tabs.render_line(0).text.strip() == ""
        pane.show(Details(1, "", NODES[:1], ()))
        assert "no octets" in tabs.render_line(0).text

    with_pane(use)
