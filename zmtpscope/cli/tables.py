"""Shared by commands that write records as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import Run, reading
from zmtpscope.cli.filters import Filtered
from zmtpscope.records import DERIVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zmtpscope.dissect import Options
    from zmtpscope.export.tables import Tables, Written
    from zmtpscope.filter import Filter

ON_REQUEST = DERIVED | {"frame"}
"""Record types written only if requested by name."""

BLOCK_SIZE = 1 << 20
"""Octets of a capture block. Memory holds a row group in addition to the records of a block."""


def write_tables(
    given: dict[str, Any], selection: Mapping[str, tuple[str, ...]], filter: Filter | None = None
) -> tuple[Run, list[Written]]:
    """Write record types with these columns, filtered by `filter`, as the parameters of `export` request.

    Returns the run, at its end, and the files written.
    """
    with (
        reading(given, block_size=BLOCK_SIZE, frames="frame" in selection) as run,
        _tables(given, selection, run.options) as tables,
        run.progress(),
    ):
        filtered = None if filter is None else Filtered(filter, run.options, run.first_time)
        batches = run.batches()
        if not DERIVED.isdisjoint(selection):
            from zmtpscope.diagnosis.deriving import with_derived  # slow to import

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
        raise click.UsageError(f"{error.filename} exists; use --force to overwrite it") from None
    except ImportError as error:
        raise click.ClickException(
            f"--format {given['format_']} needs {error.name}, the extra arrow of zmtpscope: "
            "pip install 'zmtpscope[arrow]' (jsonl and csv need no extra)"
        ) from None
