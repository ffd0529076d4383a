"""Colour on a terminal. rich is loaded here, and only when there is colour to be made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TextIO


def wants_colour(choice: str, stream: TextIO | None = None) -> bool:
    """`--color` auto, always or never. `stream` None: stdout.

    auto: not with NO_COLOR, always with FORCE_COLOR, else on a terminal that is not dumb.
    """
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or ((stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb")


def painter(styles: Mapping[str, str]) -> Callable[[str, str], str]:
    """A function that wraps a text in the escape sequences of a named style; the sixteen colours of every terminal."""
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
