"""`zmtpscope export`: captures in, tables out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import exit_code
from zmtpscope.cli.filters import FILTER
from zmtpscope.cli.messages import say
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
    WITH_DERIVED,
    parse_select,
)
from zmtpscope.cli.tables import ON_REQUEST, write_tables
from zmtpscope.export.words import size
from zmtpscope.records import DERIVED, RECORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zmtpscope.export.tables import Written


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
@FILTER
@FRAMES
@WITH_DERIVED
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
    connections, greetings, commands, messages, gaps, stalls, leftovers and findings. A type without records has a table
    without rows. A file is complete or not there: all of them are put in their places at the end."""
    captures, written = write_tables(given, _selection(given), given["filter"])
    say(_summary(given["directory"], written))
    return exit_code(captures)


def _selection(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Record types with their columns: those that were named, else all but frames and derived ones; these where they
    are asked for."""
    selection: dict[str, tuple[str, ...]] = given["selection"]
    whole = {name: tuple(field.name for field in type_.fields) for name, type_ in RECORDS.items()}
    if not selection:
        selection = {name: columns for name, columns in whole.items() if name not in ON_REQUEST}
    for name, columns in whole.items():
        if (name == "frame" and given["frames"]) or (name in DERIVED and given["derived"]):
            selection.setdefault(name, columns)
    return selection


def _summary(directory: Path, written: Sequence[Written]) -> str:
    """What was written: `out: 3 files, 30 rows, 17 kB (connections.csv 2 rows, ...)`."""
    rows, octets = sum(file.rows for file in written), sum(file.octets for file in written)
    each = ", ".join(f"{file.path.name} {file.rows}" for file in written)
    return f"zmtpscope: {directory}: {len(written)} files, {rows} rows, {size(octets)} (rows of {each})"
