"""Options of commands that capture, and checks of their combinations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from zmtpscope.cli.parameters import CAPTURE, PACKETS, Option, names_a_file
from zmtpscope.cli.terminal import notify
from zmtpscope.export.safe_text import safe_text
from zmtpscope.live.capture.interfaces import Interface
from zmtpscope.option_texts import SCALE

USAGE = 2
"""Exit code if a capture cannot start."""

KILOBYTE = 1000
STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Arguments of -w that mean standard output."""


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
"""Options of tcpdump and dumpcap, and a letter that users try."""
FOLLOWED_FILE = click.argument("files", nargs=-1, metavar="[FILE | FILTER...]")
CAPTURE_OPTIONS = (
    CAPTURE.option(
        "-i", "interfaces", multiple=True, metavar="IFACE", help="Capture on this interface, or on `any`; repeatable."
    ),
    CAPTURE.flag(
        *LIST_INTERFACES, "list_interfaces", help="List the network interfaces with their addresses and state."
    ),
    CAPTURE.option(
        "-f",
        "filter_",
        default="",
        metavar="FILTER",
        help="Capture only packets that match this capture filter (pcap-filter(7)). With -i it can also be given as "
        "the last words, without -f.",
    ),
    CAPTURE.flag("-p", "no_promiscuous", help="Do not put the interface into promiscuous mode."),
    CAPTURE.option(
        "-s",
        "snap_length",
        type=click.IntRange(0, 262_144),
        metavar="OCTETS",
        help="Snapshot length: capture at most OCTETS of each packet [default: 262144].",
    ),
    CAPTURE.option(
        "-B",
        "buffer",
        type=click.IntRange(1, 4096),
        metavar="MIB",
        help="Size of the kernel's capture buffer, in MiB [default: 32].",
    ),
    PACKETS,
    CAPTURE.option(
        "-a",
        "stop_after",
        multiple=True,
        callback=parse_limits,
        metavar="duration:S|filesize:KB|packets:N",
        help="Stop after S seconds, KB kilobytes of file or N packets; repeatable.",
    ),
    CAPTURE.option(
        "-b",
        "ring",
        multiple=True,
        callback=parse_limits,
        metavar="duration:S|filesize:KB|packets:N|files:N",
        help="With -w, start a new file after S seconds, KB kilobytes or N packets. files:N keeps the newest N files "
        "and deletes older ones once they were printed.",
    ),
    CAPTURE.option(
        "-w",
        "write_to",
        metavar="FILE",
        help="Also write the packets to FILE, as pcapng. FILE can be a FIFO; - is standard output, and then everything "
        "else goes to standard error.",
    ),
    CAPTURE.option(
        "--netns",
        metavar="NAME|PID|PATH",
        help="Capture in this network namespace: its name (ip netns), the id of a process in it, or its file.",
    ),
    CAPTURE.option(
        "--user",
        metavar="NAME",
        help="Drop privileges to this user once capturing has started [default: the user who ran sudo].",
    ),
    CAPTURE.option(
        "--engine",
        metavar="ENGINE",
        help="How to capture: ring, socket, dumpcap, tcpdump or scapy [default: the first that works, without scapy].",
    ),
)


def take_capture_filter(given: dict[str, Any]) -> None:
    """Use the arguments of a command with -i as its capture filter, as tcpdump and tshark do.

    Raises `click.UsageError`.
    """
    words: Sequence[str] = given["files"]
    if not given["interfaces"] or not words:
        return
    if len(words) == 1 and names_a_file(words[0]):
        raise click.UsageError(f"-i captures from an interface, and {words[0]} is a file to follow: use one of them")
    if given["filter_"]:
        raise click.UsageError(f"two capture filters: use -f {given['filter_']!r}, or {' '.join(words)!r} without -f")
    given["filter_"], given["files"] = " ".join(words), ()


def check_no_capture_options(given: dict[str, Any], path: str, why: str) -> None:
    """Raise `click.UsageError` if options are given that only -i has. `path` is the file that is read instead, and
    `why` the reason."""
    for option in click.get_current_context().command.params:
        if isinstance(option, Option) and option.heading == CAPTURE and given[str(option.name)]:
            raise click.UsageError(f"{option.opts[0]} is for a capture with -i; {path} {why}")


def list_interfaces(*, netns: str | None, as_json: bool) -> int:
    """Print the interfaces, optionally of another network namespace. Returns the exit code."""
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


def refused(*lines: str) -> click.exceptions.Exit:
    """Print why a capture cannot start, as one or more lines; return the exception to raise."""
    for number, line in enumerate(lines):
        notify(line if number else f"{click.get_current_context().command_path}: {line}")
    return click.exceptions.Exit(USAGE)


def interface_lines(known: Sequence[Interface]) -> Iterator[str]:
    """Yield a line for each interface with number, name, state, addresses and kind. `-i` also accepts the number."""
    rows = [
        (f"{number}.", safe_text(each.name), _state(each), ", ".join(each.addresses), safe_text(each.description))
        for number, each in enumerate(known, 1)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def interface_objects(known: Sequence[Interface]) -> Iterator[dict[str, object]]:
    for number, each in enumerate(known, 1):
        yield {
            "number": number,
            "name": each.name,
            "state": _state(each),
            "is_loopback": each.is_loopback,
            "addresses": each.addresses,
            "description": each.description,
        }


def _state(interface: Interface) -> str:
    return "up" if interface.is_running else "no carrier" if interface.is_up else "down"
