"""Write zmtpscope.1 from the commands themselves: `python docs/man/generate.py`."""

from __future__ import annotations

import inspect
import pathlib
import re
from collections.abc import Iterator

import click

from zmtpscope.cli import zmtpscope
from zmtpscope.cli.parameters import Command

PAGE = pathlib.Path(__file__).with_name("zmtpscope.1")

EXAMPLES = (
    ("zmtpscope demo", "Try it on a capture that is installed with zmtpscope."),
    ("zmtpscope read capture.pcap", "Print every event in a capture, one per line."),
    ("zmtpscope scan capture.pcap", "List its ZeroMQ endpoints and the clients that were refused."),
    ("zmtpscope stats capture.pcap --by topic", "Summarise message counts, sizes and rates."),
    ("zmtpscope live -i lo", "Print events on an interface as they happen."),
    ("tcpdump -U -w - | zmtpscope read -", "Read the capture of tcpdump, which has the rights to capture."),
    ("ssh host tcpdump -i any -U -w - not port 22 | zmtpscope read -", "Print the events on another machine."),
    ("zmtpscope probe tcp://127.0.0.1:5555", "Identify the peer at an endpoint."),
    ("echo ping | zmtpscope cat req tcp://127.0.0.1:5555", "Send a request and print the reply."),
)
EXIT_CODES = (
    ("0", "Done."),
    ("1", "An error while running."),
    ("2", "Wrong usage, or the file is not a capture."),
    ("3", "The capture is damaged or cut short, or packets were lost; everything readable was read."),
    ("4, 10 to 15", "Exit codes of cat and probe, listed in their help."),
    ("130", "Interrupted."),
)
ENVIRONMENT = (
    ("ZMTPSCOPE_KEYLOG", "Files with CURVE keys, separated as in PATH; used without --keys."),
    (
        "NO_COLOR, FORCE_COLOR",
        "No colour; colour even if the output is not a terminal. --color takes precedence.",
    ),
    ("TZ", "The time zone of -t a and -t ad."),
)


def page() -> str:
    """Return the manual page."""
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
        for heading, options in _options(command, context).items():
            yield from (".PP", f".I {heading}:")
            for option in options:
                names = _text(", ".join([*option.opts, *option.secondary_opts]))
                yield from (".TP", f"\\fB{names}\\fR{_value(option)}", _text(option.help or ""))
        if command.epilog:
            yield from (".PP", _text(" ".join(command.epilog.split())))
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                yield from _command(command.get_command(context, each), context, each)


def _options(command: click.Command, context: click.Context) -> dict[str, list[click.Option]]:
    """Return the options of a command by heading, without --help."""
    if not isinstance(command, Command):
        return {}
    found = command.options_by_heading(context)
    listed = {heading: [each for each in options if each.name != "help"] for heading, options in found.items()}
    return {heading: options for heading, options in listed.items() if options}


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(inspect.cleandoc(text).split("\n\n")):
        yield from [".PP"] if number else []
        if paragraph.startswith("\b"):  # click leaves its lines as they are
            yield from (".nf", _text(paragraph), ".fi")
        else:
            yield _text(" ".join(paragraph.split()))


def _value(option: click.Option) -> str:
    """Return the text after the name of an option."""
    if option.is_flag or option.count:
        return ""
    choices = isinstance(option.type, click.Choice) and option.metavar is None
    value = "|".join(map(str, option.type.choices)) if choices else option.metavar or option.type.name.upper()
    return f" \\fI{_text(value)}\\fR"


def _entries(entries: tuple[tuple[str, str], ...]) -> Iterator[str]:
    for term, meaning in entries:
        yield from (".TP", f".B {_text(term)}", _text(meaning))


def _text(text: str) -> str:
    """Return text as roff, without requests and escapes."""
    escaped = text.replace("\b", "").replace("\\", r"\e").replace("-", r"\-").strip()
    return re.sub(r"^([.'])", r"\\&\1", escaped, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(page())
