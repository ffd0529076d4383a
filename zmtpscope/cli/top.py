"""`zmtpscope top`: topics, connections or peers by rate, octets, subscribers and last value."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    exit_code,
    named_captures,
    say_if_nothing_was_found,
    say_what_cannot_be_used,
    say_what_stayed_closed,
)
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen, say
from zmtpscope.cli.parameters import (
    FILES,
    FORCED,
    KEYS,
    MORE_FILES,
    PACKETS,
    PAYLOAD,
    PAYLOAD_FILES,
    SHOW_SECRETS,
    Body,
)
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Batch
    from zmtpscope.export.top.rates import Interval, Rates
    from zmtpscope.export.top.rows import Row
    from zmtpscope.export.top.view import View

LONGEST_INTERVAL = 86_400.0
LEAST_INTERVAL = 0.001
WIDEST = 10_000
"""Columns of a table that goes to a file or a pipe."""

REFRESH = 0.25
"""Seconds between two looks at the size of the terminal."""

SORTS = ("rate", "octets", "messages", "total", "busiest", "subscribers", "connections", "name", "last")


def parse_interval(context: click.Context, parameter: click.Parameter, value: float) -> int | None:
    """Seconds, as nanoseconds; 0: None."""
    if value and not LEAST_INTERVAL <= value <= LONGEST_INTERVAL:
        raise click.BadParameter(
            f"{value:g} is no interval; give {LEAST_INTERVAL:g} to {LONGEST_INTERVAL:g} seconds, or 0 for all of it"
        )
    return round(value * SECOND) or None


@click.command(short_help="Say which topics, connections or peers send how much.")
@FILES
@MORE_FILES
@click.option(
    "--by",
    "kind",
    type=click.Choice(["topic", "connection", "peer"]),
    default="topic",
    help="What the rows are [topic].",
)
@click.option("--sort", type=click.Choice(SORTS), default="rate", metavar="COLUMN", help=f"{', '.join(SORTS)} [rate].")
@click.option("--filter", "filter_", default="", metavar="TEXT", help="Only rows whose name contains TEXT.")
@click.option("--rows", "most", type=click.IntRange(1), metavar="N", help="Only the first N rows.")
@click.option(
    "--interval",
    type=float,
    callback=parse_interval,
    default=1.0,
    metavar="SECONDS",
    help="Count in intervals of this length, by the times of the packets; 0: the whole capture is one [1].",
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines, one object for each interval and row.")
@PACKETS
@FORCED
@PAYLOAD
@PAYLOAD_FILES
@KEYS
@SHOW_SECRETS
def top(**given: Any) -> int:
    """Count the messages of capture FILEs (as for `zmtpscope read`) by topic, connection or peer: how many, how large,
    how often, who subscribes, and what came last. On a terminal the table can be sorted and filtered; press h there.
    """
    paths = named_captures(given)
    # imported here, so that help, usage errors and the other commands stay quick
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.dissect import Analyser
    from zmtpscope.export.top.rates import Rates

    view = _view(given)
    keys = given_keys(given)
    said = say_problems(keys)
    options = analyser_options({**given, "body": Body("none", None)}, keys=keys)
    rates = Rates(given["interval"])
    try:
        captures = open_captures(paths, packet_limit=given["packets"])
        analyser = Analyser(options)
        batches = analyser.run(captures)
        if given["as_json"]:
            _write_json(batches, rates, view, given["most"])
        elif not _show(batches, rates, view, captures, paths, given["most"]):
            return 0
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    sys.stdout.flush()
    say_if_nothing_was_found(analyser.summary, captures)
    _say_limits(rates)
    say_what_cannot_be_used(options)
    say_what_stayed_closed(analyser.summary, keys)
    say_problems(keys, said)
    return exit_code(captures)


def _view(given: dict[str, Any]) -> View:
    from zmtpscope.export.top.view import PLURALS, View

    view = View(kind=given["kind"], sort=given["sort"], filter=given["filter_"])
    if view.column.name != view.sort:
        raise click.UsageError(f"{PLURALS[view.kind]} have no column {view.sort!r} to sort by")
    return view


def _write_json(batches: Iterator[Batch], rates: Rates, view: View, most: int | None) -> None:
    from zmtpscope.export.json_lines import escaped
    from zmtpscope.export.top.rows import interval_rows, lines

    output, ascii_only = sys.stdout.buffer, sys.stdout.isatty()
    for interval in intervals(rates, batches):
        rows = interval_rows(rates, view.kind, (interval.end_ns - interval.start_ns) / SECOND)
        shown = view.select([row for row in rows if row.messages])[:most]
        for line in lines(shown, view.kind, interval):
            output.write(escaped(line) if ascii_only else line)
        output.flush()


def intervals(rates: Rates, batches: Iterator[Batch]) -> Iterator[Interval]:
    """Count the messages of all batches: each interval as soon as it has ended."""
    for batch in batches:
        yield from rates.feed(batch)
    yield from rates.finish()


def _show(
    batches: Iterator[Batch], rates: Rates, view: View, captures: Captures, paths: list[str], most: int | None
) -> bool:
    """Show what there is in all; whether everything was read."""
    from zmtpscope.cli.progress import Progress
    from zmtpscope.export.safe_text import safe_text
    from zmtpscope.export.top.rows import total_rows

    def seconds() -> float:
        first, last = captures.statistics.first_time, captures.statistics.last_time
        return 0.0 if first is None or last is None else (last - first) / SECOND

    def rows(kind: str) -> list[Row]:
        interval = seconds() if rates.interval_ns is None else rates.interval_ns / SECOND
        return total_rows(rates, kind, seconds(), interval)

    whole = True
    if _has_screen():
        from zmtpscope.cli.top_screen import TopScreen

        title = ", ".join(path.rpartition("/")[2] for path in paths)

        with TopScreen(view, rows, lambda: f"{safe_text(title)}  {seconds():.3f} s captured") as screen:
            whole = all(screen.wait(0) for _ in _counted(rates, batches))
            screen.draw()
            while whole and screen.has_keys and screen.wait(REFRESH):
                pass
    else:
        with Progress(captures.statistics, paths, is_seen()):
            for _ in _counted(rates, batches):
                pass
    _print(view, view.select(rows(view.kind))[:most])
    return whole


def _counted(rates: Rates, batches: Iterator[Batch]) -> Iterator[None]:
    """Count the messages of all batches, one after the other."""
    for batch in batches:
        for _ in rates.feed(batch):
            pass
        yield
    for _ in rates.finish():
        pass
    yield


def _has_screen() -> bool:
    """Whether the table can be drawn again and again, and keys can be read; Windows has another way for those."""
    return os.name == "posix" and sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "", None)


def _print(view: View, rows: list[Row]) -> None:
    """The table on standard output: as wide as the terminal, else as it needs to be."""
    from rich.console import Console

    from zmtpscope.export.top.table import table_of

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    console = Console(highlight=False, markup=False, emoji=False, width=width or WIDEST, no_color=True)
    with console.capture() as captured:
        console.print(table_of(view, rows, width))
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _say_limits(rates: Rates) -> None:
    """What could not be told apart, and why topics are missing."""
    from zmtpscope.export.top.counters import SENT
    from zmtpscope.export.top.view import PLURALS

    for kind, counters in rates.counters.items():
        if counters.folded:
            say(
                f"zmtpscope: there are more than {counters.most} {PLURALS[kind]}: {counters.folded} with the fewest "
                "messages are counted together"
            )
    if rates.subscriptions.left_out:
        say(f"zmtpscope: {rates.subscriptions.left_out} subscriptions were not counted: there are too many at a time")
    unknown = sum(
        messages
        for topic, messages in zip(rates.topics.keys, rates.topics.total[SENT].tolist(), strict=False)
        if topic is not None and topic.name is None and topic.sender.socket_type is None
    )
    if unknown:
        say(
            f"zmtpscope: {unknown} messages are of connections whose beginning was not captured: their topics are not "
            "known -> capture from the start of the subscribers, or let them connect anew"
        )
