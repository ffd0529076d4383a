"""Messages on standard error, one line each, and errors that several commands have."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from zmtpscope.export.safe_text import safe_text

if TYPE_CHECKING:
    from pathlib import Path


def notify(text: str) -> None:
    """Print one line on standard error. Control characters, in file names for example, are escaped.

    A closed or full standard error changes neither the data nor the exit code.
    """
    with suppress(OSError):
        click.echo(safe_text(text), err=True)


def is_seen() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def already_exists(target: Path | str) -> click.UsageError:
    return click.UsageError(f"{target} exists; use --force to overwrite it")


def missing_extra(what: str, extra: str, error: ImportError) -> click.ClickException:
    """Say that `what` needs a library that the extra installs."""
    missing = (error.name or "a library").partition(".")[0]
    return click.ClickException(f"{what} needs {missing}, of the extra {extra}: pip install 'zmtpscope[{extra}]'")
