"""All commands, by name and key: for keys, `:`, palette and help."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding, BindingType
from textual.keys import format_key

from zmtpscope.tui.choices import TIMES


class Command(NamedTuple):
    """A command. Its method `do_NAME` is in the views that have the command, or in `Inspector`."""

    name: str
    keys: str
    """Textual's names of the keys, separated by commas; "" for none."""
    title: str
    argument: str = ""
    """Name of the argument in the prompt; "" without argument."""
    is_optional: bool = False
    rank: int = 0
    """Position among the keys on the last line, 0 for none. Keys of the focused widget have `RANK_OF_WIDGETS`."""
    group: str = "Look around"
    is_instant: bool = False
    """Whether the key takes effect before queued keys, which belong to the new focus."""


RANK_OF_WIDGETS = 3

COMMANDS = (
    Command("help", "question_mark,f1", "Keys", rank=1, is_instant=True),
    Command("quit", "q", "Quit", rank=2, is_instant=True),
    Command(
        "filter",
        "slash",
        "Filter",
        "FILTER, as of -Y",
        is_optional=True,
        rank=4,
        group="Filter",
        is_instant=True,
    ),
    Command("only", "equals_sign", "Only records with this value", group="Filter"),
    Command("without", "exclamation_mark", "No records with this value", group="Filter"),
    Command("clear", "escape", "All records again", group="Filter"),
    Command("marked", "M", "Marked records only, or all", group="Filter"),
    Command(
        "show",
        "x",
        "Which records are in the list",
        "TYPES, such as message,command,finding",
        is_optional=True,
        group="Filter",
    ),
    Command("find", "F", "Find", "TEXT, /EXPRESSION/ or 0xHEX", rank=10),
    Command("next", "n", "Next that was found"),
    Command("previous", "N", "The one before that was found"),
    Command("go", "", "Go to a row", "NUMBER of the row"),
    Command("back", "b,backspace,alt+left", "Back", rank=9),
    Command("forward", "B,alt+right", "Forward"),
    Command("view", "", "Another view", "NAME of the view"),
    Command("cause", "c", "Go to the worst problem, then to the next"),
    Command("follow", "o", "Follow", "conn, peer or topic", is_optional=True, rank=6),
    Command("hex", "X", "Hex or text", rank=5),
    Command("maximise", "backslash", "One pane only, or all", is_instant=True),
    Command("time", "t", "Times", ", ".join(TIMES), is_optional=True, rank=11, group="List"),
    Command(
        "sort",
        "s",
        "Sort",
        "COLUMN, with - in front for the largest first",
        is_optional=True,
        rank=5,
        group="List",
    ),
    Command("unsort", "z", "In the order of the capture again", group="List"),
    Command("columns", "C", "Columns", "NAMES, separated by commas", is_optional=True, group="List"),
    Command("reference", "T", "Times since this row, or since the first packet", group="List"),
    Command("mark", "m", "Mark, or no longer", group="List"),
    Command("colour", "", "A colour rule", "STYLE FILTER, such as red severity==error", group="List"),
    Command("copy", "y", "Copy", "FORM", is_optional=True, rank=7, group="Take away"),
    Command("export", "e", "Export", "FILE.txt, .jsonl, .csv, .parquet or .pcapng", rank=8, group="Take away"),
    Command("cancel", "", "Cancel the search, or the file that is being written", group="Take away"),
    Command("screenshot", "", "Screenshot", "FILE.svg", group="Take away"),
    Command("decode", "d", "Read again with a rule", "RULE, as of -d, or none", group="Capture"),
    Command("keys", "K", "Read again with keys", "FILE of CURVE keys", is_optional=True, group="Capture"),
    Command("reload", "", "Read again", group="Capture"),
    Command("frames", "", "Read again with frames, or without", group="Capture"),
    Command("pause", "space", "Pause, or go on", group="Capture"),
    Command("stop", "", "Stop capturing", group="Capture"),
    Command("save", "", "Save what was captured so far", "FILE.pcapng", group="Capture"),
    Command("end", "f", "Follow the end, or do not", group="Capture"),
    Command("theme", "", "Theme", "NAME", is_optional=True, group="Look"),
    Command("larger", "right_curly_bracket", "Larger list, smaller fields", group="Look"),
    Command("smaller", "left_curly_bracket", "Smaller list, larger fields", group="Look"),
    Command("profile", "", "Save this look as a profile, or take one", "NAME", group="Look"),
    Command("command", "colon", "Type a command", is_instant=True),
    Command("suspend", "ctrl+z", "Back to the shell; fg returns"),
)
"""All commands, in the order of the help."""

BY_NAME = {command.name: command for command in COMMANDS}


def bindings() -> list[BindingType]:
    """Return the key bindings of all commands.

    Keys of instant commands take precedence over those of the focused widget: keys typed after `/` belong to the
    filter, even if they are queued already.
    """
    return [
        Binding(
            command.keys,
            f"command('{command.name}')",
            command.title,
            show=command.rank > 0,
            priority=command.is_instant,
        )
        for command in COMMANDS
        if command.keys
    ]


def keys_text(keys: str) -> str:
    """Return the keys of a command as printed in help, separated by spaces."""
    return " ".join(format_key(key) for key in keys.split(",") if key)


class Typed(NamedTuple):
    """A command line typed after `:`."""

    command: Command
    argument: str


class CommandError(Exception):
    """A command line typed after `:` is invalid; the text lists the valid commands."""


def row_place(argument: str, count: int) -> int:
    """Parse the number of a row, counted from 1; return its position from 0. There are `count` rows. Raises
    `CommandError`."""
    digits = argument.replace(",", "")
    if not digits.isdecimal() or not 0 < int(digits) <= count:
        raise CommandError(f"there is no row {argument}: rows are numbered from 1 to {count:,}" if count else "no rows")
    return int(digits) - 1


def time_format(argument: str) -> str:
    """Return a time format if it exists, or "" unchanged. Raises `CommandError` for an unknown format."""
    if argument and argument not in TIMES:
        formats = ", ".join(f"{name} ({meaning})" for name, meaning in TIMES.items())
        raise CommandError(f"there is no time format {argument}: {formats}")
    return argument


def parse(line: str) -> Typed:
    """Parse a command line `NAME ARGUMENT`.

    The start of a name is enough if it is unique. A number alone means `go`. Raises `CommandError`.
    """
    name, _, argument = line.strip().partition(" ")
    if name.isdecimal() and not argument:
        return Typed(BY_NAME["go"], name)
    found = [BY_NAME[name]] if name in BY_NAME else [each for each in COMMANDS if name and each.name.startswith(name)]
    if not found:
        raise CommandError(f"there is no command {name}" if name else "type a command; ? shows them all")
    if len(found) > 1:
        raise CommandError(f"{name} could be {', '.join(each.name for each in found)}")
    return Typed(found[0], argument.strip())
