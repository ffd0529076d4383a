"""`zmtpscope top`: topics, connections or peers by rate, octets, subscribers and last value."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    exit_code,
    say_if_nothing_was_found,
    say_what_cannot_be_used,
    say_what_stayed_closed,
)
from zmtpscope.cli.commands import command, option
from zmtpscope.cli.filters import FILTER, body_for, messages_filtered
from zmtpscope.cli.following import (
    Followed,
    capture_options,
    check_no_capture_options,
    counts_on_request,
    list_interfaces,
    news_lines,
    open_followed,
    seconds_behind,
    stopped_by_interrupt,
    take_capture_filter,
)
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen, say
from zmtpscope.cli.parameters import (
    DECODE_AS,
    FILES,
    KEYS,
    MORE_FILES,
    PAYLOAD,
    PAYLOAD_FILES,
    SHOW_SECRETS,
)
from zmtpscope.cli.status_line import LAG_THAT_MATTERS
from zmtpscope.cli.top_output import JsonLines, Numbers, Output, Screen, Tables, has_screen
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.cli.diagnoses import Diagnoses
    from zmtpscope.dissect import Analyser, Batch
    from zmtpscope.export.top.rates import Interval, Rates
    from zmtpscope.export.top.view import View

LONGEST_INTERVAL = 86_400.0
MIN_INTERVAL = 0.001
ON_THEIR_WAY = 0.3
"""Usual maximum delay of a packet from the network to this program, in seconds."""

SORTS = ("rate", "octets", "messages", "total", "busiest", "subscribers", "connections", "name", "last")


def parse_interval(context: click.Context, parameter: click.Parameter, value: float) -> int | None:
    """Parse seconds as nanoseconds; 0: None."""
    if value and not MIN_INTERVAL <= value <= LONGEST_INTERVAL:
        raise click.BadParameter(
            f"{value:g} is not an interval; use {MIN_INTERVAL:g} to {LONGEST_INTERVAL:g} seconds, or 0 for the "
            "whole capture"
        )
    return round(value * SECOND) or None


@command(short_help="Show message rates by topic, connection or peer.")
@FILES
@MORE_FILES
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
@FILTER
@option("--rows", "most", type=click.IntRange(1), metavar="N", help="Show only the first N rows.")
@option(
    "--interval",
    type=float,
    callback=parse_interval,
    default=1.0,
    metavar="SECONDS",
    help="Length of the counting interval, in packet time; 0 counts the whole capture at once [default: 1].",
)
@option("--json", "as_json", is_flag=True, help="Print JSON lines, one object per interval and row.")
@option("--follow", is_flag=True, help="Follow a FILE or pipe that another tool is still writing.")
@capture_options
@DECODE_AS
@PAYLOAD
@PAYLOAD_FILES
@KEYS
@SHOW_SECRETS
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
    if not is_live:
        check_no_capture_options(given, paths[0], "exists")
        view = _view(given)
        captures = _opened(paths, given["packets"])
        return _run(captures, ", ".join(map(_name, paths)), view, given)
    followed = open_followed(given, paths)
    try:
        with stopped_by_interrupt(followed.stop), counts_on_request() as counts_wanted:
            followed.say_begin()
            view = _view(given)  # loads numpy: capturing has already started
            code = _run(followed.captures, _name(followed.title), view, given, followed, counts_wanted)
            ended = followed.say_end()
            return code or ended
    finally:
        followed.close()


def _opened(paths: list[str], packets: int | None) -> Captures:
    # imported here to keep help, usage errors and other commands fast
    from zmtpscope.capture import CaptureError, open_captures

    try:
        return open_captures(paths, packet_limit=packets)
    except CaptureError as error:
        raise NoCapture(str(error)) from error


def _name(path: str) -> str:
    """Return a file's name for the title of the screen."""
    return "standard input" if path == "-" else path.rpartition("/")[2]


