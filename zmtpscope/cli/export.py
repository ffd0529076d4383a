"""`zmtpscope export`: captures as tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import Run, reading
from zmtpscope.cli.filters import FILTER, Filtered
from zmtpscope.cli.parameters import (
    BODY,
    FRAMES,
    READ_FILES,
    SHOW_SECRETS,
    WITH_DERIVED,
    command,
    flag,
    option,
    options,
    parse_select,
)
from zmtpscope.cli.terminal import already_exists, notify
from zmtpscope.export.words import size
from zmtpscope.records import DERIVED, RECORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zmtpscope.dissect import Options
    from zmtpscope.export.tables import Tables, Written
    from zmtpscope.filter import Filter

ON_REQUEST = DERIVED | {"frame"}
"""Record types that are written only if requested by name."""

FORMATS = "jsonl", "csv", "parquet"

BLOCK_SIZE = 1 << 20
"""Block size of a capture. Memory holds a row group in addition to the records of a block."""


def write_tables(
    given: dict[str, Any], selection: Mapping[str, tuple[str, ...]], filter: Filter | None = None
) -> tuple[Run, list[Written]]:
    """Write the record types in `selection` as tables with these columns, with the parameters of `export`.

    Returns the finished run, and the files written.
    """
    with (
        reading(given, block_size=BLOCK_SIZE, frames="frame" in selection) as run,
        _tables(given, selection, run.options) as tables,
        run.progress(),
    ):
        filtered = None if filter is None else Filtered(filter, run.options, run.first_time)
        batches = run.batches()
        if not DERIVED.isdisjoint(selection):
            from zmtpscope.diagnosis.deriving import with_derived

            batches = with_derived(batches)
        for batch in batches:
            tables.add(batch if filtered is None else filtered(batch))
        written = tables.commit()
    return run, written


def _tables(given: dict[str, Any], selection: Mapping[str, tuple[str, ...]], options: Options) -> Tables:
    from zmtpscope.export.tables import Tables

    try:
        return Tables(given["directory"], given["format_"], selection, options, force=given["force"])
    except FileExistsError as error:
        raise already_exists(error.filename) from None
    except ImportError as error:
        raise click.ClickException(
            f"--format {given['format_']} needs {error.name}, the extra arrow of zmtpscope: "
            "pip install 'zmtpscope[arrow]' (jsonl and csv need no extra)"
        ) from None


DIRECTORY = option(
    "-o",
    "directory",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Write to DIR, created if missing.",
)


@command(short_help="Export records to JSON lines, CSV or Parquet files.")
@options(*READ_FILES, FILTER, FRAMES, WITH_DERIVED, BODY, SHOW_SECRETS, DIRECTORY)
@option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    default="jsonl",
    help="File format; parquet needs the extra `arrow` [default: jsonl].",
)
@option(
    "--select",
    "selection",
    multiple=True,
    callback=parse_select,
    metavar="RECORD[:COLUMN,...]",
    help="Export only this record type, with only these columns if any are named; repeatable.",
)
@flag("--force", help="Overwrite existing files.")
def export(**given: Any) -> int:
    """Export the records of capture FILEs to tables, one file per record type: connections, greetings, commands,
    messages, gaps, stalls, leftovers and findings. A type without records gets an empty table. The files appear only
    when all of them are complete."""
    suffix = given["directory"].suffix[1:]
    if suffix in FORMATS and suffix != given["format_"]:
        raise click.UsageError(f"-o names a directory, with a file for each record type; add --format {suffix}")
    run, written = write_tables(given, _selection(given), given["filter"])
    notify(_summary(given["directory"], written))
    return run.exit_code()


def _selection(given: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the record types to export, with their columns.

    By default all types except frames and derived records; options add these. `--select` names the types instead.
    """
    selection: dict[str, tuple[str, ...]] = given["selection"]
    whole = {name: tuple(field.name for field in type_.fields) for name, type_ in RECORDS.items()}
    if not selection:
        selection = {name: columns for name, columns in whole.items() if name not in ON_REQUEST}
    for name, columns in whole.items():
        if (name == "frame" and given["frames"]) or (name in DERIVED and given["derived"]):
            selection.setdefault(name, columns)
    return selection


def _summary(directory: Path, written: Sequence[Written]) -> str:
    """Describe the files written: `out: 3 files, 30 rows, 17 kB (connections.csv 2 rows, ...)`."""
    rows, octets = sum(file.rows for file in written), sum(file.octets for file in written)
    each = ", ".join(f"{file.path.name} {file.rows}" for file in written)
    return f"zmtpscope: {directory}: {len(written)} files, {rows} rows, {size(octets)} (rows of {each})"
