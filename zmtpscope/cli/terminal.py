"""What commands write to standard output and standard error. Rich is loaded only if colour is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

import click

from zmtpscope.export.safe_text import safe_text

if TYPE_CHECKING:
    from pathlib import Path


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of the terminal `stream` (None: standard output); None if it is no terminal."""
    if not (stream or sys.stdout).isatty():
        return None
    from shutil import get_terminal_size  # it loads all compression modules

    return get_terminal_size().columns


def shows_unicode() -> bool:
    """Whether standard output can encode all characters."""
    return "utf" in (sys.stdout.encoding or "").lower()


def write_json(lines: Iterable[bytes]) -> None:
    """Write lines of JSON, in ASCII if standard output is a terminal."""
    from zmtpscope.export.json_lines import escaped

    for line in lines:
        sys.stdout.buffer.write(escaped(line) if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()


def wants_colour(choice: str, stream: TextIO | None = None) -> bool:
    """Whether `--color` (auto, always or never) enables colours on `stream` (None: standard output).

    auto: never with NO_COLOR, always with FORCE_COLOR, otherwise on terminals that are not dumb.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or ((stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb")


def painter(
    styles: Mapping[str, str], choice: str = "always", stream: TextIO | None = None
) -> Callable[[str, str], str]:
    """Return a function (style, text) that returns the text in the colours of a style, as terminal escape sequences.

    If `wants_colour(choice, stream)` is false, it returns the text unchanged.
    """
    if not wants_colour(choice, stream):
        return lambda style, text: text
    from rich.color import ColorSystem
    from rich.style import Style

    around = {}
    for name, style in styles.items():
        before, _, after = Style.parse(style).render("|", color_system=ColorSystem.STANDARD).partition("|")
        around[name] = (before, after)

    def paint(style: str, text: str) -> str:
        before, after = around[style]
        return f"{before}{text}{after}"

    return paint


def notify(text: str) -> None:
    """Print one line on standard error. Control characters, in file names for example, are escaped.

    A closed or full standard error changes neither the data nor the exit code.
    """
    with suppress(OSError):
        click.echo(safe_text(text), err=True)


def is_seen() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def already_exists(target: Path | str) -> click.UsageError:
    return click.UsageError(f"{target} exists; use --force to overwrite it")


def missing_extra(what: str, extra: str, error: ImportError) -> click.ClickException:
    """Return an error: `what` needs a library, which the extra `extra` installs."""
    missing = (error.name or "a library").partition(".")[0]
    return click.ClickException(f"{what} needs {missing}, of the extra {extra}: pip install 'zmtpscope[{extra}]'")
