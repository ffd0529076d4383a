"""Commands with options under headings, options that commands share, and parsers of `-c`, `--payload-file` and
`--select`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from zmtpscope.option_texts import READ_OPTIONS, check_columns, known_payload, nearest
from zmtpscope.records import RECORDS, SINGULARS

AnyCommand = TypeVar("AnyCommand", bound=Callable[..., Any])


class Heading(str):
    """A heading in help. Its methods declare options that help lists below it."""

    __slots__ = ()

    def option(self, *names: str, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
        return click.option(*names, cls=Option, heading=self, **settings)

    def flag(self, *names: str, **settings: Any) -> Callable[[AnyCommand], AnyCommand]:
        return self.option(*names, is_flag=True, **settings)


OPTIONS, INPUT, FILTERS, OUTPUT = map(Heading, ("Options", "Input", "Filters", "Output"))
DECODING, SECURITY, CAPTURE, MESSAGES = map(Heading, ("Decoding", "Security", "Capture", "Messages"))
HEADINGS = (OPTIONS, MESSAGES, FILTERS, INPUT, CAPTURE, OUTPUT, DECODING, SECURITY)
"""Headings in the order in which help prints them. A command's own options are under the first."""

option, flag = OPTIONS.option, OPTIONS.flag


class Option(click.Option):
    """An option that belongs to a heading of `HEADINGS` in help."""

    def __init__(self, *names: Any, heading: str = OPTIONS, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.heading = heading


class Command(click.Command):
    """A command whose help lists its options under headings."""

    def options_by_heading(self, ctx: click.Context) -> dict[str, list[click.Option]]:
        """Group the options by heading, in the order in which help prints them."""
        found: dict[str, list[click.Option]] = {heading: [] for heading in HEADINGS}
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and not each.hidden:
                found[each.heading if isinstance(each, Option) else OPTIONS].append(each)
        if [each.name for each in found[OPTIONS]] == ["help"]:
            found[OPTIONS] = found.pop(OPTIONS)  # last: the command has no options of its own
        return {heading: options for heading, options in found.items() if options}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, options in self.options_by_heading(ctx).items():
            records = [each.get_help_record(ctx) for each in options]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])


