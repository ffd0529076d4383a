"""Shared by commands that run until they are stopped: they capture, or follow a file that another tool writes."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import NoCapture
from zmtpscope.cli.commands import CAPTURE, option
from zmtpscope.cli.messages import notify
from zmtpscope.cli.parameters import PACKETS, names_a_file
from zmtpscope.cli.status_line import State, status_text
from zmtpscope.option_texts import SCALE
from zmtpscope.records import SECOND
from zmtpscope.words import counted

if TYPE_CHECKING:
    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Analyser
    from zmtpscope.live.capture.packet_copy import PacketCopy
    from zmtpscope.live.capture.session import CaptureFile
    from zmtpscope.live.capture.settings import CaptureSettings, Program

USAGE = 2
"""Exit code if a capture cannot start."""

GRACE = 1.0
"""Seconds for a pipe to end after the first Ctrl-C, which its writer also receives."""

KILOBYTE, MEBIBYTE = 1000, 1 << 20
STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Names of standard output for -w."""
CAPTURE_ONLY = {
    "filter_": "-f",
    "no_promiscuous": "-p",
    "snap_length": "-s",
    "buffer": "-B",
    "stop_after": "-a",
    "ring": "-b",
    "write_to": "-w",
    "netns": "--netns",
    "user": "--user",
    "engine": "--engine",
}
"""Options that require -i, by parameter."""


