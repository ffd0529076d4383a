"""A list of any length: requests, display and cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot

from zmtpscope.tui.requests import Page, Row, Sort, TableColumn
from zmtpscope.tui.widgets.line_view import LineView
from zmtpscope.tui.widgets.row_list import RowList

COLUMNS = (
    TableColumn("number", "no", is_number=True, width=10),
    TableColumn("topic", "topic", width=12, rank=1),
    TableColumn("payload", "payload"),
)
MANY = 10_000_000


def row(number: int, word: str = "payload") -> Row:
    return Row(number, "message", (str(number), f"topic{number % 3}", f"{word} of {number}"))


class Rows:
    """Answers like a worker, and records the requests."""

    def __init__(self, count: int = MANY) -> None:
        self.count = count
        self.word = "payload"
        self.asked: list[tuple[int, int]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def fetch(self, low: int, high: int) -> Page:
        self.asked.append((low, high))
        page = Page(low, tuple(row(number, self.word) for number in range(low, min(high, self.count))))
        await self.open.wait()
        return page


class Screen(App[None]):
    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.rows = rows
        self.posted: list[Message] = []

    def compose(self) -> ComposeResult:
        yield RowList(self.rows.fetch)

    def on_mount(self) -> None:
        shown = self.query_one(RowList)
        shown.set_columns(COLUMNS, Sort("number"))
        shown.set_count(self.rows.count)
        shown.focus()

    def on_row_list_selected(self, message: RowList.Selected) -> None:
        self.posted.append(message)

    def on_line_view_digits(self, message: LineView.Digits) -> None:
        self.posted.append(message)

    def on_column_view_sort_requested(self, message: RowList.SortRequested) -> None:
        self.posted.append(message)


def with_list(use: Callable[[Screen, RowList, Pilot[None]], Awaitable[None]], count: int = MANY) -> None:
    async def run() -> None:
        screen = Screen(Rows(count))
        async with screen.run_test(size=(80, 24)) as pilot:
            await pilot.pause()
            await use(screen, screen.query_one(RowList), pilot)

    asyncio.run(run())


def lines(shown: RowList) -> list[str]:
    return [shown.render_line(y).text.rstrip() for y in range(shown.size.height)]


def test_only_rows_near_visible_ones_are_requested() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        await pilot.pause()
        assert lines(shown)[-1].split() == [str(MANY - 1), f"topic{(MANY - 1) % 3}", "payload", "of", str(MANY - 1)]
        assert sum(high - low for low, high in screen.rows.asked) < 1000

    with_list(use)


def test_keys_take_counts() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.press("1", "2", "j")
        assert shown.cursor == 12
        await pilot.press("3", "k", "down")
        assert shown.cursor == 10
        await pilot.press("5", "0", "0", "G")
        assert shown.cursor == 499
        await pilot.press("ctrl+d")
        assert shown.cursor == 499 + 11
        await pilot.press("g")
        assert shown.cursor == 0

    with_list(use)


def test_every_selected_record_is_posted_once() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j", "k")
        shown.set_count(MANY + 1)
        await pilot.pause()
        assert [message.number for message in screen.posted] == [0, 1, 2, 1]

    with_list(use)


def test_rows_that_are_not_loaded_are_marked() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        screen.rows.open.clear()
        await pilot.press("G")
        assert lines(shown)[-1] == "  ·"
        screen.rows.open.set()
        await pilot.pause()
        assert lines(shown)[-1].endswith(f"payload of {MANY - 1}")

    with_list(use)


def test_replies_about_a_replaced_list_are_not_shown() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        screen.rows.open.clear()
        shown.reset()
        shown.set_count(MANY)
        await pilot.pause()
        screen.rows.word = "new"
        shown.reset()
        shown.set_count(MANY)
        screen.rows.open.set()
        await pilot.pause()
        assert {line.split()[2] for line in lines(shown)[1:]} == {"new"}

    with_list(use)


def test_a_list_that_grows_keeps_its_selection_and_its_place() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.press("9", "0", "j")
        before = lines(shown)
        screen.rows.count = 10_000
        shown.set_count(10_000)
        await pilot.pause()
        assert (shown.cursor, lines(shown)) == (90, before)
        await pilot.press("1", "5", "0", "G")
        await pilot.pause()
        assert lines(shown)[-1].split()[0] == "160"

    with_list(use, 100)


def test_following_stays_at_the_end_until_the_cursor_moves() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        shown.follow(True)
        screen.rows.count = 300
        shown.set_count(300)
        assert shown.cursor < 100
        await pilot.pause()
        assert shown.cursor == 299
        assert all(map(shown.is_there, range(shown.top, shown.count)))
        await pilot.press("k")
        shown.set_count(400)
        await pilot.pause()
        assert shown.cursor == 298
        assert not shown.following

    with_list(use, 100)


def test_a_click_on_a_heading_asks_for_a_sort_and_one_on_a_row_selects_its_cell() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        topics = shown.draw_heading(0, 80).text.index("topic")
        await pilot.click(RowList, offset=(topics, 0))
        sort = screen.posted[-1]
        assert isinstance(sort, RowList.SortRequested)
        assert sort.sort == Sort("topic")
        await pilot.click(RowList, offset=(topics, 5))
        cell = shown.current_cell()
        assert cell is not None
        assert (cell.column, cell.text, cell.number) == ("topic", "topic1", 4)
        shown.reset()
        shown.set_columns(COLUMNS, Sort("topic"))
        assert shown.draw_heading(0, 80).text.index("topic") == topics, "columns stay below the mouse"

    with_list(use)


def test_the_text_of_the_last_column_scrolls_to_its_end() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(40, 10)
        await pilot.press("l", "l", "l", "l", "l")
        assert "…" in lines(shown)[1] or "payload" in lines(shown)[1]
        await pilot.press("h", "h", "h", "h", "h")
        assert "payload of 0" in lines(shown)[1]

    with_list(use)


def test_a_click_on_the_scrollbar_leads_to_its_place_in_the_list() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.mouse_down(RowList, offset=(79, 12))
        await pilot.mouse_up(RowList, offset=(79, 12))
        await pilot.pause()
        assert 0.4 * MANY < int(lines(shown)[1].split()[0]) < 0.6 * MANY
        await pilot.mouse_down(RowList, offset=(79, 23))
        await pilot.mouse_up(RowList, offset=(79, 23))
        await pilot.pause()
        assert lines(shown)[-1].split()[0] == str(MANY - 1)

    with_list(use)


def test_the_scrollbar_can_be_drawn_to_the_end() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.mouse_down(RowList, offset=(79, 0))
        await pilot.hover(RowList, offset=(79, 23))
        await pilot.mouse_up(RowList, offset=(79, 23))
        await pilot.pause()
        assert lines(shown)[-1].split()[0] == str(MANY - 1)
        assert shown.cursor == 0

    with_list(use)


def test_marked_rows_are_marked() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        shown.set_marked({2})
        assert [line.startswith("●") for line in lines(shown)[1:5]] == [False, False, True, False]

    with_list(use)


def test_digits_without_a_key_are_posted() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await pilot.pause(2 * LineView.count_wait)
        digits = screen.posted[-1]
        assert isinstance(digits, LineView.Digits)
        assert digits.number == 4
        await pilot.press("j")
        assert shown.cursor == 1

    with_list(use)


def test_outdated_rows_stay_until_they_are_replaced() -> None:
    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        before = lines(shown)
        screen.rows.open.clear()
        screen.rows.word = "new"
        shown.ask_again()
        await pilot.pause()
        assert lines(shown) == before
        screen.rows.open.set()
        await pilot.pause()
        assert {line.split()[2] for line in lines(shown)[1:]} == {"new"}

    with_list(use)


def test_rows_whose_order_changes_while_they_are_fetched_are_shown_and_fetched_again() -> None:
    """While a capture is read, the order changes more often than a busy worker replies."""

    async def use(screen: Screen, shown: RowList, pilot: Pilot[None]) -> None:
        screen.rows.open.clear()
        shown.go_to(500)
        await pilot.pause()
        screen.rows.word = "new"
        shown.ask_again()
        asked = len(screen.rows.asked)
        screen.rows.open.set()
        await pilot.pause()
        assert {line.split()[2] for line in lines(shown)[1:]} == {"new"}
        assert len(screen.rows.asked) > asked

    with_list(use)
