"""Neither terminal nor widgets obey text from peers, file names or pasted text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot
from textual.strip import Strip

from tests.tui.hostile import PASSWORD, hostile_capture
from tests.tui.test_app import until, used
from zmtpscope.tui.app import Inspector
from zmtpscope.tui.commands import COMMANDS
from zmtpscope.tui.harmless import FAULT
from zmtpscope.tui.prompt import Prompt
from zmtpscope.tui.records_pane import EVERYTHING
from zmtpscope.tui.view_pane import ViewPane

FORBIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that a terminal might obey."""

MARKUP = "[/b][bold red]big[@click=app.bell]here[/]"
"""Markup that crashes a parser, or becomes an action."""

OBEYED = "\x1b]2;owned\x07\x9b2J\u202e\u200b\ufeff\u2028\U000e0041"
"""Octets that a terminal would obey."""

WORDS = (MARKUP.encode(), f"[b]{OBEYED}".encode())


@pytest.fixture
def capture(tmp_path: Path) -> str:
    """A capture in which all text of peers is one of these words."""
    path = tmp_path / "hostile.pcap"
    path.write_bytes(hostile_capture(*WORDS))
    return str(path)


def strips(app: Inspector) -> Iterator[Strip]:
    """Yield the strips of the screen and of visible screens below it."""
    for screen in app.screen_stack:
        yield from screen._compositor.render_strips()


def look(app: Inspector) -> str:
    """Return the text on the screen, after checking that it is harmless."""
    for strip in strips(app):
        for segment in strip:
            assert not segment.control
            assert not {unicodedata.category(character) for character in segment.text} & FORBIDDEN, segment
            assert segment.style is None or segment.style.link is None
            assert "app.bell" not in str(segment.style.meta if segment.style else "")
    text = "\n".join(strip.text for strip in strips(app))
    assert PASSWORD.decode() not in text
    return text


async def looked_at(app: Inspector, pilot: Pilot[None], *keys: str) -> str:
    """Return all text that was visible while these keys were pressed."""
    seen = [look(app)]
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.1)  # details appear after a pause in typing
        seen.append(look(app))
    return "\n".join(seen)


SIZES = [(200, 50), (80, 24)]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_lists_fields_and_octets(capture: str, size: tuple[int, int]) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("x")
        await until(pilot, lambda: app.records.spec.records == EVERYTHING)
        seen = await looked_at(app, pilot, *["j"] * 12, "tab", "plus", "j", "j", "tab", "l", "right_square_bracket")
        assert "[bold red]" in seen
        await looked_at(app, pilot, "backslash", "j", "backslash", "escape", "m", "M", "M")
        await looked_at(app, pilot, *["l"] * 5, "equals_sign", "b", "l", "exclamation_mark", "b")

    used(use, capture, size=size)


@pytest.mark.slow
def test_views(capture: str) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        shown = []
        for view in app._views[1:]:
            shown.append(view.name)
            await pilot.press(view.key)
            await until(pilot, lambda name=view.name: bool(app.query(f"ViewPane#{name}")))
            await until(pilot, lambda name=view.name: app.query_one(f"#{name}", ViewPane)._table.count > 0)
            await looked_at(app, pilot, *["space", "j"] * 4, "greater_than_sign", "r", "enter", "b")
        assert shown

    used(use, capture, size=(120, 60))


def test_other_screens(capture: str) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await looked_at(app, pilot, "j", "o", "j", "enter", "j", "escape", "j", "o", "enter", "escape")
        await looked_at(app, pilot, "question_mark", "escape", "ctrl+p", "escape")

    used(use, capture)


async def pasted(app: Inspector, pilot: Pilot[None], word: str) -> str:
    """Return the screen after a word was pasted into the input line."""
    app.post_message(events.Paste(word))
    await until(pilot, lambda: word[:3] in getattr(app.focused, "value", ""))
    return await looked_at(app, pilot, "left")


@pytest.mark.slow
def test_pasted_arguments_of_commands(capture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text may appear unchanged where it is harmless; errors quote it."""
    monkeypatch.chdir(tmp_path)  # some commands write files

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        for command in [command.name for command in COMMANDS if command.argument]:
            await pilot.press("colon")
            await until(pilot, lambda: isinstance(app.screen, Prompt))
            assert f"{command} {MARKUP}" in await pasted(app, pilot, f"{command} {MARKUP}{OBEYED}")
            await looked_at(app, pilot, "enter", "escape")

    used(use, capture)


def test_pasted_filters(capture: str) -> None:
    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        for word in (MARKUP, f'topic == "{MARKUP}'):
            await looked_at(app, pilot, "slash")
            assert word in await pasted(app, pilot, f"{word}{OBEYED}")
            await looked_at(app, pilot, "enter", "escape", "escape")

    used(use, capture)


def test_an_internal_error_is_printed_without_octets_of_the_capture(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def fail(app: Inspector, argument: str) -> None:
        octets = PASSWORD
        raise ValueError(f"{OBEYED}{MARKUP}{len(octets)}")

    async def use(app: Inspector, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")

    monkeypatch.setattr(Inspector, "do_help", fail)
    with pytest.raises(ValueError, match="owned"):
        used(use)
    errors = capfd.readouterr().err
    assert errors.startswith(FAULT)
    assert f"{MARKUP}{len(PASSWORD)}" in errors.replace("\n", "")
    assert PASSWORD.decode() not in errors
    assert not {unicodedata.category(character) for character in errors.replace("\n", "")} & FORBIDDEN