def command(**settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a `Command` of a function, with the settings of `click.command`."""
    decorator: Callable[[Callable[..., Any]], click.Command] = click.command(**{"cls": Command, **settings})
    return decorator


def options(*each: Callable[[AnyCommand], AnyCommand]) -> Callable[[AnyCommand], AnyCommand]:
    """Return a decorator that adds several options to a command, in this order."""

    def add(command: AnyCommand) -> AnyCommand:
        for add_one in reversed(each):
            command = add_one(command)
        return command

    return add


S = TypeVar("S")
T = TypeVar("T")

LARGEST_PAYLOAD_FILE = 64 << 20


def parse_count(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if re.fullmatch("0*[1-9][0-9]{0,17}", value) is None:
        raise click.BadParameter(f"{value!r} is not a number of packets; use 1 or more")
    return int(value)


def checked(parse: Callable[[S], T], value: S) -> T:
    """Return `parse(value)` for a parameter; a `ValueError` becomes a usage error."""
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def read_option(name: str, heading: Heading) -> Callable[[AnyCommand], AnyCommand]:
    """Declare the option `name` of `READ_OPTIONS`, which sets a field of `ReadOptions`."""
    flag, parse, metavar, help, default, many = READ_OPTIONS[name]

    def parsed(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        return tuple(checked(parse, each) for each in value) if many else checked(parse, value)

    return heading.option(flag, name, multiple=many, callback=parsed, default=default, metavar=metavar, help=help)


def parse_payload_files(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, dict[str, bytes]]:
    """Parse `NAME=FILE`, which may be repeated; return the contents of the files by dissector and file name."""
    files: dict[str, dict[str, bytes]] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not path:
            raise click.BadParameter(f"{value!r} is not NAME=FILE")
        try:
            with open(path, "rb") as file:
                octets = file.read(LARGEST_PAYLOAD_FILE + 1)
        except OSError as error:
            raise click.BadParameter(f"{path}: {error.strerror}") from None
        if len(octets) > LARGEST_PAYLOAD_FILE:
            raise click.BadParameter(f"{path}: larger than {LARGEST_PAYLOAD_FILE >> 20} MiB")
        files.setdefault(checked(known_payload, name), {})[path] = octets
    return files


def parse_select(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """Parse `RECORD` or `RECORD:COLUMN,COLUMN`, which may be repeated; return the columns in order, by record type.

    A record type may have the name of its table: `message` or `messages`.
    """
    selected: dict[str, tuple[str, ...]] = {}
    for value in values:
        given, colon, wanted = value.partition(":")
        name = SINGULARS.get(given, given)
        if name not in RECORDS:
            raise click.BadParameter(f"no record type named {name!r}{nearest(name, RECORDS)}")
        if name in selected:
            raise click.BadParameter(f"{name} is selected twice; name its columns together: {name}:conn,ts_ns")
        known = [field.name for field in RECORDS[name].fields]
        columns = wanted.split(",") if colon else known
        checked(partial(check_columns, name, columns), known)
        selected[name] = tuple(columns)
    return selected


CAPTURE_ENDINGS = (".pcap", ".pcapng", ".cap", ".gz", ".zst")


def names_a_file(word: str) -> bool:
    """Whether an argument is a file name or standard input: a file of this name exists, or the suffix is that of a
    capture."""
    return word == "-" or word.endswith(CAPTURE_ENDINGS) or os.path.exists(word)


A_FILE = click.Path(readable=False)
"""A file that shells complete. Errors are reported when it is opened."""
FILES = click.argument("files", nargs=-1, type=A_FILE, metavar="[FILE]...")
MORE_FILES = INPUT.option(
    "-r", "more_files", multiple=True, type=A_FILE, metavar="FILE", help="Read FILE, like an argument; repeatable."
)
FRAMES = OUTPUT.flag("--frames", help="Also output a record for each frame of a message.")
WITH_DERIVED = OUTPUT.flag(
    "--derived",
    help="Also output derived records: requests, subscriptions, heartbeats, peers, topics, deliveries and diagnoses.",
)
BODY = read_option("body", OUTPUT)
PACKETS = INPUT.option("-c", "packets", callback=parse_count, metavar="N", help="Stop after N packets.")
PACKETS_TO = OUTPUT.option(
    "-w",
    "packets_to",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Also write the packets of the printed records to FILE, as pcapng with the findings as packet comments.",
)
PAYLOAD_FILES = DECODING.option(
    "--payload-file",
    "payload_files",
    multiple=True,
    callback=parse_payload_files,
    metavar="NAME=FILE",
    help="File for payload dissector NAME, for example jupyter=kernel-1234.json; repeatable.",
)
KEYLOG_VARIABLE = "ZMTPSCOPE_KEYLOG"
KEYS = SECURITY.option(
    "--keys",
    "key_files",
    multiple=True,
    type=click.Path(),
    envvar=KEYLOG_VARIABLE,
    metavar="FILE",
    help="Decrypt CURVE traffic with this key log or certificate (- for standard input); repeatable "
    f"[default: the files in {KEYLOG_VARIABLE}, separated as in PATH].",
)
SHOW_SECRETS = SECURITY.flag("--show-secrets", help="Print passwords instead of masking them.")
DECODING_OPTIONS = (
    *(read_option(name, DECODING) for name in READ_OPTIONS if name != "body"),
    PAYLOAD_FILES,
    KEYS,
)
READ_FILES = (FILES, MORE_FILES, PACKETS, *DECODING_OPTIONS)
"""Parameters of every command that reads captures to their end."""