def _run(
    captures: Captures,
    title: str,
    view: View,
    given: dict[str, Any],
    followed: Followed | None = None,
    counts_wanted: Callable[[], bool] = lambda: False,
) -> int:
    """Count messages of captures, live if `followed` is given. Returns the exit code."""
    from zmtpscope.capture import CaptureError
    from zmtpscope.cli.diagnoses import Diagnoses
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser
    from zmtpscope.export.styles import plain
    from zmtpscope.export.top.rates import Rates
    from zmtpscope.live.analysis import end

    paths = [*given["files"], *given["more_files"]]
    keys = given_keys(given)
    said = say_problems(keys)
    options = analyser_options({**given, "body": body_for(given["filter"])}, keys=keys)
    analyser, rates = Analyser(options), Rates(given["interval"])
    counted = messages_filtered(given["filter"], options, lambda: captures.statistics.first_time)
    numbers = Numbers(rates, captures.statistics, is_live=followed is not None)
    diagnoses = Diagnoses(plain) if followed is not None else None
    shown = () if diagnoses is None else diagnoses.last
    output = _output(given, view, numbers, lambda: f"{title}{_lost(analyser, followed)}", shown)
    bar = Progress(captures.statistics, paths, followed is None and is_seen() and not isinstance(output, Screen))
    try:
        with bar, output:
            intervals = _intervals(analyser, captures, rates, counted, followed, diagnoses)
            is_wanted = True
            for interval in intervals:
                if followed is not None and not isinstance(output, Screen):
                    for line in news_lines(followed, analyser, counts_wanted):
                        say(line)
                is_wanted = output.update(interval)
                if not is_wanted:
                    break
            for batch in end(analyser, captures):
                for interval in rates.feed(counted(batch)):
                    output.update(interval)
            for interval in rates.finish():
                output.update(interval)
            output.finish(is_wanted=is_wanted and followed is None)
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

    view = View(kind=given["kind"], sort=given["sort"], filter=given["contains"])
    if view.column.name != view.sort:
        raise click.UsageError(f"{PLURALS[view.kind]} have no column {view.sort!r} to sort by")
    return view


def _lost(analyser: Analyser, followed: Followed | None) -> str:
    """Return the part of the title about dropped and waiting packets."""
    if followed is None:
        return ""
    words = f"  {followed.dropped} packets dropped" if followed.dropped else ""
    lag = seconds_behind(followed, analyser.latest)
    return words + (f"  {lag:.1f} s behind" if lag >= LAG_THAT_MATTERS else "")


def _output(
    given: dict[str, Any], view: View, numbers: Numbers, title: Callable[[], str], diagnoses: Sequence[str]
) -> Output:
    if given["as_json"]:
        return JsonLines(numbers.rates, view, given["most"])
    if has_screen():
        return Screen(numbers, view, given["most"], title, diagnoses)
    return Tables(numbers, view, given["most"])


def _intervals(
    analyser: Analyser,
    captures: Captures,
    rates: Rates,
    counted: Callable[[Batch], Batch],
    followed: Followed | None,
    diagnoses: Diagnoses | None,
) -> Iterator[Interval | None]:
    """Yield the intervals that end, and None after every block.

    Intervals of a followed capture also end by the clock. `counted` selects the counted part of a batch; `diagnoses`
    gets all of it.
    """
    from zmtpscope.live.analysis import steps

    clock = CaptureClock()
    for step in steps(analyser, captures, followed):
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
    """The time of the capturing host, whose clock may differ: the time of the last packet plus the time elapsed since,
    minus `ON_THEIR_WAY` for packets in transit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latest = -1
        self._read = 0.0

    def now(self, latest: int) -> int:
        """Return nanoseconds since 1970 that have certainly passed. `latest` is the time of the last packet."""
        if latest > self._latest:
            self._latest, self._read = latest, self._clock()
        return latest + round((self._clock() - self._read - ON_THEIR_WAY) * SECOND)


def _say_limits(rates: Rates) -> None:
    """Report rows that were merged, and why topics are missing."""
    from zmtpscope.export.top.counters import SENT
    from zmtpscope.export.top.view import PLURALS

    for kind, counters in rates.counters.items():
        if counters.folded:
            say(
                f"zmtpscope: more than {counters.most} {PLURALS[kind]}: {counters.folded} with the fewest "
                "messages are counted together"
            )
    if rates.subscriptions.left_out:
        say(f"zmtpscope: {rates.subscriptions.left_out} subscriptions were not counted: too many at the same time")
    unknown, ports = 0, Counter[int]()
    for topic, messages in zip(rates.topics.keys, rates.topics.total[SENT].tolist(), strict=False):
        if topic is not None and topic.name is None and topic.sender.socket_type is None:
            unknown += messages
            ports.update({topic.sender.port: messages} if topic.sender.port is not None else {})
    if unknown:
        port = max(ports, key=ports.__getitem__, default=5555)
        say(
            f"zmtpscope: {unknown} messages are on connections whose start was not captured: their topics are unknown "
            f"-> if port {port} publishes, add -d tcp.port=={port},zmtp///PUB; otherwise let its peers reconnect"
        )
