"""Shared by commands that write records as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import (
    NoCapture,
    analyser_options,
    named_captures,
    say_if_nothing_was_found,
    say_what_cannot_be_used,
    say_what_stayed_closed,
)
from zmtpscope.cli.filters import Filtered
from zmtpscope.cli.key_files import given_keys, say_problems
from zmtpscope.cli.messages import is_seen
from zmtpscope.records import DERIVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zmtpscope.capture import Captures
    from zmtpscope.dissect import Options
    from zmtpscope.export.tables import Tables, Written
    from zmtpscope.filter import Filter

ON_REQUEST = DERIVED | {"frame"}
"""Record types written only if requested by name."""

BLOCK_SIZE = 1 << 20
"""Octets of a capture block. Memory holds a row group in addition to the records of a block."""


def write_tables(
    given: dict[str, Any], selection: Mapping[str, tuple[str, ...]], filter: Filter | None = None
) -> tuple[Captures, list[Written]]:
    """Write record types with these columns, filtered by `filter`, as the parameters of `export` request.

    Returns the captures, read to their end, and the files written. Reports problems of keys and payload dissectors, and
    captures without ZMTP.
    """
    # imported here to keep help, usage errors and other commands fast
    from zmtpscope.capture import CaptureError, open_captures
    from zmtpscope.cli.progress import Progress
    from zmtpscope.diagnosis.deriving import with_derived
    from zmtpscope.dissect import Analyser

    paths, keys = named_captures(given), given_keys(given)
    said = say_problems(keys)
    options = analyser_options(given, keys=keys, frames="frame" in selection)
    tables = _tables(given, selection, options)
    try:
        captures = open_captures(paths, packet_limit=given["packets"], block_size=BLOCK_SIZE)
        analyser = Analyser(options)
        with tables, Progress(captures.statistics, paths, is_seen()):
            filtered = None if filter is None else Filtered(filter, options, lambda: captures.statistics.first_time)
            batches = analyser.run(captures)
            for batch in batches if DERIVED.isdisjoint(selection) else with_derived(batches):
                tables.add(batch if filtered is None else filtered(batch))
            written = tables.commit()
    except CaptureError as error:
        raise NoCapture(str(error)) from error
    say_if_nothing_was_found(analyser.summary, captures)
    say_what_cannot_be_used(options)
    say_what_stayed_closed(analyser.summary, keys)
    say_problems(keys, said)
    return captures, written


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
