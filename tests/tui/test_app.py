"""The application with a real worker: keys are pressed, and the screen is read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.events import Key, Paste
from textual.pilot import Pilot
from textual.widgets import Input, Static

from tests.readings import CAPTURES
from tests.suites import some
from tests.tui.workers import socket_of, worker_socket
from zmtpscope.dissect import Options
from zmtpscope.live.followed_captures import ForeignCapture
from zmtpscope.tui.app import Inspector
from zmtpscope.tui.causes_bar import CausesBar
from zmtpscope.tui.follow_pane import FollowPane
from zmtpscope.tui.menu import Menu
from zmtpscope.tui.records_pane import EVERYTHING, RecordsPane
from zmtpscope.tui.requests import DetailsOf, Request, Table, ViewTitle
from zmtpscope.tui.title_bar import TitleBar
from zmtpscope.tui.view_bar import MESSAGES, titles
from zmtpscope.tui.view_pane import without_hasty_words
from zmtpscope.tui.widgets.columns import GAP
from zmtpscope.tui.widgets.row_list import RowList
from zmtpscope.tui.widgets.table_view import TableView
from zmtpscope.tui.worker.loading import Opened
from zmtpscope.tui.worker.search import Search
from zmtpscope.tui.worker.views.catalogue import VIEWS

PATIENCE = 60.0
PUBSUB = "patterns/pubsub.pcap"

Use = Callable[[Inspector, Pilot[None]], Awaitable[None]]


def used(use: Use, *paths: str, size: tuple[int, int] = (140, 40)) -> None:
    """Run `use` on the application over captures."""

    async def run() -> None:
        with worker_socket(*(paths or (PUBSUB,))) as end:
            app = Inspector(end, "a capture")
            async with app.run_test(size=size) as pilot:
                await until(pilot, lambda: app.records.rows.current_row() is not None)
                await use(app, pilot)

    asyncio.run(run())


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    end = asyncio.get_running_loop().time() + PATIENCE
    while not holds():
        assert asyncio.get_running_loop().time() < end, "it never came to be"
        await pilot.pause(0.02)


def cells(rows: RowList, column: str) -> str:
    row = rows.current_row()
    assert row is not None
    names = ["time", "conn", "from", "to", "topic", "parts", "size", "content"]
    return row.cells[names.index(column)]


def test_an_older_state_that_arrives_late_hides_no_rows() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        state, count = app.records.state, app.records.rows.count
        assert state is not None
        assert count == state.found > 0
        app.records.show_state(replace(state, found=0, looked_at=0, total=0))
        await pilot.pause()
        assert app.records.rows.count == count

    used(use)


def test_keys_do_not_wait_for_the_details_of_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        ask, is_over = app.client.ask, asyncio.Event()

        async def ask_without_reply(request: Request[Any]) -> object:
            if isinstance(request, DetailsOf):
                asked.append(request.number)
                await is_over.wait()
            return await ask(request)

        monkeypatch.setattr(app.client, "ask", ask_without_reply)
        try:
            for place in (1, 2):
                app.post_message(Key("j", "j"))
                await until(pilot, lambda place=place: app.records.rows.cursor == place and len(asked) == place)
        finally:
            is_over.set()

    used(use)


def test_the_value_under_the_cursor_becomes_a_filter_and_back_leads_out_of_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        rows = app.records.rows
        everything = rows.count
        await pilot.press("j", "j", "l", "l", "l", "l", "equals_sign")
        await until(pilot, lambda: app.records.spec.filter == "topic == c.topic")
        assert 0 < rows.count < everything
        await until(pilot, lambda: rows.current_row() is not None)
        assert cells(rows, "topic") == "c.topic"
        await pilot.press("b")
        await until(pilot, lambda: rows.count == everything)
        assert app.records.spec.filter == ""

    used(use)


@pytest.mark.parametrize("keys", [(), ("4",), ("6",), ("9",)])
def test_a_low_screen_shows_rows(keys: tuple[str, ...]) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await until(pilot, lambda: isinstance(app.focused, RowList | TableView) and app.focused.count > 0)
        await pilot.pause()
        shown = app.focused
        assert isinstance(shown, RowList | TableView)
        assert shown.size.height - shown.heading_lines >= 2

    used(use, "problems/subscription-lost-on-reconnect.pcap", size=(40, 10))


def test_a_low_screen_shows_fields_while_they_have_the_focus() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        details = app.records.details
        await until(pilot, lambda: details.size.height == 0)
        await pilot.press("enter")
        await until(pilot, lambda: details.fields.size.height >= 2 and details.size.height >= 2)
        await pilot.press("tab")
        await until(pilot, lambda: details.panes.octets.size.height >= 2)

    used(use, size=(40, 10))


def test_a_live_list_follows_its_end_until_the_cursor_moves() -> None:
    async def run() -> None:
        followed = ForeignCapture(str(CAPTURES / PUBSUB))
        opened = Opened((str(CAPTURES / PUBSUB),), lambda: followed.captures, followed)
        with socket_of(opened, Options(index=True)) as end:
            app = Inspector(end, "a file")
            async with app.run_test(size=(140, 20)) as pilot:
                rows = app.records.rows
                await until(pilot, lambda: rows.count > 1 and rows.cursor == rows.count - 1)
                await pilot.press("k")
                assert not rows.following

    asyncio.run(run())


def test_a_filter_is_typed_and_remembered() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"topic==a.topic", "enter")
        await until(pilot, lambda: app.records.spec.filter == "topic==a.topic")
        assert app.records.rows.has_focus
        assert app.profile.filters == ("topic==a.topic",)

    used(use)


def test_details_of_the_selected_message_appear_after_a_pause_in_typing() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("G")
        last = app.records.rows.count - 1
        await until(pilot, lambda: app.records.rows.cursor == last and app.records.rows.current_row() is not None)
        row = app.records.rows.current_row()
        assert row is not None
        await until(pilot, lambda: app.records.details.details is not None)
        await until(pilot, lambda: app.records.details.details.number == row.number)  # type: ignore[union-attr]

    used(use)


def test_a_count_in_a_view_leads_to_the_counted_rows() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: bool(app.query("#connections TableView")))
        table = app.query_one("#connections TableView")
        await until(pilot, lambda: table.has_focus and getattr(table, "count", 0) > 0)
        await pilot.press("enter")
        await until(pilot, lambda: app.records.spec.filter != "")
        assert app.records.spec.filter == "conn == 1"
        await until(pilot, lambda: app.records.rows.current_row() is not None)
        assert cells(app.records.rows, "conn") == "1"

    used(use)


def test_a_view_shows_only_the_pinned_row() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await until(pilot, lambda: bool(app.query("#topics TableView")))
        table = app.query_one("#topics TableView", TableView)
        await until(pilot, lambda: table.has_focus and table.count == 3)
        await pilot.press("p")
        await until(pilot, lambda: table.count == 1)
        row = table.current_row()
        assert row is not None
        assert row.cells[0] == '"a.topic"'
        await pilot.press("p")
        await until(pilot, lambda: table.count == 3)

    used(use)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["escape", "b"])
def test_a_followed_connection_has_a_screen_of_its_own(key: str) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("colon", *"follow conn", "enter")
        await until(pilot, lambda: isinstance(app.pane, FollowPane))
        pane = app.pane
        assert isinstance(pane, FollowPane)
        await until(pilot, lambda: pane.rows.current_row() is not None)
        assert pane.rows.count < app.records.rows.count
        await pilot.press(key)
        await until(pilot, lambda: app.pane is app.records)

    used(use)


def test_marks_survive_filters_and_can_be_shown_alone() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        rows = app.records.rows
        await pilot.press("m", "j", "m", "M")
        await until(pilot, lambda: rows.count == 2)
        await pilot.press("M")
        await until(pilot, lambda: rows.count > 2)
        assert len(app.records.marks) == 2

    used(use)


def test_all_records_instead_of_messages() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        messages = app.records.rows.count
        await pilot.press("x")
        await until(pilot, lambda: app.records.rows.count > messages)
        assert app.records.spec.records == EVERYTHING

    used(use)


@pytest.mark.parametrize(
    "keys",
    [
        ("colon", *"frobnicate", "enter"),
        ("colon", *"sort nothing", "enter"),
        ("n",),
        ("colon", *"colour nosuch", "enter"),
        ("colon", *"go 99999", "enter"),
    ],
)
def test_a_command_that_fails_prints_the_reason_and_changes_nothing(keys: tuple[str, ...]) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        spec = app.records.spec
        await pilot.press(*keys)
        await until(pilot, lambda: len(app._notifications) > 0)
        assert app.records.spec == spec

    used(use)


def test_rows_are_written_to_a_file_and_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"

    async def write(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("e")
        app.post_message(Paste(str(path)))
        await pilot.press("enter")

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await write(app, pilot)
        await until(pilot, path.exists)
        path.write_text("mine")
        await write(app, pilot)
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, Menu))
        assert path.read_text() == "mine"

    used(use)


def test_a_message_is_copied_as_the_command_that_sends_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("colon", *"copy cat", "enter")
        await until(pilot, lambda: "zmtpscope cat" in app.clipboard)
        await pilot.press("y", "enter")
        await until(pilot, lambda: app.clipboard == cells(app.records.rows, "time"))

    used(use)


def test_a_capture_is_read_again_with_frames() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        messages = app.records.rows.count
        await pilot.press("m", "colon", *"frames", "enter")
        await until(pilot, lambda: app.records.rows.count > messages)
        assert not app.records.marks
        await pilot.press("colon", *"frames", "enter")
        await until(pilot, lambda: app.records.rows.count == messages)

    used(use)


def test_a_rule_that_is_none_changes_nothing() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        messages = app.records.rows.count
        await pilot.press("d", *"nonsense", "enter")
        await until(pilot, lambda: len(app._notifications) > 0)
        assert app.records.rows.count == messages

    used(use)


def test_a_damaged_profile_is_not_overwritten(config: Path) -> None:
    path = config / "zmtpscope" / "default.json"
    path.parent.mkdir(parents=True)
    path.write_text("damaged")

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("t")
        await until(pilot, lambda: app.records.spec.time == "a")
        await pilot.press("q")

    used(use)
    assert path.read_text() == "damaged"


def test_a_list_without_messages_names_the_key_for_other_records() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        rows = app.records.rows
        await pilot.press("slash", *"size == 123456", "enter")
        await until(pilot, lambda: bool(rows.empty_text))
        assert "x looks through all" in rows.empty_text
        await pilot.press("escape")
        await until(pilot, lambda: rows.count > 0)
        assert rows.empty_text == ""

    used(use)


def test_cut_texts_of_a_view_are_shown_in_full_below_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await until(pilot, lambda: bool(app.query("#problems CutCells")))
        below = app.query_one("#problems CutCells", Static)
        await until(pilot, lambda: "FIN or RST without notice means" in str(below.content))

    used(use, size=(80, 24))


def test_a_view_that_is_still_counting_does_not_report_none() -> None:
    begun = Table((), (), 0, 8, ("nothing was found",))
    assert without_hasty_words(begun).text == ("counting, 0 %",)
    assert without_hasty_words(replace(begun, looked_at=8)).text == ("nothing was found",)


def test_a_command_line_is_visible_and_can_be_completed() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("colon", *"scr")
        typed = app.screen.query_one(Input)
        assert typed.content_size.height == typed.outer_size.height == 1
        await until(pilot, lambda: typed._suggestion == "screenshot")
        await pilot.press("tab")
        assert typed.value == "screenshot"

    used(use)


@pytest.mark.parametrize(
    ("keys", "is_done"),
    [
        (":filter size > 3\n", lambda records: records.spec.filter == "size > 3"),
        (":go 4\n\n", lambda records: records.rows.cursor == 3),
        ("?/only records with\n", lambda records: records.spec.filter != ""),
    ],
    ids=["command", "enter twice", "help"],
)
def test_keys_pressed_before_a_prompt_is_drawn_are_typed_into_it(
    keys: str, is_done: Callable[[RecordsPane], bool]
) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        for key in keys:
            name = {":": "colon", "\n": "enter", " ": "space", ">": "greater_than_sign", "?": "question_mark"}.get(key)
            app.post_message(Key(name or {"/": "slash"}.get(key, key), key))
        await until(pilot, lambda: is_done(app.records))
        assert not app.screen.is_modal

    used(use)


def test_sorting_moves_to_the_first_row() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        rows = app.records.rows
        await pilot.press("G", "colon", *"sort -size", "enter")
        await until(pilot, lambda: app.records.spec.sort is not None)
        await until(pilot, lambda: rows.cursor == 0 and rows.current_row() is not None)
        assert cells(rows, "size") == "16"

    used(use)


def test_a_field_stays_highlighted_in_its_packet() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        details = app.records.details
        await until(pilot, lambda: details.details is not None and len(details.details.sources) > 1)
        await pilot.press("enter", "down", "down")
        lit = details.panes.octets.lit
        details.panes.action_tab(1)
        await pilot.press("up", "down")
        await until(pilot, lambda: details.panes.octets.lit == lit)
        assert details.panes.chosen == 1

    used(use)


def test_all_views_are_named_in_80_columns_whichever_is_open() -> None:
    views = (MESSAGES, *VIEWS.values())
    for view in views:
        shown = titles(views, view.name, 78)
        assert sum(len(title) for _, title in shown) <= 78
        assert [(name, title.strip()) for name, title in shown] == [
            (each.name, f"{each.key} {each.short}") for each in views
        ]
        assert f" {view.key} {view.short} " in dict(shown).values()


def test_40_columns_name_the_open_view_and_the_keys_of_all() -> None:
    views = (MESSAGES, *VIEWS.values())
    for view in views:
        shown = titles(views, view.name, 38)
        assert sum(len(title) for _, title in shown) <= 38
        assert [title.split()[0] for _, title in shown] == [each.key for each in views]
        assert dict(shown)[view.name] == f" {view.key} {view.short} "


def test_a_request_leads_to_its_record_and_back() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("0")
        await until(pilot, lambda: bool(app.query("#requests TableView")))
        table = app.query_one("#requests TableView", TableView)
        await until(pilot, lambda: table.current_row() is not None)
        await pilot.press("right", "j")
        await until(pilot, lambda: (row := table.current_row()) is not None and row.depth == 1)
        row = table.current_row()
        assert row is not None
        await pilot.press("enter")
        await until(pilot, lambda: app.records.shown == row.record)
        await pilot.press("slash", "R")
        assert app.query_one("#messages Input", Input).value.endswith("R")

    used(use, "problems/request-unanswered.pcap")


def test_a_cause_opens_its_records_and_back_returns_to_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        rows = app.records.rows
        await pilot.press("6")
        await until(pilot, lambda: bool(app.query("#problems TableView")))
        table = app.query_one("#problems TableView", TableView)
        await until(pilot, lambda: table.current_row() is not None)
        await pilot.press("right", "j", "j")
        await until(pilot, lambda: (row := table.current_row()) is not None and "RST of" in row.cells[1])
        row = table.current_row()
        assert row is not None
        assert row.time is not None
        await pilot.press("enter")
        await until(pilot, lambda: rows.has_focus and rows.current_row() is not None)
        assert app.records.spec.filter == row.filter
        assert app.records.spec.records == EVERYTHING
        assert 0 < rows.cursor < rows.count - 1
        await pilot.press("b")
        await until(pilot, lambda: table.has_focus)
        assert table.current_row() == row

    used(use, "problems/disconnects-without-period.pcap")


def test_following_a_record_stays_at_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("j", "j", "j")
        row = app.records.rows.current_row()
        assert row is not None
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.pane, FollowPane))
        pane = app.pane
        assert isinstance(pane, FollowPane)
        await until(pilot, lambda: (now := pane.rows.current_row()) is not None and now.number == row.number)

    used(use, "patterns/reqrep.pcap")


def test_the_first_screen_names_the_worst_problem_and_a_key_goes_there() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        bar = app.query_one(CausesBar)
        await until(pilot, lambda: bar.display)
        assert str(bar.content).startswith("c error  SUB 10.0.0.2 connected to PUB 10.0.0.1:5556 again after 206 ms")
        assert bar.has_class("error")
        assert len(str(bar.content).splitlines()) == 1, "the note beside it is none of the problems"
        await until(pilot, lambda: bar.size.height == 3)  # a single problem is not cut
        await pilot.press("c")
        await until(pilot, lambda: app.records.spec.filter == "conn in {1, 5}")
        assert app.records.spec.records == EVERYTHING
        await pilot.press("b")
        await until(pilot, lambda: not app.records.spec.filter)
        await pilot.press("6")
        await until(pilot, lambda: not bar.display)
        await pilot.press("c")
        await until(pilot, lambda: bar.display and app.records.spec.filter == "conn in {1, 5}")

    used(use, "problems/subscription-lost-on-reconnect.pcap", size=(80, 24))


def test_a_note_is_no_problem_to_open_on() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: "1 note" in str(app.query_one(TitleBar).content))
        assert not app.query_one(CausesBar).display
        await pilot.press("c")
        await until(pilot, lambda: any("no errors or warnings" in each.message for each in app._notifications))

    used(use)


def test_columns_without_texts_are_not_shown_and_others_are_as_wide_as_their_texts() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        heading = app.records.rows.draw_heading(0, 140).text
        assert "TOPIC" not in heading
        assert heading.index("TO ") - heading.index("FROM") == len("REP :5555") + GAP

    used(use, "patterns/reqrep.pcap")


def test_a_search_shows_its_progress_and_escape_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "step", lambda search: time.sleep(0.01))

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("F", *"nothing", "enter")
        await until(pilot, lambda: "searching 0 %: esc cancels" in str(app.query_one(TitleBar).content))
        await pilot.press("escape")
        await until(pilot, lambda: any("search was cancelled" in each.message for each in app._notifications))
        await until(pilot, lambda: "searching" not in str(app.query_one(TitleBar).content))

    used(use)


def test_a_cause_fits_80_columns_and_the_rest_is_below() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("6")
        await until(pilot, lambda: bool(app.query("#problems CutCells")))
        below = app.query_one("#problems CutCells", Static)
        await until(pilot, lambda: "ZMQ_SNDHWM above the number of its subscriptions" in str(below.content))
        table = app.query_one("#problems TableView", TableView)
        cause = "SUB 10.0.0.2 connected to PUB 10.0.0.1:5556"
        await until(pilot, lambda: cause in "".join(segment.text for segment in table.draw(0, "", 79)))

    used(use, "problems/subscription-lost-on-reconnect.pcap", size=(80, 24))


@pytest.mark.parametrize("view", some(tuple(VIEWS.values()), 4), ids=lambda view: view.name)
def test_each_view_opens_with_its_key(view: ViewTitle) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press(view.key)
        await until(pilot, lambda: bool(app.query(f"#{view.name} TableView")))

    used(use)
