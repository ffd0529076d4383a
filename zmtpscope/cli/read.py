"""`zmtpscope read`: captures in, what happened out."""

from __future__ import annotations

import shutil
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.messages import is_seen, say
from zmtpscope.cli.parameters import Body, Forced, parse_body, parse_count, parse_forced
from zmtpscope.export.clock import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Analyser, Batch, Options

DAMAGED = 3
LINES_AT_ONCE = 100


class NoCapture(click.ClickException):
    """What was named cannot be read as a capture at all."""

    exit_code = 2


@click.command(short_help="Say what happened in captures, a line each.")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("-r", "more_files", multiple=True, metavar="FILE", help="Read FILE.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines, one object a record.")
@click.option("--frames", is_flag=True, help="Also a record for each frame of a message.")
@click.option(
    "--body",
    callback=parse_body,
    default="full",
    metavar="full[:LIMIT]|head:N|none",
    help="How much of message bodies to keep [full:16M].",
)
@click.option("-c", "packets", callback=parse_count, metavar="N", help="Stop after N packets.")
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
@click.option(
    "-d",
    "forced",
    multiple=True,
    callback=parse_forced,
    metavar="SELECTOR,zmtp[/VERSION[/MECHANISM]]",
    help="Read these connections as ZMTP, whatever they look like: tcp.port==5555,zmtp/3.1/NULL or conn==3,zmtp.",
)
@click.option("--stats", is_flag=True, help="At the end: where every packet and octet went.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour [auto].")
@click.option("--show-secrets", is_flag=True, help="Do not mask passwords.")
@click.option(
    "--verbose", is_flag=True, help="Also findings that are normal events (severity chat), or what libzmq always does."
)
def read(**given: Any) -> int:
    """Find ZMTP in capture FILEs (pcap, pcapng, also compressed; - is standard input; directories are searched) and say
    what happened on every connection, a line each."""
    paths = [*given["files"], *given["more_files"]]
    if not paths:
        raise click.UsageError("name a capture to read, or - for standard input")
    if given["quiet"] and (given["as_json"] or given["tree"] or given["hex_dump"] or given["frames"]):
        raise click.UsageError("-q prints no records: leave out --json, -V, -x and --frames")
    if given["as_json"] and (given["tree"] or given["hex_dump"]):
        raise click.UsageError("-V and -x are for people: leave out --json")
    return _read(paths, given)


def _read(paths: list[str], given: dict[str, Any]) -> int:
    # imported here, so that help, usage errors and the other commands stay quick
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser, DecodeAs, Options

    body: Body = given["body"]
    forced: list[Forced] = given["forced"]
    numbers = {"full": "body_limit", "head": "head"}
    options = Options(
        bodies=body.keep,
        **({} if body.octets is None else {numbers[body.keep]: body.octets}),
        records=not given["quiet"],
        frames=given["frames"],
        details=given["tree"] or given["hex_dump"],
        decode_as=tuple(DecodeAs(*each) for each in forced),
        show_secrets=given["show_secrets"],
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
    for problem in captures.problems:
        say(f"zmtpscope: {problem}")
    return DAMAGED if captures.problems else 0


def _write_json(batches: Iterator[Batch], options: Options) -> None:
    from zmtpscope.export.json_lines import lines

    output, ascii_only = sys.stdout.buffer, sys.stdout.isatty()
    for batch in batches:
        written = lines(batch, options, ascii_only=ascii_only)
        while chunk := b"".join(islice(written, LINES_AT_ONCE)):
            output.write(chunk)
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
    elif not summary.connections and (statistics.packets or not captures.problems):
        counted = {"packet": statistics.packets, "TCP connection": summary.other_tcp, "UDP datagram": summary.datagrams}
        counts = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counted.items())
        hint = " -> if you know better, say so: -d tcp.port==5555,zmtp" if summary.other_tcp else ""
        say(f"zmtpscope: no ZMTP found ({counts}){hint}")
    if given["stats"]:
        for line in statistics_lines(summary, statistics):
            click.echo(line, err=given["as_json"])


def _paint(given: dict[str, Any]) -> Callable[[str, str], str]:
    from zmtpscope.cli.colour import painter, wants_colour
    from zmtpscope.export.text import STYLES, plain

    return painter(STYLES) if wants_colour(given["color"]) else plain
