"""`zmtpscope top`: topics, connections or peers by rate, octets, subscribers and last value."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.capture_options import (
    CAPTURE_OPTIONS,
    check_no_capture_options,
    list_interfaces,
    take_capture_filter,
)
from zmtpscope.cli.captures import Run, reading
from zmtpscope.cli.filters import FILTER, body_for, messages_filtered
from zmtpscope.cli.followed_captures import following, news_lines, report_end, seconds_behind
from zmtpscope.cli.parameters import DECODING_OPTIONS, FILES, MORE_FILES, SHOW_SECRETS, command, flag, option, options
from zmtpscope.cli.progress import LAG_THAT_MATTERS
from zmtpscope.cli.terminal import notify
from zmtpscope.cli.top_output import JsonLines, Numbers, Output, Tables, has_screen
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from zmtpscope.cli.diagnoses import Diagnoses
    from zmtpscope.dissect import Analyser, Batch
    from zmtpscope.export.top.rates import Interval, Rates
    from zmtpscope.export.top.view import View
    from zmtpscope.live.followed_captures import FollowedCapture

LONGEST_INTERVAL = 86_400.0
MIN_INTERVAL = 0.001
ON_THEIR_WAY = 0.3
"""Usual maximum delay of a packet from the network to this program, in seconds."""

SORTS = ("rate", "octets", "messages", "total", "busiest", "subscribers", "connections", "name", "last")


def parse_interval(context: click.Context, parameter: click.Parameter, value: float) -> int | None:
    """Parse `--interval` in seconds; return nanoseconds, or None for 0 (one interval for the whole capture)."""
    if value and not MIN_INTERVAL <= value <= LONGEST_INTERVAL:
        raise click.BadParameter(
            f"{value:g} is not an interval; use {MIN_INTERVAL:g} to {LONGEST_INTERVAL:g} seconds, or 0 for the "
            "whole capture"
        )
    return round(value * SECOND) or None


@command(short_help="Show message rates by topic, connection or peer.")
@options(FILES, MORE_FILES, FILTER, *CAPTURE_OPTIONS, *DECODING_OPTIONS, SHOW_SECRETS)
@option(
    "--by",
    "kind",
    type=click.Choice(["topic", "connection", "peer"]),
    default="topic",
    help="Print one row per topic, connection or peer [default: topic].",
)
@option(
    "--sort",
    type=click.Choice(SORTS),
    default="rate",
    metavar="COLUMN",
    help=f"Sort by {', '.join(SORTS)} [default: rate].",
)
@option("--contains", default="", metavar="TEXT", help="Show only rows whose name contains TEXT.")
@option("--rows", "most", type=click.IntRange(1), metavar="N", help="Show only the first N rows.")
@option(
    "--interval",
    type=float,
    callback=parse_interval,
    default=1.0,
    metavar="SECONDS",
    help="Count messages in intervals of SECONDS, by packet timestamps; 0: in the whole capture [default: 1].",
)
@flag("--json", "as_json", help="Print JSON lines, one object per interval and row.")
@flag("--follow", help="Follow a FILE or pipe that another tool is still writing.")
def top(**given: Any) -> int:
    """Show message counts, sizes and rates by topic, connection or peer, with the subscribers and the last message.
    Reads capture FILEs, follows one that another tool is still writing (--follow), or captures from network interfaces
    (-i). On a terminal the table can be sorted and filtered; press h for the keys.

    Ctrl-C stops a capture and counts the packets received until then. A second Ctrl-C exits at once."""
    if given["list_interfaces"]:
        return list_interfaces(netns=given["netns"], as_json=given["as_json"])
    take_capture_filter(given)
    paths = [*given["files"], *given["more_files"]]
    is_live = bool(given["follow"] or given["interfaces"])
    if not paths and not given["interfaces"]:
        raise click.UsageError("name a capture to read, - for standard input, or an interface: -i lo")
    if given["follow"] and len(paths) > 1:
        raise click.UsageError("--follow is for one file, or - for standard input")
    if is_live and given["interval"] is None:
        raise click.UsageError("--interval 0 needs a finished capture: leave out -i and --follow")
    given["body"] = body_for(given["filter"])
    if not is_live:
        check_no_capture_options(given, paths[0], "exists")
        view = _view_of(given)
        with reading(given) as run:
            _count(run, ", ".join(map(_name, paths)), view, given)
        return run.exit_code()
    with following(given, paths) as (followed, counts_wanted):
        view = _view_of(given)  # loads numpy: capturing has already started
        with reading(given, followed.captures) as run:
            _count(run, _name(followed.title), view, given, followed, counts_wanted)
        code = run.exit_code()
        ended = report_end(followed)
        return code or ended


def _view_of(given: dict[str, Any]) -> View:
    """Return the rows, columns and order that the options request. Raises `click.UsageError`."""
    from zmtpscope.export.top.view import PLURALS, View

    view = View(kind=given["kind"], sort=given["sort"], filter=given["contains"])
    if view.column.name != view.sort:
        raise click.UsageError(f"{PLURALS[view.kind]} have no column {view.sort!r} to sort by")
    return view


def _name(path: str) -> str:
    """Shorten a capture's path for the title of the screen."""
    return "standard input" if path == "-" else path.rpartition("/")[2]