def parse_limits(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Parse `duration:SECONDS`, `filesize:KB`, `packets:N` and, for a ring, `files:N`, each at most once."""
    limits: dict[str, float] = {}
    names = ("duration", "filesize", "packets", *(("files",) if parameter.name == "ring" else ()))
    for value in values:
        name, colon, number = value.partition(":")
        match = re.fullmatch(r"([0-9]{1,12})(\.[0-9]{1,9})?([kKMG]?)", number)
        if name not in names or not colon or match is None or (name != "duration" and match[2]):
            raise click.BadParameter(f"{value!r} is not one of {', '.join(f'{each}:N' for each in names)}")
        if match[3] and name != "filesize":
            raise click.BadParameter(f"{value!r}: only sizes end in k, M or G")
        size = float(number) if name == "duration" else int(match[1]) * (SCALE[match[3]] if match[3] else 1)
        if name == "filesize" and not match[3]:
            size *= KILOBYTE
        if size <= 0:
            raise click.BadParameter(f"{value!r}: must be above 0")
        if name in limits:
            raise click.BadParameter(f"{name} is given twice")
        limits[name] = size
    return limits


LIST_INTERFACES = ("-D", "-L", "--list-interfaces")
"""The names of the option that lists interfaces: of tcpdump and dumpcap, and a letter that users try."""
FOLLOWED_FILE = click.argument("files", nargs=-1, metavar="[FILE | FILTER...]")
CAPTURE_OPTIONS = (
    option(
        "-i",
        "interfaces",
        multiple=True,
        metavar="IFACE",
        help="Capture on this interface, or on `any`; repeatable.",
        heading=CAPTURE,
    ),
    option(
        *LIST_INTERFACES,
        "list_interfaces",
        is_flag=True,
        help="List the network interfaces with their addresses and state.",
        heading=CAPTURE,
    ),
    option(
        "-f",
        "filter_",
        default="",
        metavar="FILTER",
        help="Capture only packets that match this capture filter (pcap-filter(7)). With -i it can also be given as "
        "the last words, without -f.",
        heading=CAPTURE,
    ),
    option(
        "-p", "no_promiscuous", is_flag=True, help="Do not put the interface into promiscuous mode.", heading=CAPTURE
    ),
    option(
        "-s",
        "snap_length",
        type=click.IntRange(0, 262_144),
        metavar="OCTETS",
        help="Snapshot length: capture at most OCTETS of each packet [default: 262144].",
        heading=CAPTURE,
    ),
    option(
        "-B",
        "buffer",
        type=click.IntRange(1, 4096),
        metavar="MIB",
        help="Size of the kernel's capture buffer, in MiB [default: 32].",
        heading=CAPTURE,
    ),
    PACKETS,
    option(
        "-a",
        "stop_after",
        multiple=True,
        callback=parse_limits,
        metavar="duration:S|filesize:KB|packets:N",
        help="Stop after S seconds, KB kilobytes of file or N packets; repeatable.",
        heading=CAPTURE,
    ),
    option(
        "-b",
        "ring",
        multiple=True,
        callback=parse_limits,
        metavar="duration:S|filesize:KB|packets:N|files:N",
        help="With -w, start a new file after S seconds, KB kilobytes or N packets. files:N keeps the newest N files "
        "and deletes older ones once they were printed.",
        heading=CAPTURE,
    ),
    option(
        "-w",
        "write_to",
        metavar="FILE",
        help="Also write the packets to FILE, as pcapng. FILE can be a FIFO; - is standard output, and then everything "
        "else goes to standard error.",
        heading=CAPTURE,
    ),
    option(
        "--netns",
        metavar="NAME|PID|PATH",
        help="Capture in this network namespace: its name (ip netns), the id of a process in it, or its file.",
        heading=CAPTURE,
    ),
    option(
        "--user",
        metavar="NAME",
        help="Drop privileges to this user once capturing has started [default: the user who ran sudo].",
        heading=CAPTURE,
    ),
    option(
        "--engine",
        metavar="ENGINE",
        help="How to capture: ring, socket, dumpcap, tcpdump or scapy [default: the first that works, without scapy].",
        heading=CAPTURE,
    ),
)


class WrittenByOthers:
    """A file or standard input that another tool writes: a `FollowedCapture` (`live/analysis.py`).

    `report_start` prints messages before the data. `report_end` prints messages after it, and returns the exit code.
    """

    def __init__(self, path: str, packets: int | None) -> None:
        from zmtpscope.capture import Polling, follow_captures

        self._path = self.title = path
        self._polling = Polling(path, grace=GRACE if path == "-" else 0)
        self.captures = follow_captures(self._polling, packet_limit=packets)

    def report_start(self) -> None:
        if self._path != "-" and not os.path.exists(self._path):
            notify(f"zmtpscope: {self._path} does not exist yet; waiting for it, Ctrl-C stops")

    def stop(self) -> None:
        self._polling.stop()

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        """Return the time up to which all packets are known: `latest`, because the writer may delay packets."""
        return latest

    @property
    def unread(self) -> int:
        return self._polling.unread

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        return ()

    @property
    def dropped(self) -> int:
        return sum(self.captures.statistics.dropped().values())

    def news(self) -> list[str]:
        return []

    def report_end(self) -> int:
        return 0

    def close(self) -> None:
        pass


class CapturedByUs:
    """A `FollowedCapture` of our own capture. Raises `click.ClickException` if it cannot start."""

    def __init__(self, settings: CaptureSettings, copy: PacketCopy | None = None) -> None:
        from zmtpscope.live.capture.loading import load_for
        from zmtpscope.live.capture.privileges import RightsKept, UnknownUser, become, invoking_user
        from zmtpscope.live.capture.session import CaptureRefused
        from zmtpscope.live.own_capture import OwnCapture

        try:
            self._capture = OwnCapture(settings, copy)
        except CaptureRefused as error:
            raise refused(error.sentence, *(f"  {way}" for way in (error.hint or "").splitlines())) from None
        try:
            user = invoking_user(settings.user, os.environ)
            load_for(user)
            become(user)
        except (UnknownUser, RightsKept) as error:
            self._capture.close()
            raise NoCapture(str(error)) from None
        self.title = ", ".join(self._capture.status.names)
        self._copy = copy

    @property
    def captures(self) -> Captures:
        return self._capture.captures

    def report_start(self) -> None:
        engine, others = self._capture.status.engine, self._capture.status.passed_over
        how = f" with {engine} ({'; '.join(others)})" if others else ""
        notify(f"zmtpscope: capturing on {self.title}{how}; Ctrl-C stops")
        if self._copy is not None and self._copy.awaits_reader:
            notify(f"zmtpscope: packets are buffered until a program reads {self._copy.name}")

    def stop(self) -> None:
        self._capture.stop()

    def known_until(self, latest: int, *, is_idle: bool) -> int:
        return self._capture.known_until(latest, is_idle=is_idle)

    @property
    def unread(self) -> int:
        return self._capture.unread

    @property
    def written_files(self) -> Sequence[CaptureFile]:
        return self._capture.written_files

    @property
    def dropped(self) -> int:
        return self._capture.dropped

    def news(self) -> list[str]:
        """Return messages of the capture process since the last call, for example that an interface went down."""
        notices = self._capture.status.notices
        return [notices.popleft() for _ in range(len(notices))]

    def report_end(self) -> int:
        for line in self.news():
            notify(f"zmtpscope: {line}")
        status, packets = self._capture.status, self.captures.statistics.packets
        freezes = f"; the kernel's buffer was full {counted(status.freezes, 'time')}" if status.freezes else ""
        notify(f"zmtpscope: {counted(packets, 'packet')} captured on {self.title}, {self.dropped} dropped{freezes}")
        if self._copy is not None and self._copy.is_closed:
            notify(f"zmtpscope: the program that read {self._copy.name} closed it, so the capture stopped")
        elif self._copy is not None and self._copy.awaits_reader:
            notify(f"zmtpscope: no program read {self._copy.name}")
        if status.failure is not None:
            notify(f"zmtpscope: {status.failure}")
            return 1
        return 0

    def close(self) -> None:
        self._capture.close()


Followed = WrittenByOthers | CapturedByUs
"""A followed capture: iterate over `captures`, and always call `close`."""


def take_capture_filter(given: dict[str, Any]) -> None:
    """With -i, treat the arguments of a command as its capture filter, as tcpdump and tshark do. Raises
    `click.UsageError`."""
    words: Sequence[str] = given["files"]
    if not given["interfaces"] or not words:
        return
    if len(words) == 1 and names_a_file(words[0]):
        raise click.UsageError(f"-i captures from an interface, and {words[0]} is a file to follow: use one of them")
    if given["filter_"]:
        raise click.UsageError(f"two capture filters: use -f {given['filter_']!r}, or {' '.join(words)!r} without -f")
    given["filter_"], given["files"] = " ".join(words), ()


def open_followed(given: dict[str, Any], paths: Sequence[str]) -> Followed:
    """Open a capture on interfaces if the options request one, otherwise the one file of `paths`. Raises
    `click.ClickException`."""
    if given["interfaces"]:
        if paths:
            raise click.UsageError(
                f"-i captures from an interface, and {paths[0]} is a file to follow: use one of them"
            )
        copy = _packet_copy(given)
        return CapturedByUs(_settings(given if copy is None else {**given, "write_to": None}), copy)
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
    return WrittenByOthers(path, given["packets"])


def state_of(followed: Followed, analyser: Analyser) -> State:
    """Return the current counts, for the status line."""
    messages, connections = analyser.messages_so_far()
    packets, lag = followed.captures.statistics.packets, seconds_behind(followed, analyser.latest)
    return State(packets, messages, connections, followed.dropped, lag)


def news_lines(followed: Followed, analyser: Analyser, counts_wanted: Callable[[], bool]) -> list[str]:
    """Return lines for standard error: changes of interfaces, and counts if requested."""
    news = followed.news()
    if counts_wanted():
        news.append(status_text(state_of(followed, analyser)))
    return [f"zmtpscope: {line}" for line in news]


def seconds_behind(followed: Followed, latest: int) -> float:
    """Return the age of the newest packet read (`latest`, nanoseconds since the epoch) if more are waiting, else 0."""
    return max(0.0, time.time() - latest / SECOND) if followed.unread and latest else 0.0


def check_no_capture_options(given: dict[str, Any], path: str, why: str) -> None:
    """Raise `click.UsageError` for options that require -i, which a file does not have."""
    for parameter, name in CAPTURE_ONLY.items():
        if given[parameter]:
            raise click.UsageError(f"{name} is for a capture with -i; {path} {why}")


def list_interfaces(*, netns: str | None, as_json: bool) -> int:
    """Print the interfaces, optionally of another network namespace. Returns the exit code."""
    from zmtpscope.cli.interface_list import interface_lines, interface_objects
    from zmtpscope.live.capture.interfaces import interfaces
    from zmtpscope.live.capture.namespaces import NamespaceError, enter

    if netns is not None:
        try:
            enter(netns)
        except NamespaceError as error:
            raise refused(str(error)) from None
    known = interfaces()
    for line in map(json.dumps, interface_objects(known)) if as_json else interface_lines(known):
        click.echo(line)
    return 0


def _packet_copy(given: dict[str, Any]) -> PacketCopy | None:
    """Return the copier of packets to the FIFO, device or standard output that -w names. None if it names a file or is
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
    """Return the compiled filter by link type."""
    from zmtpscope.live.capture.filters import CaptureFilterError, programs

    try:
        return programs(text, snap_length)
    except CaptureFilterError as error:
        raise refused(*error.lines()) from None


def refused(*lines: str) -> click.exceptions.Exit:
    """Print why a capture cannot start, as aligned lines. Return the exception to raise."""
    for number, line in enumerate(lines):
        notify(line if number else f"{click.get_current_context().command_path}: {line}")
    return click.exceptions.Exit(USAGE)
