"""Print records as they are read: options, and text or JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from zmtpscope.cli.captures import report_nothing_found
from zmtpscope.cli.filters import FILTER, Filtered
from zmtpscope.cli.parameters import BODY, FRAMES, OUTPUT, SHOW_SECRETS, WITH_DERIVED
from zmtpscope.cli.templates import TEMPLATE_OPTIONS, parsed_template
from zmtpscope.cli.terminal import notify, terminal_width
from zmtpscope.export.clock import FORMS
from zmtpscope.records import DERIVED

if TYPE_CHECKING:
    from zmtpscope.cli.captures import Run
    from zmtpscope.dissect import Batch, Options

LINES_AT_ONCE = 100

JSON = OUTPUT.flag("--json", "as_json", help="Print JSON lines, one object per record.")
QUIET = OUTPUT.flag("-q", "quiet", help="Print only the summary, no records.")
TREE = OUTPUT.flag("-V", "tree", help="Print every field of every greeting, command and frame.")
HEX = OUTPUT.flag("-x", "hex_dump", help="Print a hex dump of every greeting, command and frame.")
TIME_FORM = OUTPUT.option(
    "-t",
    "time_form",
    type=click.Choice(list(FORMS)),
    default="r",
    help="Timestamp format: 'r' seconds since the first packet, 'd' seconds since the previous line, 'e' seconds since "
    "1970, 'a' local time, 'ad' local date and time, 'u' time in UTC, 'ud' date and time in UTC [default: r].",
    metavar="FORM",
)
NUMERIC = OUTPUT.flag("-n", "numeric", help="Accepted for compatibility with tshark; names are never resolved.")
WIDE = OUTPUT.flag("--wide", help="Print both addresses in every line, not only in the first and last of a connection.")
STATS = OUTPUT.flag(
    "--stats", help="At the end, print the numbers of packets and octets that were read or skipped, with reasons."
)
COLOR = OUTPUT.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colour [default: auto]."
)
VERBOSE = OUTPUT.flag("--verbose", help="Also print findings of severity chat: normal events, and habits of libzmq.")
ALL = OUTPUT.flag("--all", "unfolded", help="Print each heartbeat and each retry instead of counting them.")

RECORD_LINES = (
    FILTER,
    JSON,
    *TEMPLATE_OPTIONS,
    FRAMES,
    WITH_DERIVED,
    BODY,
    QUIET,
    TREE,
    HEX,
    TIME_FORM,
    NUMERIC,
    WIDE,
    STATS,
    COLOR,
    SHOW_SECRETS,
    VERBOSE,
    ALL,
)


def check_output(given: dict[str, Any]) -> None:
    """Parse the options for templates, and raise `click.UsageError` if output options contradict each other."""
    given["template"] = parsed_template(given)
    if given["template"] is not None and (given["quiet"] or given["as_json"] or given["tree"] or given["hex_dump"]):
        raise click.UsageError("-T fields and --format cannot be combined with -q, --json, -V and -x")
    if given["quiet"] and (given["as_json"] or given["tree"] or given["hex_dump"] or given["frames"]):
        raise click.UsageError("-q prints no records: leave out --json, -V, -x and --frames")
    if given["as_json"] and (given["tree"] or given["hex_dump"]):
        raise click.UsageError("-V and -x cannot be combined with --json")
    _report_only_frames_match(given)


def _report_only_frames_match(given: dict[str, Any]) -> None:
    """Warn that the filter can match only frame records, which were not requested by `--frames`."""
    asked = []
    if given["filter"] is not None:
        from zmtpscope.filter.filter import types_of

        asked.append(types_of(given["filter"].condition))
    if given["template"] is not None:
        asked.append(given["template"].records)
    if {"frame"} in asked and not given["frames"]:
        notify("zmtpscope: only frames have these fields: add --frames")


class Writer(NamedTuple):
    write: Callable[[Batch], None]
    finish: Callable[[], None]
    """Write records still waiting for earlier ones."""


def wants_records(given: dict[str, Any]) -> bool:
    """Whether the command needs records: for output, a filter, derived records, or a copy of their packets (`-w`)."""
    others = given["filter"] is not None or given["derived"] or given.get("packets_to") is not None
    return not given["quiet"] or others


def record_writer(
    given: dict[str, Any], run: Run, *, waits: bool = False, also: Callable[[Batch], None] | None = None
) -> Writer:
    """Return a writer that prints the records of a run that match `-Y`; with `-q`, only their number.

    With `waits`, a line may wait so that lines are in the order of time; otherwise each is printed with its batch.
    `also` is called with the printed records of each batch.
    """
    options, first_time = run.options, run.first_time
    if given["quiet"]:
        writer = Writer(lambda batch: None, lambda: None)
    elif given["as_json"]:
        writer = _json_writer(options)
    elif given["template"] is not None:
        writer = _template_writer(given, options, first_time)
    else:
        writer = _text_writer(given, options, first_time, waits=waits)
    if also is not None:
        writer = _with_another(writer, also)
    if given["filter"] is not None:
        writer = _filtered(writer, given, options, first_time)
    return _deriving(writer) if wants_derived(given) else writer


def wants_derived(given: dict[str, Any]) -> bool:
    """Whether the command needs derived records: an option requests them, or the filter can match only them."""
    if given["derived"] or given["filter"] is None:
        return bool(given["derived"])
    from zmtpscope.filter.filter import types_of

    types = types_of(given["filter"].condition)
    return bool(types) and types <= DERIVED


def _deriving(writer: Writer) -> Writer:
    from zmtpscope.diagnosis.deriving import Deriving

    deriving = Deriving()

    def write(batch: Batch) -> None:
        deriving.add_to(batch)
        writer.write(batch)

    def finish() -> None:
        writer.write(deriving.last())
        writer.finish()

    return Writer(write, finish)


def _with_another(writer: Writer, also: Callable[[Batch], None]) -> Writer:
    def write(batch: Batch) -> None:
        writer.write(batch)
        also(batch)

    return Writer(write, writer.finish)


def _filtered(writer: Writer, given: dict[str, Any], options: Options, first_time: Callable[[], int | None]) -> Writer:
    filtered = Filtered(given["filter"], options, first_time)

    def finish() -> None:
        writer.finish()
        if given["quiet"]:
            click.echo(f"matching         {filtered.summary()}")

    return Writer(lambda batch: writer.write(filtered(batch)), finish)


def _json_writer(options: Options) -> Writer:
    from zmtpscope.export.json_lines import text_of

    output, ascii_only = sys.stdout.buffer, sys.stdout.isatty()

    def write(batch: Batch) -> None:
        for text in text_of(batch, options, ascii_only=ascii_only):
            output.write(text)
        output.flush()

    return Writer(write, lambda: None)


def _template_writer(given: dict[str, Any], options: Options, first_time: Callable[[], int | None]) -> Writer:
    from zmtpscope.export.clock import Clock
    from zmtpscope.templates import TemplateLines

    lines = TemplateLines(given["template"], Clock(given["time_form"], first_time), options, first_time)
    sys.stdout.write(lines.template.header or "")

    def write(batch: Batch) -> None:
        for text in lines.lines(batch):
            sys.stdout.write(text)
        sys.stdout.flush()

    return Writer(write, lambda: None)


def _text_writer(
    given: dict[str, Any], options: Options, first_time: Callable[[], int | None], *, waits: bool
) -> Writer:
    from zmtpscope.export.clock import Clock
    from zmtpscope.export.text import Look, TextLines

    look = Look(
        Clock(given["time_form"], first_time),
        paint_of(given),
        terminal_width(),
        wide=given["wide"],
        waits=waits,
        chat=given["verbose"],
        folds=not (given["unfolded"] or given["tree"] or given["hex_dump"]),
        tree=given["tree"],
        hex=given["hex_dump"],
    )
    text = TextLines(look, options)

    def write(lines: Iterator[str]) -> None:
        while chunk := "".join(islice(lines, LINES_AT_ONCE)):
            sys.stdout.write(chunk)
        sys.stdout.flush()

    return Writer(lambda batch: write(text.lines(batch)), lambda: write(text.rest()))


def write_end(run: Run, given: dict[str, Any]) -> None:
    """Print the summary and statistics that were requested, and report missing data.

    With JSON lines, statistics go to standard error, because they are not JSON.
    """
    summary, captures, statistics = run.analyser.summary, run.captures, run.captures.statistics
    if given["quiet"]:
        from zmtpscope.export.summary import summary_lines

        paint, chat = paint_of(given), given["verbose"]
        for line in summary_lines(summary, statistics, captures.problems, paint, files=captures.files, chat=chat):
            click.echo(line)
    else:
        report_nothing_found(summary, captures)
    if given["stats"]:
        from zmtpscope.export.summary import statistics_lines

        for line in statistics_lines(summary, statistics):
            click.echo(line, err=given["as_json"])
    run.report_shortcomings(reports_nothing_found=False)
    sys.stdout.flush()


def paint_of(given: dict[str, Any]) -> Callable[[str, str], str]:
    from zmtpscope.cli.terminal import painter
    from zmtpscope.export.styles import STYLES

    return painter(STYLES, given["color"])
