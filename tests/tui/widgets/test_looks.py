"""Screens with text and styles, word by word.

`pytest --update-golden` rewrites them; read the diff before committing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from tests.suites import some
from tests.tui.widgets.screens import screen_looks
from zmtpscope.tui.requests import (
    Completion,
    Details,
    FilterProblem,
    Node,
    Page,
    Row,
    Sort,
    Source,
    Table,
    TableColumn,
    TableRow,
)
from zmtpscope.tui.widgets.details_pane import DetailsPane
from zmtpscope.tui.widgets.filter_bar import TYPING, FilterBar
from zmtpscope.tui.widgets.row_list import RowList
from zmtpscope.tui.widgets.table_view import TableView

GOLDEN = Path(__file__).parents[2] / "golden" / "tui"

COLUMNS = (
    TableColumn("time", "TIME", is_number=True, width=12, style="muted"),
    TableColumn("from", "FROM", width=18, rank=1),
    TableColumn("topic", "TOPIC", width=16, style="strong"),
    TableColumn("size", "SIZE", is_number=True, width=6, rank=2, style="muted"),
    TableColumn("content", "CONTENT"),
)
ROWS = (
    Row(0, "greeting", ("0.000296", "PUB :5556", "", "", "GREETING 3.1 NULL")),
    Row(1, "command", ("0.000494", "SUB", "weather", "", 'SUBSCRIBE "weather"')),
    Row(2, "message", ("1.002", "PUB :5556", "weather.berlin", "33", '{"temperature": 21.5, "humidity": 40}')),
    Row(3, "error", ("1.003", "PUB :5556", "", "", "error ZMTP-FRAME-02 A reserved bit of the flags is set")),
    Row(4, "warn", ("1.004", "SUB", "", "", "warn PLAIN-06 The server refused the client")),
    Row(5, "message", ("1.105", "PUB :5556", "weather.zürich", "2048", "a long text that goes on and on " * 9)),
    Row(6, "connection", ("2.000", "", "", "", "closed by SUB after 2 s, 2 messages from PUB")),
)
DETAILS = Details(
    2,
    "message",
    (
        Node(0, "zmtp.message", "", 1, 16, 59),
        Node(1, "zmtp.frame", "", 1, 16, 32),
        Node(2, "zmtp.flags", "1", 1, 16, 17),
        Node(2, "zmtp.size", "14 (0xe)", 1, 17, 18),
        Node(2, "zmtp.body", '"weather.berlin"', 1, 18, 32),
        Node(1, "zmtp.body", '{"temperature": 21.5}', 1, 32, 59),
        Node(2, "password", "***", 1, 40, 44, style="secret"),
        Node(0, "record", "message", -1),
        Node(1, "conn", "1", -1, link=6),
    ),
    (
        Source("packet 12", 0, bytes(90)),
        Source("stream", 16, bytes([1, 14]) + b'weather.berlin\0\x1b{"temperature": 21.5}' + bytes(9), ((40, 44),)),
    ),
)
TABLE = Table(
    (
        TableColumn("topic", "TOPIC"),
        TableColumn("messages", "MESSAGES", is_number=True),
        TableColumn("history", "HISTORY"),
        TableColumn("last", "LAST VALUE"),
    ),
    (
        TableRow("weather", ("weather", "12,345", "▁▂▃▅▇█▅▂", ""), has_more=False),
        TableRow("weather.berlin", ("berlin", "12,000", "▁▂▃▅▇█▅▁", "21.5 C"), depth=1),
        TableRow("weather.zürich", ("zürich", "345", "▁▁▁▁▂▁▁▂", "19.0 C"), depth=1, style="warn"),
        TableRow("heartbeats", ("heartbeats", "60", "▄▄▄▄▄▄▄▄", "0"), has_more=True),
    ),
    100,
    100,
    ("2 topics",),
)


async def fetch(low: int, high: int) -> Page:
    return Page(low, ROWS[low:high])


async def check(text: str) -> FilterProblem | None:
    return FilterProblem("a value is missing", len(text)) if text.endswith("==") else None


async def complete(text: str, place: int) -> Completion:
    if not text.endswith("zmtp"):
        return Completion(place, place, (), ())
    return Completion(0, place, ("zmtp.size", "zmtp.topic"), ("octets of the body", "what subscribers choose by"))


class Records(App[None]):
    """A list below its filter and above its details."""

    CSS = "RowList { height: 1fr; } DetailsPane { height: 1fr; border-top: solid $foreground 15%; }"

    def compose(self) -> ComposeResult:
        yield FilterBar(check, complete)
        yield RowList(fetch)
        yield DetailsPane()

    def on_mount(self) -> None:
        rows = self.query_one(RowList)
        rows.set_columns(COLUMNS, Sort("time"))
        rows.set_count(len(ROWS))
        rows.set_marked({2})
        rows.focus()
        self.query_one(DetailsPane).show(DETAILS)
        self.query_one(FilterBar).show_state(f"{len(ROWS)}")


class Topics(App[None]):
    def compose(self) -> ComposeResult:
        yield TableView()

    def on_mount(self) -> None:
        shown = self.query_one(TableView)
        shown.focus()
        closed = TableRow("weather", ("weather", "12,345", "", ""), has_more=True)
        shown.show(Table(TABLE.columns, (closed,), 1, 1))

    def on_table_view_opened_changed(self) -> None:
        self.query_one(TableView).show(TABLE, Sort("messages", descending=True))


SCENES: dict[str, tuple[type[App[None]], Sequence[str]]] = {
    "a-row-is-selected": (Records, ["j", "j", "l", "l"]),
    "a-field-is-selected": (Records, ["tab", "j", "j", "j", "j"]),
    "an-octet-is-selected": (Records, ["tab", "j", "tab", *["l"] * 24]),
    "a-filter-is-completed": (Records, ["shift+tab", *"zmtp", "wait", "down"]),
    "a-filter-is-wrong": (Records, ["shift+tab", *"zmtp", "equals_sign", "equals_sign", "wait"]),
    "a-row-of-a-table-is-open": (Topics, ["l", "j"]),
}
SIZES = {"80x24": (80, 24), "200x50": (200, 50)}


def look_of(scene: str, size: tuple[int, int]) -> str:
    async def run() -> str:
        made, keys = SCENES[scene]
        app = made()
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            for key in keys:
                await (pilot.pause(3 * TYPING) if key == "wait" else pilot.press(key))
            await pilot.pause()
            return screen_looks(app)

    return asyncio.run(run())


@pytest.mark.parametrize(("scene", "size"), some(itertools.product(SCENES, SIZES), 5))
def test_a_screen_is_unchanged(scene: str, size: str, request: pytest.FixtureRequest) -> None:
    compare(f"{scene}-{size}.txt", look_of(scene, SIZES[size]), request)


@pytest.mark.slow
@pytest.mark.parametrize("scene", ["a-row-is-selected", "an-octet-is-selected"])
def test_a_screen_without_colour_has_none(
    scene: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    compare(f"{scene}-no-colour.txt", look_of(scene, SIZES["80x24"]), request)


def compare(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
