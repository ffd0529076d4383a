"""The last door to the terminal: what the worker sends is safe, what somebody pastes may not be."""

from __future__ import annotations

import traceback

from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.color import Color
from textual.filter import LineFilter

from zmtpscope.export.safe_text import safe_text

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

FAULT = "zmtpscope has failed, which is a fault of its own; please report this:"


def harmless(text: str) -> str:
    """The text, as wide as it was, without what a terminal might obey."""
    if safe_text(text) == text:
        return text
    return "".join(each if safe_text(each) == each else REPLACEMENT * cell_len(each) for each in text)


class HarmlessLines(LineFilter):
    """Every line that is drawn goes through here."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, made harmless."""
        return [Segment(harmless(text), style, control) for text, style, control in segments]


def fault() -> Text:
    """What has just been raised, for a report: without the values of variables, as these have octets of the capture."""
    return Text("\n".join((FAULT, *map(harmless, traceback.format_exc().split("\n")))))
