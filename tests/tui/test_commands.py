"""Command lines after `:`, and the table of commands."""

from __future__ import annotations

from collections import Counter

import pytest

from zmtpscope.tui.app import Inspector
from zmtpscope.tui.commands import COMMANDS, Command, CommandError, parse
from zmtpscope.tui.follow_pane import FollowPane
from zmtpscope.tui.records_pane import RecordsPane
from zmtpscope.tui.view_pane import ViewPane


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_a_method(command: Command) -> None:
    """The method is in panes, or in the application for all panes."""
    method = f"do_{command.name}"
    assert any(hasattr(pane, method) for pane in (RecordsPane, FollowPane, ViewPane)) != hasattr(Inspector, method)


def test_no_key_has_two_commands() -> None:
    keys = Counter(key for command in COMMANDS for key in command.keys.split(",") if key)
    assert keys.most_common(1)[0][1] == 1


def test_a_unique_prefix_of_a_name_is_enough() -> None:
    assert parse("filt size > 3") == (parse("filter size > 3"))
    assert parse("filter size > 3").argument == "size > 3"


def test_a_number_is_a_row() -> None:
    assert parse(" 12 ").command.name == "go"
    assert parse("12").argument == "12"


@pytest.mark.parametrize(
    ("line", "what"), [("", "type a command"), ("frobnicate", "no command"), ("ma", "marked, maximise, mark")]
)
def test_an_unknown_command_gets_an_error(line: str, what: str) -> None:
    with pytest.raises(CommandError) as error:
        parse(line)
    for each in what.split(", "):
        assert each in str(error.value)
