"""The last door to the terminal: what the worker sends is safe, what somebody pastes may not be."""

from __future__ import annotations

import traceback
import unicodedata

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.color import Color
from textual.filter import LineFilter

OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal might obey."""

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

FAULT = "zmtpscope has failed, which is a fault of its own; please report this:"


def harmless(text: str) -> str:
    """The text, as wide as it was, without what a terminal might obey."""
    if text.isprintable():
        return text
    return "".join(
        REPLACEMENT * cell_len(character) if unicodedata.category(character) in OBEYED else character
        for character in text
    )


class HarmlessLines(LineFilter):
    """Every line that is drawn goes through here."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments where all are harmless, as they mostly are."""
        if all(segment.text.isprintable() for segment in segments):
            return segments
        return [Segment(harmless(text), style, control) for text, style, control in segments]


def fault() -> Text:
    """What has just been raised, for a report: without the values of variables, as these have octets of the capture."""
    return Text("\n".join((FAULT, *map(harmless, traceback.format_exc().split("\n")))))
