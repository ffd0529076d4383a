"""Shared by commands that read captures to their end before printing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    exit_code,
    named_captures,
    say_if_nothing_was_found,
    say_what_cannot_be_used,
    say_what_stayed_closed,
)
from zmtpscope.cli.following import stopped_by_interrupt
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen
from zmtpscope.option_texts import Body

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Analyser, Batch, Options


class Run(NamedTuple):
    """A run in progress."""

    analyser: Analyser
    captures: Captures
    options: Options


def read_through(
    given: dict[str, Any], body: Body, feed: Callable[[Run, Batch], None], write: Callable[[Run], None]
) -> int:
    """Pass all batches of the captures to `feed`, then call `write`. Returns the exit code.

    The first Ctrl-C stops reading and writes the results so far; a second one exits at once. `body` limits the octets
    kept of bodies.
    """
    # imported here to keep help, usage errors and other commands fast
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser
    from zmtpscope.live.analysis import end, steps

    paths, keys = named_captures(given), given_keys(given)
    said = say_problems(keys)
    options = analyser_options({**given, "body": body}, keys=keys)
    try:
        captures = open_captures(paths, packet_limit=given["packets"])
        run = Run(Analyser(options), captures, options)
        stopped: list[bool] = []
        with stopped_by_interrupt(lambda: stopped.append(True)), Progress(captures.statistics, paths, is_seen()):
            for step in steps(run.analyser, captures, None):
                for batch in step:
                    feed(run, batch)
                if stopped:  # report everything read, including connections that continue
                    break
            for batch in end(run.analyser, captures):
                feed(run, batch)
        write(run)
        if stopped:
            raise KeyboardInterrupt
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    say_if_nothing_was_found(run.analyser.summary, captures)
    say_what_cannot_be_used(options)
    say_what_stayed_closed(run.analyser.summary, keys)
    say_problems(keys, said)
    return exit_code(captures)
