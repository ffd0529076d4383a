"""The options that commands share; those whose values have a grammar: `-c`, `--body`, `-d` and `--select`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import NamedTuple

import click

from zmtpscope.records import RECORDS, from_text

SCALE = {"": 1, "k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
VERSIONS = ("1.0", "2.0", "3.0", "3.1")

LAST_PORT = 65535
LARGEST_PAYLOAD_FILE = 64 << 20


def parse_count(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A number of packets."""
    if value is None:
        return None
    if re.fullmatch("0*[1-9][0-9]{0,17}", value) is None:
        raise click.BadParameter(f"{value!r} is no number of packets; give 1 or more")
    return int(value)


class Body(NamedTuple):
    """`--body`: what to keep ("full", "head", "none") and the number that goes with it, if one was given."""

    keep: str
    octets: int | None


def parse_body(context: click.Context, parameter: click.Parameter, value: str) -> Body:
    """`full[:LIMIT]`, `head:N` or `none`; numbers may end in k, M or G."""
    match = re.fullmatch(r"(full|head|none)(?::([0-9]+)([kKMG]?))?", value)
    if match is None or (match[1] == "head" and not match[2]) or (match[1] == "none" and match[2]):
        raise click.BadParameter(f"{value!r} is none of full, full:LIMIT, head:N and none; try full:64k or head:100")
    return Body(match[1], int(match[2]) * SCALE[match[3]] if match[2] else None)


class Forced(NamedTuple):
    """`-d`: connections that a selector names, to be read as ZMTP."""

    selector: str
    value: int | bytes
    version: str | None
    mechanism: str | None
    payload: tuple[str, str | None] | None


