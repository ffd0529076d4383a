"""Typing a filter: errors, completions and results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from zmtpscope.tui.requests import Completion, FilterProblem, ListState
from zmtpscope.tui.widgets.filter_bar import TYPING, FilterBar, state_text
from zmtpscope.tui.widgets.filter_hints import FilterHints, caret_line

FIELDS = ("zmtp.size", "zmtp.topic", "zmtp.type")
PROBLEM = FilterProblem("a value is missing [/b]", 12)


async def check(text: str) -> FilterProblem | None:
    return PROBLEM if text.endswith("==") else None


async def complete(text: str, place: int) -> Completion:
    start = text.rfind(" ", 0, place) + 1
    texts = tuple(name for name in FIELDS if name.startswith(text[start:place]))
    return Completion(start, place, texts, tuple(f"note on {name}" for name in texts))


class Screen(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.posted: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield FilterBar(check, complete)

    def on_filter_bar_submitted(self, message: FilterBar.Submitted) -> None:
        self.posted.append(message.text)

    def on_filter_bar_left(self, message: FilterBar.Left) -> None:
        self.posted.append(None)


def with_bar(use: Callable[[Screen, FilterBar, Pilot[None]], Awaitable[None]]) -> None:
    async def run() -> None:
        screen = Screen()
        async with screen.run_test(size=(80, 24)) as pilot:
            bar = screen.query_one(FilterBar)
            bar.type_in()
            await pilot.pause()
            await use(screen, bar, pilot)

    asyncio.run(run())


async def typed(pilot: Pilot[None], text: str) -> None:
    """Type, and wait until the filter is checked."""
    names = {" ": "space", "=": "equals_sign", ".": "full_stop"}
    await pilot.press(*(names.get(character, character) for character in text))
    await pilot.pause(3 * TYPING)


def hints(screen: Screen) -> list[str]:
    floating = screen.query_one(FilterHints)
    return [floating.render_line(y).text.rstrip() for y in range(floating.size.height)] if floating.display else []


def test_typed_text_stays_when_rows_arrive_and_escape_restores_their_filter() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        await typed(pilot, "zmtp.si")
        bar.set_text("of the rows")
        assert bar.text == "zmtp.si"
        await pilot.press("escape", "escape")  # the first closes the completion
        assert bar.text == "of the rows"
        bar.set_text("of others")
        assert bar.text == "of others"

    with_bar(use)


def test_enter_submits_a_valid_filter() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        await typed(pilot, "zmtp.size == 3")
        assert bar.has_class("-good")
        await pilot.press("enter")
        await pilot.pause()
        assert screen.posted == ["zmtp.size == 3"]

    with_bar(use)


def test_an_invalid_filter_shows_its_error_and_is_not_submitted() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        await typed(pilot, "zmtp.size ==")
        assert bar.has_class("-bad")
        assert [line.strip() for line in hints(screen)] == ["^ a value is missing [/b]"]
        assert hints(screen)[0].index("^") == len(" filter ") + PROBLEM.place
        await pilot.press("enter")
        await pilot.pause()
        assert screen.posted == []

    with_bar(use)


def test_tab_takes_the_first_completion_and_arrows_choose_another() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        await typed(pilot, "zmtp.t")
        assert [line.split()[0] for line in hints(screen)] == ["zmtp.topic", "zmtp.type"]
        await pilot.press("tab")
        assert bar.text == "zmtp.topic"
        await pilot.press("backspace", "backspace", "backspace", "backspace")
        await typed(pilot, "")
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert (bar.text, screen.posted) == ("zmtp.type", [])

    with_bar(use)


def test_tab_shows_completions_of_an_empty_filter() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        await pilot.press("tab")
        await pilot.pause()
        assert [line.split()[0] for line in hints(screen)] == list(FIELDS)

    with_bar(use)


def test_arrows_restore_earlier_filters_and_the_typed_text() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        bar.set_history(["first", "second"])
        await typed(pilot, "x")
        await pilot.press("up")
        assert bar.text == "second"
        await pilot.press("up", "up")
        assert bar.text == "first"
        await pilot.press("down", "down")
        assert bar.text == "x"

    with_bar(use)


def test_escape_restores_the_filter_of_the_rows() -> None:
    async def use(screen: Screen, bar: FilterBar, pilot: Pilot[None]) -> None:
        bar.set_text("shown")
        await typed(pilot, " and")
        await pilot.press("escape")
        assert (bar.text, screen.posted) == ("shown", [None])

    with_bar(use)


@pytest.mark.parametrize(
    ("found", "looked_at", "filter", "text"),
    [
        (0, 3800, "x", "searching, 38 %, 0 so far"),
        (0, 10_000, "x", "none"),
        (1234, 10_000, "x", "1,234 of 10,000 records"),
        (4000, 10_000, "", "4,000"),
    ],
)
def test_no_rows_yet_differs_from_no_rows(found: int, looked_at: int, filter: str, text: str) -> None:
    assert state_text(ListState("messages", 1, found, looked_at, 10_000), filter) == text


def test_an_error_without_room_after_its_caret_is_before_it() -> None:
    assert caret_line(FilterProblem("too short", 3), 3, 20) == "   ^ too short      "
    assert caret_line(FilterProblem("too short", 18), 18, 20) == "        too short ^"
    assert caret_line(FilterProblem("a much longer sentence", 18), 18, 20) == "a much longer se… ^"
