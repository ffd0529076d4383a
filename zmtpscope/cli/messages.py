"""Messages on standard error, one line each."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from zmtpscope.export.safe_text import safe_text


def notify(text: str) -> None:
    """Print one line on standard error. Control characters, in file names for example, are escaped.

    A closed or full standard error changes neither the data nor the exit code.
    """
    with suppress(OSError):
        click.echo(safe_text(text), err=True)


def is_seen() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()
