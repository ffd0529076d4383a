"""`zmtpscope export`: captures in, tables out."""

from __future__ import annotations

from pathlib import Path
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
    BODY,
    FILES,
    FORCED,
    FRAMES,
    KEYS,
    MORE_FILES,
    PACKETS,
    PAYLOAD,
    PAYLOAD_FILES,
    SHOW_SECRETS,
    parse_select,
)
from zmtpscope.records import RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zmtpscope.export.tables import Tables, Written

ON_REQUEST = "frame"


BLOCK_SIZE = 1 << 20
"""Octets of a capture at a time: a row group is held beside what a block becomes."""


@click.command(short_help="Write captures as tables: JSON lines, CSV or Parquet.")
@FILES
@MORE_FILES
@click.option(
    "-o",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write into DIR, which is made when missing.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["jsonl", "csv", "parquet"]),
    default="jsonl",
    help="What to write [jsonl]; parquet needs the extra arrow.",
)
@click.option(
    "--select",
    "selection",
    multiple=True,
    callback=parse_select,
    metavar="RECORD[:COLUMN,...]",
    help="Only records of this type, and of them only these columns; may be given for several types.",
)
@FRAMES
@BODY
@PACKETS
@FORCED
@PAYLOAD
@PAYLOAD_FILES
@KEYS
@SHOW_SECRETS
@click.option("--force", is_flag=True, help="Overwrite files that are there already.")
def export(**given: Any) -> int:
    """Write what happened in capture FILEs (as `zmtpscope read` finds it) as tables, a file for each record type:
    connections, greetings, commands, messages, gaps, leftovers and findings. A type without records has a table without
    rows. A file is complete or not there: all of them are put in their places at the end."""
    paths = named_captures(given)
    # imported here, so that help, usage errors and the other commands stay quick
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.dissect import Analyser

    selection = _selection(given)
    keys = given_keys(given)
    said = say_problems(keys)
    options = analyser_options(given, keys=keys, frames=ON_REQUEST in selection)
    tables = _tables(given, selection, options)
    try:
        captures = open_captures(paths, packet_limit=given["packets"], block_size=BLOCK_SIZE)
        analyser = Analyser(options)
        with tables, Progress(captures.statistics, paths, is_seen()):
            for batch in analyser.run(captures):
                tables.add(batch)
            written = tables.commit()
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    say_if_nothing_was_found(analyser.summary, captures)
    say_what_cannot_be_used(options)
    say_what_stayed_closed(analyser.summary, keys)
    say(_told(given["directory"], written))
    say_problems(keys, said)
    return exit_code(captures)


def _selection(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Record types with their columns: those that were named, else all but frames; frames where they are asked for."""
    selection: dict[str, tuple[str, ...]] = given["selection"]
    whole = {name: tuple(field.name for field in type_.fields) for name, type_ in RECORDS.items()}
    if not selection:
        selection = {name: columns for name, columns in whole.items() if name != ON_REQUEST}
    if given["frames"]:
        selection.setdefault(ON_REQUEST, whole[ON_REQUEST])
    return selection


def _tables(given: dict[str, Any], selection: dict[str, tuple[str, ...]], options: Any) -> Tables:
    from zmtpscope.export.tables import Tables

    try:
        return Tables(given["directory"], given["format_"], selection, options, force=given["force"])
    except FileExistsError as error:
        raise click.UsageError(f"{error.filename} is there already; --force overwrites it") from None
    except ImportError as error:
        raise click.ClickException(
            f"--format {given['format_']} needs {error.name}, the extra arrow of zmtpscope: "
            "pip install 'zmtpscope[arrow]' (jsonl and csv need nothing more)"
        ) from None


def _told(directory: Path, written: Sequence[Written]) -> str:
    """What was written: `out: 3 files, 30 rows, 17 kB (connections.csv 2 rows, ...)`."""
    rows, octets = sum(file.rows for file in written), sum(file.octets for file in written)
    each = ", ".join(f"{file.path.name} {file.rows}" for file in written)
    return f"zmtpscope: {directory}: {len(written)} files, {rows} rows, {_size(octets)} (rows of {each})"


def _size(octets: int) -> str:
    scaled, unit = next(
        (octets / scale, unit)
        for scale, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"), (1, "octets"))
        if octets >= scale or scale == 1
    )
    return f"{scaled:.3g} {unit}"
