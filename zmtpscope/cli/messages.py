"""What is said on standard error: a line each."""

from __future__ import annotations

import sys
from contextlib import suppress

import click

from zmtpscope.export.safe_text import safe_text


def say(text: str) -> None:
    """One line on standard error. Nothing in it, the name of a file say, moves the cursor or begins a second line.

    That nobody can read it (closed, full) changes neither the data nor the exit code.
    """
    with suppress(OSError):
        click.echo(safe_text(text), err=True)


def is_seen() -> bool:
    """Whether somebody watches standard error."""
    return sys.stderr is not None and sys.stderr.isatty()
