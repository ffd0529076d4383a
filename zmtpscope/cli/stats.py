"""`zmtpscope stats`: message counts, sizes and rates."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import Run, read_through
from zmtpscope.cli.filters import FILTER, body_for
from zmtpscope.cli.output import JSON
from zmtpscope.cli.parameters import READ_FILES, SHOW_SECRETS, checked, command, option, options
from zmtpscope.cli.terminal import notify, shows_unicode, terminal_width, write_json
from zmtpscope.option_texts import parse_duration

if TYPE_CHECKING:
    from zmtpscope.dissect import Batch
    from zmtpscope.export.statistics.statistics import Statistics

BY = ("topic", "peer", "endpoint", "connection", "type")
OVERVIEW = ("all", "endpoint", "topic", "type")
MIN_NS, LONGEST_NS, USUAL_NS = 1_000_000, 86_400_000_000_000, 1_000_000_000


def parse_interval(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    interval = checked(parse_duration, value)
    if not MIN_NS <= interval <= LONGEST_NS:
        raise click.BadParameter(f"{value} is not an interval; use 1ms to 24h")
    return interval


@command(short_help="Summarise message counts, sizes and rates.")
@options(*READ_FILES, FILTER, JSON, SHOW_SECRETS)
@option("--by", "kind", type=click.Choice(BY), help="Print only one table, with a row for each topic, peer and so on.")
@option("--rows", "most", type=click.IntRange(1), metavar="N", help="Print only the first N rows of a table.")
@option(
    "--interval",
    callback=parse_interval,
    metavar="TIME",
    help="Count messages in intervals of this length (1s, 100ms, 5min) to find the busiest one, by packet timestamps. "
    "A bar of the histogram covers at least one interval [default: 1s].",
)
def stats(**given: Any) -> int:
    """Summarise the messages in capture FILEs, in total and by endpoint, topic, peer, connection or record type:
    counts, sizes (percentiles), rates, distribution over time, and packets that the capture lost."""
    from zmtpscope.export.statistics.statistics import Statistics

    interval = given["interval"]
    statistics = Statistics((given["kind"],) if given["kind"] else OVERVIEW, interval or USUAL_NS, interval)
    return read_through(
        {**given, "body": body_for(given["filter"])},
        lambda run, batch: _feed(statistics, run, batch, given),
        lambda run: _write(statistics, run, given),
    )


def _feed(statistics: Statistics, run: Run, batch: Batch, given: dict[str, Any]) -> None:
    first = run.captures.statistics.first_time
    if first is None:
        return
    wanted = batch.records
    if given["filter"] is not None:
        from zmtpscope.filter.selection import records_that_fulfil, with_messages

        wanted = records_that_fulfil(given["filter"], batch, run.options, first)
        batch = with_messages(given["filter"], batch, run.options, first)
    statistics.feed(batch, wanted, first)


def _write(statistics: Statistics, run: Run, given: dict[str, Any]) -> None:
    capture, kind = run.captures.statistics, given["kind"]
    if capture.first_time is not None and capture.last_time is not None:
        if given["as_json"]:
            _write_json(statistics, capture.last_time, given["most"])
        elif not _report_no_rows(statistics, run, given, capture.last_time):
            _write_text(statistics, run, kind, given["most"])
    sys.stdout.flush()
    for name, group in statistics.groups.items():
        if group.folded:
            from zmtpscope.export.statistics.report import PLURALS

            many = f"more than {group.most} {PLURALS[name]}"
            notify(f"zmtpscope: {many}: {group.folded} with the fewest messages are counted together")


def _report_no_rows(statistics: Statistics, run: Run, given: dict[str, Any], latest: int) -> bool:
    """If the statistics have no rows, report why, and return True. A capture without ZMTP is reported elsewhere."""
    from zmtpscope.export.statistics.report import PLURALS
    from zmtpscope.export.statistics.rows import rows_of

    kind, summary = given["kind"], run.analyser.summary
    if given["filter"] is not None and statistics.is_empty and (summary.connections or summary.datagram_kinds):
        notify("zmtpscope: no record matches the filter -> leave out -Y to count all")
        return True
    if kind is not None and not rows_of(statistics, kind, latest):
        notify(f"zmtpscope: no {PLURALS[kind]} to count")
        return True
    return False


def _write_json(statistics: Statistics, latest: int, most: int | None) -> None:
    from zmtpscope.export.statistics.rows import lines_of

    write_json(lines_of(statistics, latest, most))


def _write_text(statistics: Statistics, run: Run, kind: str | None, most: int | None) -> None:
    from zmtpscope.export.statistics.report import SHOWN_ROWS, Look, overview, table

    look = Look(terminal_width(), shows_unicode())
    capture = run.captures.statistics
    if kind is None:
        lines = overview(statistics, capture, run.analyser.summary, run.captures.problems, look, most or SHOWN_ROWS)
    else:
        lines = table(statistics, kind, capture, look, most, "leave out --rows")
    for line in lines:
        click.echo(line)
