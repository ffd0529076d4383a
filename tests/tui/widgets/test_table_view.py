"""The table of a view: rows stay selected while numbers change, and can be opened, sorted and chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from zmtpscope.tui.requests import Sort, Table, TableColumn, TableRow
from zmtpscope.tui.widgets.table_view import TableView

COLUMNS = (
    TableColumn("topic", "topic"),
    TableColumn("messages", "messages", is_number=True),
    TableColumn("rate", "rate"),
)


def table(*rows: TableRow, text: tuple[str, ...] = ()) -> Table:
    return Table(COLUMNS, rows, 10, 10, text)


def row(key: str, count: int, depth: int = 0, has_more: bool = False) -> TableRow:
    return TableRow(key, (key, str(count), "▁▂█"), f'zmtp.topic == "{key}"', depth, has_more=has_more)


class Screen(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield TableView()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.posted.append(message)

    def on_table_view_opened_changed(self, message: TableView.OpenedChanged) -> None:
        self.posted.append(message)

    def on_column_view_sort_requested(self, message: TableView.SortRequested) -> None:
        self.posted.append(message)


def with_table(use: Callable[[Screen, TableView, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        screen = Screen()
        async with screen.run_test(size=(80, 24)) as pilot:
            shown = screen.query_one(TableView)
            shown.focus()
            await pilot.pause()
            await use(screen, shown, pilot)

    asyncio.run(run())


def lines(shown: TableView) -> list[str]:
    return [text for y in range(shown.size.height) if (text := shown.render_line(y).text.rstrip())]


def test_numbers_are_right_aligned_below_their_heading() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5), row("b", 12_000), text=("2 topics",)), Sort("messages", descending=True))
        assert lines(shown) == [
            " 2 topics",
            " topic  messages ▼  rate",
            " a               5  ▁▂█",
            " b           12000  ▁▂█",
        ]

    with_table(use)


def test_a_row_stays_selected_when_it_moves() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5), row("b", 4), row("c", 3)))
        await pilot.press("j")
        shown.show(table(row("d", 9), row("a", 5), row("c", 4), row("b", 4)))
        current = shown.current_row()
        assert current is not None
        assert (current.key, shown.cursor) == ("b", 3)

    with_table(use)


def test_every_number_leads_to_its_rows() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5), row("b", 4)))
        await pilot.press("j", "enter")
        chosen = screen.posted[-1]
        assert isinstance(chosen, TableView.Chosen)
        assert chosen.row.filter == 'zmtp.topic == "b"'

    with_table(use)


def test_rows_open_and_close_and_left_goes_to_the_parent() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5, has_more=True), row("b", 4)))
        assert lines(shown)[1:] == [" ▸ a           5  ▁▂█", "   b           4  ▁▂█"]
        await pilot.press("l")
        opened = screen.posted[-1]
        assert isinstance(opened, TableView.OpenedChanged)
        assert opened.opened == ("a",)
        shown.show(table(row("a", 5), row("a.x", 2, depth=1), row("b", 4)))
        assert lines(shown)[1:3] == [" ▾ a             5  ▁▂█", "     a.x         2  ▁▂█"]
        await pilot.press("l", "h")
        assert shown.cursor == 0
        await pilot.press("h")
        assert shown.opened == ()

    with_table(use)


def test_a_heading_sorts_by_its_column_then_reverses() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5)))
        await pilot.click(TableView, offset=(14, 0))
        first = screen.posted[-1]
        assert isinstance(first, TableView.SortRequested)
        assert first.sort == Sort("messages", descending=True)
        shown.show(table(row("a", 5)), first.sort)
        await pilot.press("r")
        second = screen.posted[-1]
        assert isinstance(second, TableView.SortRequested)
        assert second.sort == Sort("messages", descending=False)

    with_table(use)


def test_a_sentence_below_a_row_extends_over_empty_cells() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        sentence = "what happened, in more words than the first column has cells"
        shown.show(table(row("a", 5, has_more=True), TableRow("a.1", (sentence, "", ""), depth=1)))
        assert lines(shown)[2] == "     " + sentence

    with_table(use)


def test_columns_without_room_are_counted_and_reached() -> None:
    columns = (TableColumn("topic", "topic"), *(TableColumn(name, name * 14, rank=1) for name in "abcdefg"))

    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(Table(columns, (TableRow("t", ("t", *"1234567")),), 1, 1, ("7 subscribers",)))
        assert lines(shown)[0].endswith("more columns: 3 with ]")
        assert lines(shown)[2].split() == ["t", "1", "2", "3", "4"]
        await pilot.press("right_square_bracket")
        assert lines(shown)[0].endswith("more columns: 1 with [, 2 with ]")
        assert lines(shown)[2].split() == ["t", "2", "3", "4", "5"]
        await pilot.press(*["right_square_bracket"] * 9)
        assert lines(shown)[2].split() == ["t", "4", "5", "6", "7"]
        await pilot.press(*["left_square_bracket"] * 9)
        assert lines(shown)[2].split() == ["t", "1", "2", "3", "4"]

    with_table(use)


def test_columns_without_texts_are_hidden() -> None:
    columns = tuple(TableColumn(name, name) for name in ("peer", "finding", "ended"))

    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(Table(columns, (), 1, 1))
        assert lines(shown)[0].split() == ["peer", "finding", "ended"]
        shown.show(Table(columns, (TableRow("a", ("PUB", "", "open")),), 1, 1))
        assert [line.split() for line in lines(shown)[:2]] == [["peer", "ended"], ["PUB", "open"]]
        shown.show(Table(columns, (TableRow("a", ("PUB", "warn", "open")),), 1, 1))
        assert lines(shown)[0].split() == ["peer", "finding", "ended"]

    with_table(use)


def test_numbers_of_deeper_rows_are_shown_in_full() -> None:
    columns = (TableColumn("node", "node"), TableColumn("last", "last", is_number=True))

    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        rows = (TableRow("nodes", ("nodes", "")), TableRow("alice", ("alice", "7.301455"), depth=1))
        shown.show(Table(columns, rows, 1, 1))
        assert lines(shown)[2].split() == ["alice", "7.301455"]

    with_table(use)


def test_a_plot_without_room_is_scaled_and_shows_its_end() -> None:
    columns = (TableColumn("peer", "peer", width=50, is_name=True), TableColumn("lifeline", "lifeline", is_plot=True))

    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(Table(columns, (TableRow("a", ("PUB", "█" * 50 + "·" * 9 + "┃")),), 1, 1))
        assert lines(shown)[1].split() == ["PUB", "█" * 21 + "···┃"]
        assert shown.cut_cells() == []

    with_table(use)


def test_the_number_of_hidden_columns_does_not_shorten_the_text() -> None:
    columns = (TableColumn("topic", "topic"), *(TableColumn(name, name * 32, rank=1, is_name=True) for name in "abc"))

    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        text = "what is said " * 5
        shown.show(Table(columns, (TableRow("t", ("t", "1", "2", "3")),), 1, 1, (text,)))
        assert [line.strip() for line in lines(shown)[:2]] == [text.strip(), "more columns: 1 with ]"]

    with_table(use)


def test_single_cells_may_look_different() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(TableRow("a", ("a", "1", "2"), looks=("", "", "warn"))))
        styles = {segment.text.strip(): segment.style for segment in shown.draw(0, "", 60) if segment.text.strip()}
        assert styles["2"] == shown.palette.style("warn")
        assert styles["a"] != styles["2"]

    with_table(use)


def test_a_cell_below_a_row_has_room_beside_another_cell() -> None:
    async def use(screen: Screen, shown: TableView, pilot: Pilot[None]) -> None:
        shown.show(table(row("a", 5), TableRow("b", ("not made again", "1", ""), depth=1)))
        assert "not made again" in lines(shown)[2]

    with_table(use)
