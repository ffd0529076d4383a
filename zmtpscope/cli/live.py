"""`zmtpscope live`: events as they happen."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.capture_options import CAPTURE_OPTIONS, FOLLOWED_FILE, list_interfaces, take_capture_filter
from zmtpscope.cli.captures import reading
from zmtpscope.cli.followed_captures import following, news_lines, report_end, state_of
from zmtpscope.cli.output import RECORD_LINES, check_output, paint_of, record_writer, write_end
from zmtpscope.cli.parameters import DECODING_OPTIONS, command, options
from zmtpscope.cli.progress import StatusLine
from zmtpscope.cli.terminal import is_seen, notify

if TYPE_CHECKING:
    from zmtpscope.live.followed_captures import FollowedCapture


@command(short_help="Print events as they happen, from an interface or a growing file.")
@options(FOLLOWED_FILE, *CAPTURE_OPTIONS, *DECODING_OPTIONS, *RECORD_LINES)
def live(**given: Any) -> int:
    """Capture on network interfaces (-i) the packets that match FILTER, or follow a capture FILE that another tool
    writes (- is standard input), and print every event of every ZMTP connection, one per line, as `zmtpscope read`
    does for a file.

    Ctrl-C stops the capture, and the packets received until then are printed. A second Ctrl-C exits at once. SIGUSR1
    prints the counts so far to standard error."""
    if given["list_interfaces"]:
        return list_interfaces(netns=given["netns"], as_json=given["as_json"])
    take_capture_filter(given)
    check_output(given)
    with following(given, given["files"]) as (followed, counts_wanted):
        return _live(followed, given, counts_wanted)


def _live(followed: FollowedCapture, given: dict[str, Any], counts_wanted: Callable[[], bool]) -> int:
    from zmtpscope.cli.diagnoses import Diagnoses  # loads numpy: capturing has already started

    # with -q the diagnoses need records
    wanted = {"records": True, "frames": given["frames"], "details": given["tree"] or given["hex_dump"]}
    with reading(given, followed.captures, **wanted) as run:
        writer, analyser = record_writer(given, run), run.analyser
        shown = is_seen() and (given["quiet"] or not sys.stdout.isatty())
        diagnoses = Diagnoses(paint_of(given)) if given["quiet"] else None
        with StatusLine(shown) as status:
            for step in analyser.steps(run.captures):
                for batch in step:
                    writer.write(batch)
                    if diagnoses is not None:
                        diagnoses.feed(batch)
                if diagnoses is not None and diagnoses.is_due:
                    lines = diagnoses.news(analyser.ongoing())
                    if lines:
                        status.clear()
                        click.echo("\n".join(lines))
                for line in news_lines(followed, analyser, counts_wanted):
                    status.clear()
                    notify(line)
                if status.is_due:
                    status.show(state_of(followed, analyser))
        for batch in analyser.finish_captures(run.captures):
            writer.write(batch)
            if diagnoses is not None:
                diagnoses.feed(batch)
        writer.finish()
        if diagnoses is not None:
            for line in diagnoses.news():
                click.echo(line)
        write_end(run, given)
    ended = report_end(followed)
    return run.exit_code() or ended