def _count(
    run: Run,
    title: str,
    view: View,
    given: dict[str, Any],
    followed: FollowedCapture | None = None,
    counts_wanted: Callable[[], bool] = lambda: False,
) -> None:
    """Count the messages of a run and show the counts, live if `followed` is given."""
    from zmtpscope.cli.diagnoses import Diagnoses
    from zmtpscope.export.styles import plain
    from zmtpscope.export.top.rates import Rates

    analyser, rates = run.analyser, Rates(given["interval"])
    counted = messages_filtered(given["filter"], run.options, run.first_time)
    numbers = Numbers(rates, run.captures.statistics, is_live=followed is not None)
    diagnoses = Diagnoses(plain) if followed is not None else None
    shown = () if diagnoses is None else diagnoses.last
    output: Output
    if given["as_json"]:
        output = JsonLines(numbers, view, given["most"])
    elif has_screen():
        from zmtpscope.cli.top_screen import TopScreen

        output = TopScreen(numbers, view, given["most"], lambda: f"{title}{_lost(analyser, followed)}", shown)
    else:
        output = Tables(numbers, view, given["most"])
    with run.progress(shown=followed is None and not output.is_screen), output:
        is_wanted = True
        for interval in _intervals(run, rates, counted, followed, diagnoses):
            if followed is not None and not output.is_screen:
                for line in news_lines(followed, analyser, counts_wanted):
                    notify(line)
            is_wanted = output.update(interval)
            if not is_wanted:
                break
        for batch in analyser.finish_captures(run.captures):
            for interval in rates.feed(counted(batch)):
                output.update(interval)
        for interval in rates.finish():
            output.update(interval)
        output.finish(is_wanted=is_wanted and followed is None)
    sys.stdout.flush()
    _report_limits(rates)


def _lost(analyser: Analyser, followed: FollowedCapture | None) -> str:
    """Describe packets that were dropped, and packets that wait for analysis, for the title of the screen."""
    if followed is None:
        return ""
    words = f"  {followed.dropped} packets dropped" if followed.dropped else ""
    lag = seconds_behind(followed.captures, analyser.latest)
    return words + (f"  {lag:.1f} s behind" if lag >= LAG_THAT_MATTERS else "")


def _intervals(
    run: Run,
    rates: Rates,
    counted: Callable[[Batch], Batch],
    followed: FollowedCapture | None,
    diagnoses: Diagnoses | None,
) -> Iterator[Interval | None]:
    """Yield each interval when it ends, and None after every block of packets.

    Intervals of a live capture also end by the clock. `counted` selects the messages to count in a batch; `diagnoses`
    gets whole batches.
    """
    clock, analyser = CaptureClock(), run.analyser
    for step in analyser.steps(run.captures):
        for batch in step:
            yield from rates.feed(counted(batch))
            if diagnoses is not None:
                diagnoses.feed(batch)
        if diagnoses is not None and diagnoses.is_due:
            diagnoses.news(analyser.ongoing())
        if followed is not None and analyser.latest:
            yield from rates.tick(clock.now(analyser.latest))
        yield None


class CaptureClock:
    """The current time on the capturing host, whose clock may differ from that of this machine.

    It is the time of the last packet plus the time elapsed since, minus `ON_THEIR_WAY` for packets that have not
    arrived.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latest = -1
        self._read = 0.0

    def now(self, latest: int) -> int:
        """Return the time (ns since 1970) up to which no more packets can arrive. `latest` is the time of the last
        packet."""
        if latest > self._latest:
            self._latest, self._read = latest, self._clock()
        return latest + round((self._clock() - self._read - ON_THEIR_WAY) * SECOND)


def _report_limits(rates: Rates) -> None:
    """Report on standard error that rows were merged, or why topics are missing."""
    from zmtpscope.export.top.counters import SENT
    from zmtpscope.export.top.view import PLURALS

    for kind, counters in rates.counters.items():
        if counters.folded:
            notify(
                f"zmtpscope: more than {counters.most} {PLURALS[kind]}: {counters.folded} with the fewest "
                "messages are counted together"
            )
    if rates.subscriptions.left_out:
        notify(f"zmtpscope: {rates.subscriptions.left_out} subscriptions were not counted: too many at the same time")
    unknown, ports = 0, Counter[int]()
    for topic, messages in zip(rates.topics.keys, rates.topics.total[SENT].tolist(), strict=False):
        if topic is not None and topic.name is None and topic.sender.socket_type is None:
            unknown += messages
            ports.update({topic.sender.port: messages} if topic.sender.port is not None else {})
    if unknown:
        port = max(ports, key=ports.__getitem__, default=5555)
        notify(
            f"zmtpscope: {unknown} messages are on connections whose start was not captured: their topics are unknown "
            f"-> if port {port} publishes, add -d tcp.port=={port},zmtp///PUB; otherwise let its peers reconnect"
        )