def parse_forced(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[Forced]:
    """`tcp.port==N,zmtp[/VERSION[/MECHANISM]][:PAYLOAD[/ARGUMENT]]`, and likewise for the other selectors."""
    return [_parse_forced(value) for value in values]


def _parse_forced(value: str) -> Forced:
    match = re.fullmatch(r"(.*?)==(.*),zmtp(?:/([^/:]*)(?:/([^/:]*))?)?(?::([^/]+)(?:/(.+))?)?", value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not of the form tcp.port==5555,zmtp/3.1/NULL:json")
    selector, number, version, mechanism, name, argument = match.groups()
    if selector not in ("tcp.port", "udp.port", "conn", "topic"):
        raise click.BadParameter(f"{selector!r} selects nothing; tcp.port==N, udp.port==N, conn==N and topic==TEXT do")
    payload = None
    if name is not None:
        payload = _known_payload(name), argument
    if selector == "topic":
        if payload is None:
            raise click.BadParameter(f"{value!r}: name the payload of the topic, as in topic=={number},zmtp:json")
        return Forced(selector, from_text(number), None, None, payload)
    if re.fullmatch("[0-9]{1,9}", number) is None:
        raise click.BadParameter(f"{selector}=={number}: a number is needed")
    if selector != "conn" and int(number) > LAST_PORT:
        raise click.BadParameter(f"{selector}=={number}: ports go from 0 to {LAST_PORT}")
    if selector == "conn" and not int(number):
        raise click.BadParameter(f"{selector}=={number}: connections are counted from 1")
    if version is not None and version not in VERSIONS:
        raise click.BadParameter(f"there is no ZMTP {version}; there are {', '.join(VERSIONS)}")
    if mechanism is not None and mechanism not in (known := _mechanisms()):
        raise click.BadParameter(f"the mechanism {mechanism!r} is not known; {', '.join(known)} are")
    return Forced(selector, int(number), version, mechanism, payload)


def parse_payload(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """`auto`, `off`, or the name of a payload dissector."""
    return value if value in ("auto", "off") else _known_payload(value)


def _known_payload(name: str) -> str:
    from zmtpscope.payloads.registry import names  # looking for them takes its time

    if name not in (known := names()):
        raise click.BadParameter(f"there is no payload dissector {name!r}{_nearest(name, known)}")
    return name


def parse_payload_files(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, dict[str, bytes]]:
    """`NAME=FILE`, any number of times: what files hold, by file name, for each dissector."""
    files: dict[str, dict[str, bytes]] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or not path:
            raise click.BadParameter(f"{value!r} is not of the form NAME=FILE")
        try:
            with open(path, "rb") as file:
                octets = file.read(LARGEST_PAYLOAD_FILE + 1)
        except OSError as error:
            raise click.BadParameter(f"{path}: {error.strerror}") from None
        if len(octets) > LARGEST_PAYLOAD_FILE:
            raise click.BadParameter(f"{path}: larger than {LARGEST_PAYLOAD_FILE >> 20} MiB")
        files.setdefault(_known_payload(name), {})[path] = octets
    return files


def _mechanisms() -> list[str]:
    from zmtpscope.zmtp.mechanisms import MECHANISMS  # imported where it is asked for: the core takes its time

    return list(MECHANISMS)


def parse_select(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]]:
    """`RECORD` or `RECORD:COLUMN,COLUMN`, any number of times: record types, and the columns of each in their order."""
    selected: dict[str, tuple[str, ...]] = {}
    for value in values:
        name, colon, wanted = value.partition(":")
        if name not in RECORDS:
            raise click.BadParameter(f"there is no record type {name!r}{_nearest(name, RECORDS)}")
        if name in selected:
            raise click.BadParameter(f"{name} is selected twice; give its columns at once: {name}:conn,ts_ns")
        known = [field.name for field in RECORDS[name].fields]
        columns = wanted.split(",") if colon else known
        for column in columns:
            if column not in known:
                raise click.BadParameter(f"{name} has no column {column!r}{_nearest(column, known)}")
            if columns.count(column) > 1:
                raise click.BadParameter(f"{name} has the column {column!r} twice")
        selected[name] = tuple(columns)
    return selected


def _nearest(name: str, known: Iterable[str]) -> str:
    known = list(known)
    nearest = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {nearest[0]}?" if nearest else f"; there are {', '.join(known)}"


FILES = click.argument("files", nargs=-1, metavar="[FILE]...")
MORE_FILES = click.option("-r", "more_files", multiple=True, metavar="FILE", help="Read FILE.")
FRAMES = click.option("--frames", is_flag=True, help="Also a record for each frame of a message.")
BODY = click.option(
    "--body",
    callback=parse_body,
    default="full",
    metavar="full[:LIMIT]|head:N|none",
    help="How much of message bodies to keep [full:16M].",
)
PACKETS = click.option("-c", "packets", callback=parse_count, metavar="N", help="Stop after N packets.")
FORCED = click.option(
    "-d",
    "forced",
    multiple=True,
    callback=parse_forced,
    metavar="SELECTOR,zmtp[/VERSION[/MECHANISM]][:PAYLOAD]",
    help="Read these connections as ZMTP, whatever they look like: tcp.port==5555,zmtp/3.1/NULL or conn==3,zmtp; these "
    "datagrams as RADIO/DISH: udp.port==5556,zmtp; and what they carry as PAYLOAD: topic==prices,zmtp:json.",
)
PAYLOAD = click.option(
    "--payload",
    callback=parse_payload,
    default="auto",
    metavar="auto|off|NAME",
    help="Look at what rides inside messages: whatever claims it, nothing, or only what this dissector claims [auto].",
)
PAYLOAD_FILES = click.option(
    "--payload-file",
    "payload_files",
    multiple=True,
    callback=parse_payload_files,
    metavar="NAME=FILE",
    help="What the payload dissector NAME needs to know, such as jupyter=kernel-1234.json; may be given several times.",
)
KEYLOG_VARIABLE = "ZMTPSCOPE_KEYLOG"
KEYS = click.option(
    "--keys",
    "key_files",
    multiple=True,
    type=click.Path(),  # what splits the variable
    envvar=KEYLOG_VARIABLE,
    metavar="FILE",
    help="CURVE keys that open encrypted traffic: a key log or a certificate, - is standard input; may be given "
    f"several times. Without it the files that {KEYLOG_VARIABLE} names, as in PATH.",
)
SHOW_SECRETS = click.option("--show-secrets", is_flag=True, help="Do not mask passwords.")
