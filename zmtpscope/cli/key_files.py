"""Open the key files of commands, and report errors in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from zmtpscope.cli.messages import notify
from zmtpscope.cli.parameters import KEYLOG_VARIABLE

if TYPE_CHECKING:
    from zmtpscope.curve_keys import Keys

STANDARD_INPUT = "-"


def given_keys(given: dict[str, Any]) -> Keys | None:
    """Load keys from `--keys` or the environment variable; return None without either."""
    names: Sequence[str] = given["key_files"]
    source = ""
    if click.get_current_context().get_parameter_source("key_files") is ParameterSource.ENVIRONMENT:
        names = [name for name in names if name]  # "one:$TWO" if TWO is not set
        source = f", named by {KEYLOG_VARIABLE}"
    if STANDARD_INPUT in names and STANDARD_INPUT in [*given["files"], *given.get("more_files", ())]:
        raise click.UsageError(f"standard input cannot be both a capture and a key file{source}")
    return open_keys(names, source) if names else None


def open_keys(names: Sequence[str], source: str = "") -> Keys:
    """Read key files (- is standard input), and warn about secrets that other users can read.

    An unreadable file is a usage error; `source` is appended to it and states the origin of the name.
    """
    # imported here, because the latter loads libsodium
    from pathlib import Path

    from zmtpscope.curve_keys import KeyFileError, Keys

    if names.count(STANDARD_INPUT) > 1:
        raise click.UsageError(f"standard input can be read only once{source}")
    try:
        keys = Keys([None if name == STANDARD_INPUT else Path(name) for name in names])
    except KeyFileError as error:
        raise click.UsageError(f"{error}{source}") from None
    for path in keys.readable_by_others:
        import shlex

        notify(f"zmtpscope: {path}: other users can read the secret keys in it -> chmod 600 {shlex.quote(str(path))}")
    return keys


def report_problems(keys: Keys | None, said: Sequence[str] = ()) -> Sequence[str]:
    """Report unusable lines of key files, except the ones in `said`; return all problems reported so far."""
    if keys is None:
        return said
    problems = keys.problems
    for problem in problems:
        if problem not in said:
            notify(f"zmtpscope: {problem}")
    return problems
