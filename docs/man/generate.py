"""Write zmtpscope.1 from the commands themselves: `python docs/man/generate.py`."""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Iterator

import click

from zmtpscope.cli import zmtpscope

PAGE = pathlib.Path(__file__).with_name("zmtpscope.1")

EXAMPLES = (
    ("zmtpscope demo", "Try it on a capture that is installed with zmtpscope."),
    ("zmtpscope read capture.pcap", "Say what happened in a capture, a line each."),
    ("zmtpscope scan capture.pcap", "Who speaks ZMTP in it, how, and who was refused."),
    ("zmtpscope stats capture.pcap --by topic", "How many messages there were, how large and how often."),
    ("zmtpscope live -i lo", "The same of what passes on an interface, as it happens."),
    ("tcpdump -U -w - | zmtpscope read -", "The same where tcpdump has the rights to capture."),
    ("ssh host tcpdump -i any -U -w - not port 22 | zmtpscope read -", "The same on another machine."),
    ("zmtpscope probe tcp://127.0.0.1:5555", "Who is at an endpoint."),
    ("echo ping | zmtpscope cat req tcp://127.0.0.1:5555", "Send a message, and write the reply."),
)
EXIT_CODES = (
    ("0", "Done."),
    ("1", "An error while running."),
    ("2", "Usage, or what was named is no capture."),
    ("3", "The capture is damaged or cut short, or packets were lost; everything readable was read."),
    ("4, 10 to 15", "Of cat and probe, whose help names them."),
    ("130", "Interrupted."),
)
ENVIRONMENT = (
    ("ZMTPSCOPE_KEYLOG", "Files with CURVE keys, as in PATH, where --keys is not given."),
    ("NO_COLOR, FORCE_COLOR", "No colour, and colour also where the output is no terminal; --color comes first."),
    ("TZ", "The time zone of -t a and -t ad."),
)


def page() -> str:
    """The manual page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield '.TH ZMTPSCOPE 1 "" zmtpscope "User Commands"'
    yield from (".SH NAME", r"zmtpscope \- protocol analyser for ZeroMQ", ".SH SYNOPSIS")
    yield from (".B zmtpscope", ".I COMMAND", "[OPTION]...")
    yield from (".br", ".B zmtpscope", ".I FILE...", "[OPTION]...")
    yield from (".SH DESCRIPTION", *_paragraphs(zmtpscope.help or ""))
    yield from (".SH EXAMPLES", *_entries(EXAMPLES))
    yield ".SH COMMANDS"
    with click.Context(zmtpscope, info_name="zmtpscope") as context:
        for name in zmtpscope.list_commands(context):
            yield from _command(zmtpscope.get_command(context, name), context, name)
    yield from (".SH EXIT STATUS", *_entries(EXIT_CODES))
    yield from (".SH ENVIRONMENT", *_entries(ENVIRONMENT))
    yield from (".SH SEE ALSO", ".BR tcpdump (8),", ".BR dumpcap (1),", ".BR tshark (1)")


def _command(command: click.Command | None, parent: click.Context, name: str) -> Iterator[str]:
    assert command is not None
    with click.Context(command, parent=parent, info_name=name) as context:
        pieces = [*command.collect_usage_pieces(context)]
        yield f".SS {_text(' '.join([context.command_path, *pieces]))}"
        yield from _paragraphs(command.help or "")
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                names = _text(", ".join([*option.opts, *option.secondary_opts]))
                yield from (".TP", f"\\fB{names}\\fR{_value(option)}", _text(option.help or ""))
        if command.epilog:
            yield from (".PP", _text(" ".join(command.epilog.split())))
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                yield from _command(command.get_command(context, each), context, each)


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        yield from [".PP"] if number else []
        if paragraph.startswith("\b"):  # click leaves its lines as they are
            yield from (".nf", _text(paragraph), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))


def _value(option: click.Option) -> str:
    """What stands behind the name of an option."""
    if option.is_flag or option.count:
        return ""
    choices = isinstance(option.type, click.Choice) and option.metavar is None
    value = "|".join(map(str, option.type.choices)) if choices else option.metavar or option.type.name.upper()
    return f" \\fI{_text(value)}\\fR"


def _entries(entries: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, meaning in entries:
        yield from (".TP", f".B {_text(term)}", _text(meaning))


def _text(text: str) -> str:
    """Text as roff has it: nothing in it is a request or an escape."""
    escaped = text.replace("\b", "").replace("\\", r"\e").replace("-", r"\-").strip()
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page())
