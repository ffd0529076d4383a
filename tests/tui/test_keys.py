"""Keys act on the open view: on its rows, its times and its files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from tests.suites import some
from tests.tui.test_app import until, used
from zmtpscope.tui.app import Inspector
from zmtpscope.tui.follow_pane import FollowPane
from zmtpscope.tui.help_screen import HelpScreen
from zmtpscope.tui.key_bar import KeyBar
from zmtpscope.tui.menu import Menu
from zmtpscope.tui.requests import ListSpec, ViewTitle
from zmtpscope.tui.view_bar import MESSAGES
from zmtpscope.tui.view_pane import ViewPane
from zmtpscope.tui.widgets.line_view import LineView
from zmtpscope.tui.widgets.table_view import TableView
from zmtpscope.tui.worker.views.catalogue import VIEWS

TWO_CLIENTS = "problems/request-unanswered.pcap"


async def opened(app: Inspector, pilot: Pilot[None], view: ViewTitle) -> TableView:
    """Return the table of a view, once it has rows and the focus."""
    await pilot.press(view.key)
    await until(pilot, lambda: isinstance(app.pane, ViewPane) and app.pane.id == view.name)
    table = app.pane.query_one(TableView)
    await until(pilot, lambda: table.has_focus and table.count > 0)
    return table


def column(table: TableView, name: str) -> list[str]:
    place = [each.name for each in table.columns].index(name)
    return [row.cells[place] for row in table.rows]


def keys_shown(app: Inspector) -> list[str]:
    return [entry.binding.description for entry in app.screen.query_one(KeyBar).shown]


def screen(app: Inspector) -> list[str]:
    """Return the lines of the screen and of notices."""
    notices = [each.identity for each in app._notifications]
    return [strip.text for strip in app.screen._compositor.render_strips()] + notices


def view(name: str) -> ViewTitle:
    return next(each for each in VIEWS.values() if each.name == name)


def test_rows_of_a_table_are_filtered_sorted_followed_copied_and_exported(tmp_path: Path) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        before = app.records.spec
        table = await opened(app, pilot, view("connections"))
        assert {"Filter", "Sort", "Follow", "Copy", "Export", "Back"} <= set(keys_shown(app))
        assert "Find" not in keys_shown(app)

        await pilot.press("slash", *"0.3", "enter")
        await until(pilot, lambda: column(table, "conn") == ["2"])
        assert table.has_focus
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.pane, FollowPane) and app.pane.rows.current_row() is not None)
        assert isinstance(app.pane, FollowPane)
        assert app.pane.scope == "conn == 2"
        assert app.pane.rows.count == 20
        await pilot.press("escape")
        await until(pilot, lambda: table.has_focus)
        await pilot.press("escape")
        await until(pilot, lambda: column(table, "conn") == ["1", "2"])

        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, Menu))
        await pilot.press("enter")
        await until(pilot, lambda: column(table, "conn") == ["2", "1"])
        await pilot.press("z")
        await until(pilot, lambda: column(table, "conn") == ["1", "2"])

        await pilot.press("y", "enter")
        await until(pilot, lambda: "\tROUTER 10.0.0.1:5555\t" in app.clipboard)
        for name in ("rows.csv", "rows.jsonl"):
            await pilot.press("e")
            app.post_message(Paste(str(tmp_path / name)))
            await pilot.press("enter")
            await until(pilot, (tmp_path / name).exists)
        with (tmp_path / "rows.csv").open() as file:
            assert [row["to"] for row in csv.DictReader(file)] == ["ROUTER 10.0.0.1:5555"] * 2
        with (tmp_path / "rows.jsonl").open() as file:
            assert [json.loads(line)["messages_0"] for line in file] == [3, 10]
        assert app.records.spec == before

    used(use, TWO_CLIENTS)


def test_times_of_a_table_change_where_it_shows_times() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        table = await opened(app, pilot, view("peers"))
        first = column(table, "first")
        await pilot.press("t")
        await until(pilot, lambda: ":" in column(table, "first")[0])
        await pilot.press("t")
        await until(pilot, lambda: "-" in column(table, "first")[0])
        await pilot.press("t")
        await until(pilot, lambda: column(table, "first") == first)
        await opened(app, pilot, view("map"))
        assert "Times" not in keys_shown(app)

    used(use, TWO_CLIENTS)


def test_a_key_without_a_meaning_in_a_view_is_reported_and_changes_nothing() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await opened(app, pilot, view("connections"))
        for key in "xmMCFnft=!":
            await pilot.press(key)
            await until(pilot, lambda: ["in Connections" in each.message for each in app._notifications] == [True])
        assert app.records.spec == ListSpec()
        assert not app.records.marks

    used(use, TWO_CLIENTS)


def test_the_help_keeps_the_keys_from_the_view_below_it() -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark", "x", "o", "2", "q")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        assert app.pane is app.records
        assert app.records.rows.has_focus
        assert app.records.spec == ListSpec()

    used(use, TWO_CLIENTS)


@pytest.mark.parametrize("shown", some((MESSAGES, *VIEWS.values()), 3), ids=lambda view: view.name)
def test_each_key_on_the_last_line_changes_what_is_visible(shown: ViewTitle) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press(shown.key)
        await until(pilot, lambda: app.pane.id == shown.name)
        await pilot.pause(0.5)
        for entry in app.screen.query_one(KeyBar).shown:
            if entry.binding.description in ("Quit", "Open"):  # not every row can be opened
                continue
            is_of_rows = isinstance(entry.owner, LineView) or entry.binding.description == "Times"
            if is_of_rows and isinstance(app.focused, LineView) and not app.focused.count:
                continue
            before = screen(app)
            await pilot.press(entry.binding.key)
            await until(pilot, lambda before=before: screen(app) != before)  # type: ignore[misc]
            await pilot.press("escape")
            await until(pilot, lambda: not app.screen.is_modal)
            await pilot.pause(0.1)
            if app.pane.id != shown.name:
                await pilot.press(shown.key)
            await until(pilot, lambda: app.pane.id == shown.name)

    used(use, TWO_CLIENTS)
