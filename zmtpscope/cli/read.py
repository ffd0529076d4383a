"""`zmtpscope read`: captures in, what happened out."""

from __future__ import annotations

import shutil
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    exit_code,
    named_captures,
    say_if_nothing_was_found,
    say_what_stayed_closed,
    say_what_was_left_out,
)
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen
from zmtpscope.cli.parameters import (
    BODY,
    FILES,
    FORCED,
    FRAMES,
    KEYS,
    MORE_FILES,
    PACKETS,
    PAYLOAD,
    PAYLOAD_FILES,
    SHOW_SECRETS,
)
from zmtpscope.export.clock import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Analyser, Batch, Options

LINES_AT_ONCE = 100


@click.command(short_help="Say what happened in captures, a line each.")
@FILES
@MORE_FILES
@click.option("--json", "as_json", is_flag=True, help="JSON lines, one object a record.")
@FRAMES
@BODY
@PACKETS
@click.option("-q", "quiet", is_flag=True, help="No records, only a summary.")
@click.option("-V", "tree", is_flag=True, help="Every field of every greeting, command and frame.")
@click.option("-x", "hex_dump", is_flag=True, help="Their octets in hex.")
@click.option(
    "-t",
    "time_form",
    type=click.Choice(list(FORMS)),
    default="r",
    help="Form of the time: r from the first packet, "
    "a time of day, ad with date, u and ud in UTC, e seconds since 1970, d from the line above.",
    metavar="FORM",
)
@click.option("-n", "numeric", is_flag=True, help="Addresses and ports stay numbers (they always do).")
@FORCED
@PAYLOAD
@PAYLOAD_FILES
@KEYS
@click.option("--stats", is_flag=True, help="At the end: where every packet and octet went.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour [auto].")
@SHOW_SECRETS
@click.option(
    "--verbose", is_flag=True, help="Also findings that are normal events (severity chat), or what libzmq always does."
)
def read(**given: Any) -> int:
    """Find ZMTP in capture FILEs (pcap, pcapng, also compressed; - is standard input; directories are searched) and say
    what happened on every connection, a line each."""
    paths = named_captures(given)
    if given["quiet"] and (given["as_json"] or given["tree"] or given["hex_dump"] or given["frames"]):
        raise click.UsageError("-q prints no records: leave out --json, -V, -x and --frames")
    if given["as_json"] and (given["tree"] or given["hex_dump"]):
        raise click.UsageError("-V and -x are for people: leave out --json")
    return _read(paths, given)


def _read(paths: list[str], given: dict[str, Any]) -> int:
    # imported here, so that help, usage errors and the other commands stay quick
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser

    keys = given_keys(given)
    said = say_problems(keys)
    options = analyser_options(
        given, keys=keys, records=not given["quiet"], frames=given["frames"], details=given["tree"] or given["hex_dump"]
    )
    try:
        captures = open_captures(paths, packet_limit=given["packets"])
        analyser = Analyser(options)
        batches = analyser.run(captures)
        shown = is_seen() and (given["quiet"] or not sys.stdout.isatty())
        with Progress(captures.statistics, paths, shown):
            if given["as_json"]:
                _write_json(batches, options)
            else:
                _write_text(batches, options, given, lambda: captures.statistics.first_time)
        _write_end(analyser, captures, given)
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    sys.stdout.flush()
    say_problems(keys, said)
    return exit_code(captures)


def _write_json(batches: Iterator[Batch], options: Options) -> None:
    from zmtpscope.export.json_lines import text_of

    output, ascii_only = sys.stdout.buffer, sys.stdout.isatty()
    for batch in batches:
        for text in text_of(batch, options, ascii_only=ascii_only):
            output.write(text)
        output.flush()


def _write_text(
    batches: Iterator[Batch], options: Options, given: dict[str, Any], start: Callable[[], int | None]
) -> None:
    from zmtpscope.export.clock import Clock
    from zmtpscope.export.text import Look, TextLines

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    look = Look(
        Clock(given["time_form"], start),
        _paint(given),
        width,
        chat=given["verbose"],
        tree=given["tree"],
        hex=given["hex_dump"],
    )
    text = TextLines(look, options)
    for batch in batches:
        lines = text.lines(batch)
        while chunk := "".join(islice(lines, LINES_AT_ONCE)):
            sys.stdout.write(chunk)
        sys.stdout.flush()


def _write_end(analyser: Analyser, captures: Captures, given: dict[str, Any]) -> None:
    """The summary and the sums, where they are asked for; they are no JSON lines, so beside those they go to stderr."""
    from zmtpscope.export.summary import statistics_lines, summary_lines

    summary, statistics = analyser.summary, captures.statistics
    if given["quiet"]:
        for line in summary_lines(summary, statistics, captures.problems, _paint(given), chat=given["verbose"]):
            click.echo(line)
    else:
        say_if_nothing_was_found(summary, captures)
    if given["stats"]:
        for line in statistics_lines(summary, statistics):
            click.echo(line, err=given["as_json"])
    say_what_stayed_closed(summary, analyser.options.keys)
    say_what_was_left_out(analyser.options.payloads)


def _paint(given: dict[str, Any]) -> Callable[[str, str], str]:
    from zmtpscope.cli.colour import painter, wants_colour
    from zmtpscope.export.text import STYLES, plain

    return painter(STYLES) if wants_colour(given["color"]) else plain
