"""The first line counts problems and names the key that shows them."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace
from textual.app import App, ComposeResult

from zmtpscope.tui.requests import Progress
from zmtpscope.tui.title_bar import TitleBar

READ = Progress(100, 80, 2, 200, 5000, 5000, is_done=True, is_live=False, diagnosed=100, diagnoses="")

LIVE = replace(READ, is_done=False, is_live=True, diagnoses="1 warning", diagnosed=90)


def title_of(progress: Progress, what: str = "a.pcap", columns: int = 80) -> str:
    class Screen(App[None]):
        def compose(self) -> ComposeResult:
            yield TitleBar(what)

    async def run() -> str:
        screen = Screen()
        async with screen.run_test(size=(columns, 3)) as pilot:
            bar = screen.query_one(TitleBar)
            bar.show_key_of_diagnoses("9")
            bar.show_progress(progress)
            await pilot.pause()
            return str(bar.content)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (READ, "nothing wrong"),
        (replace(READ, diagnoses="1 error, 2 warnings"), "1 error, 2 warnings: see 9"),
        (replace(READ, diagnosed=40), "diagnosing 40 %"),
        (replace(READ, is_done=False, diagnoses=None), "reading 100 %"),
        (LIVE, "1 warning: see 9  200 packets  live"),
    ],
)
def test_diagnoses_are_counted_once_all_records_are_known(progress: Progress, words: str) -> None:
    assert title_of(progress) == f"a.pcap  80 messages  2 connections  {words}"


def test_a_narrow_line_keeps_the_diagnoses() -> None:
    progress = replace(READ, diagnoses="1 error, 2 warnings")
    assert title_of(progress, columns=64) == "a.pcap  2 connections  1 error, 2 warnings: see 9"
    assert title_of(progress, columns=40) == "a.pcap  1 error, 2 warnings: see 9"


def test_the_name_is_cut_without_room() -> None:
    text = title_of(replace(READ, diagnoses="1 error"), "a-capture-with-a-very-long-name.pcap", 60)
    assert text == "a-capture-wit…  80 messages  2 connections  1 error: see 9"
