"""Open a capture that still grows, according to the options of a command, and report its state while it is read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.capture_options import STANDARD_OUTPUT, check_no_capture_options, refused
from zmtpscope.cli.captures import NoCapture
from zmtpscope.cli.progress import State, status_text
from zmtpscope.cli.signals import counts_on_request, stopped_by_interrupt
from zmtpscope.cli.terminal import notify
from zmtpscope.records import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Analyser
    from zmtpscope.live.capture.packet_copy import PacketCopy
    from zmtpscope.live.capture.settings import CaptureSettings, Program
    from zmtpscope.live.followed_captures import FollowedCapture

MEBIBYTE = 1 << 20


def open_followed(given: dict[str, Any], paths: Sequence[str]) -> FollowedCapture:
    """Capture on interfaces if the options request it, otherwise open the one file of `paths`. Raises
    `click.ClickException`."""
    if given["interfaces"]:
        if paths:
            raise click.UsageError(
                f"-i captures from an interface, and {paths[0]} is a file to follow: use one of them"
            )
        copy = _packet_copy(given)
        return _own_capture(_settings(given if copy is None else {**given, "write_to": None}), copy)
    if not paths:
        raise click.UsageError(
            "name a source: -i lo captures from an interface (-D lists them), FILE follows a file that another tool "
            "writes, - reads standard input"
        )
    if len(paths) > 1:
        raise click.UsageError(f"{' '.join(paths)!r}: follow one file, or capture with -i IFACE and this filter")
    path = paths[0]
    check_no_capture_options(given, path, "is captured by another tool")
    if os.path.isdir(path):
        raise NoCapture(f"{path}: is a directory; name the file that is being written")
    from zmtpscope.live.followed_captures import ForeignCapture

    return ForeignCapture(path, given["packets"])


def _own_capture(settings: CaptureSettings, copy: PacketCopy | None) -> FollowedCapture:
    """Start capturing on interfaces, and drop privileges. `copy` receives the packets. Raises
    `click.ClickException`."""
    from zmtpscope.live.capture.loading import load_for
    from zmtpscope.live.capture.privileges import RightsKept, UnknownUser, become, invoking_user
    from zmtpscope.live.capture.session import CaptureRefused
    from zmtpscope.live.followed_captures import OwnCapture

    try:
        capture = OwnCapture(settings, copy)
    except CaptureRefused as error:
        raise refused(str(error), *(f"  {way}" for way in (error.hint or "").splitlines())) from None
    try:
        user = invoking_user(settings.user, os.environ)
        load_for(user)
        become(user)
    except (UnknownUser, RightsKept) as error:
        capture.close()
        raise NoCapture(str(error)) from None
    return capture


@contextmanager
def following(given: dict[str, Any], paths: Sequence[str]) -> Iterator[tuple[FollowedCapture, Callable[[], bool]]]:
    """Return in a context a growing capture, and a function that returns whether SIGUSR1 has requested counts.

    Ctrl-C and other signals stop the capture.
    """
    followed = open_followed(given, paths)
    try:
        with stopped_by_interrupt(followed.stop), counts_on_request() as counts_wanted:
            for line in followed.opening_lines():
                notify(f"zmtpscope: {line}")
            yield followed, counts_wanted
    finally:
        followed.close()


def report_end(followed: FollowedCapture) -> int:
    """Print lines about the capture after its last packet. Returns the exit code, 0 if the capture did not fail."""
    for line in followed.closing_lines():
        notify(f"zmtpscope: {line}")
    return 0 if followed.failure is None else 1


def state_of(followed: FollowedCapture, analyser: Analyser) -> State:
    """Return the counts for the status line."""
    messages, connections = analyser.messages_so_far()
    packets, lag = followed.captures.statistics.packets, seconds_behind(followed.captures, analyser.latest)
    return State(packets, messages, connections, followed.dropped, lag)


def news_lines(followed: FollowedCapture, analyser: Analyser, counts_wanted: Callable[[], bool]) -> list[str]:
    """Return the new lines for standard error: changes of interfaces, and counts if the user requested them."""
    news = followed.news()
    if counts_wanted():
        news.append(status_text(state_of(followed, analyser)))
    return [f"zmtpscope: {line}" for line in news]


def seconds_behind(captures: Captures, latest: int) -> float:
    """Return how far reading is behind the capture, in seconds: the age of the newest packet read (`latest`, ns since
    1970).

    0 if no more packets wait.
    """
    is_behind = captures.follow is not None and captures.follow.unread and latest
    return max(0.0, time.time() - latest / SECOND) if is_behind else 0.0


def _packet_copy(given: dict[str, Any]) -> PacketCopy | None:
    """Return the writer that copies packets to the FIFO, device or standard output of -w; None if -w names a file or is
    missing.

    If packets go to standard output, all other output goes to standard error from now on. Raises `click.UsageError`.
    """
    from zmtpscope.live.capture.packet_copy import PacketCopy, is_pipe

    path: str | None = given["write_to"]
    if path is None or not (path in STANDARD_OUTPUT or is_pipe(path)):
        return None
    if given["ring"]:
        raise click.UsageError(f"-b writes a ring of files, but -w {path} is a single stream: leave out one of them")
    if path not in STANDARD_OUTPUT:
        return PacketCopy(path)
    sys.stdout.flush()
    output = sys.stdout.fileno()
    if os.isatty(output):
        raise click.UsageError("-w - writes binary packets, but standard output is a terminal: add | wireshark -k -i -")
    copy = PacketCopy(os.dup(output))
    os.dup2(os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno(), output)
    return copy


def _settings(given: dict[str, Any]) -> CaptureSettings:
    from zmtpscope.live.capture.settings import BUFFER_OCTETS, SNAP_LENGTH, CaptureSettings, Limits, RingLimits

    if given["ring"] and given["write_to"] is None:
        raise click.UsageError("-b writes a ring of files: name them with -w")
    if given["ring"].keys() == {"files"}:
        raise click.UsageError(
            "-b files:N needs a limit at which a new file starts: add -b filesize:KB, duration:S or packets:N"
        )
    stop_after = dict(given["stop_after"])
    if given["packets"] is not None:
        stop_after["packets"] = min(given["packets"], stop_after.get("packets", given["packets"]))
    snap_length = given["snap_length"] or SNAP_LENGTH
    return CaptureSettings(
        interfaces=given["interfaces"],
        filter=given["filter_"],
        promiscuous=not given["no_promiscuous"],
        snap_length=snap_length,
        programs=_programs(given["filter_"], snap_length),
        buffer_octets=given["buffer"] * MEBIBYTE if given["buffer"] else BUFFER_OCTETS,
        command=tuple(sys.argv),
        netns=given["netns"],
        user=given["user"],
        engine=given["engine"],
        write_to=given["write_to"],
        ring=RingLimits(**given["ring"]) if given["ring"] else None,
        stop_after=Limits(**stop_after),
    )


def _programs(text: str, snap_length: int) -> Mapping[int, Program]:
    from zmtpscope.live.capture.filters import CaptureFilterError, programs

    try:
        return programs(text, snap_length)
    except CaptureFilterError as error:
        raise refused(*error.lines()) from None
