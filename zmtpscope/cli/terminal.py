"""Rich is loaded only if colour is used."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TextIO


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of a terminal; None if `stream` (None: stdout) is no terminal."""
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
    """Whether `--color` (auto, always or never) enables colours on `stream` (None: stdout). auto: never with
    NO_COLOR, always with FORCE_COLOR, otherwise on terminals that are not dumb."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or ((stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb")


def painter(styles: Mapping[str, str]) -> Callable[[str, str], str]:
    """Return a function that wraps a text in the escape sequences of a named style, in 16 colours."""
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
