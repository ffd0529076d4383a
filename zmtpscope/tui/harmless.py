"""Remove control characters from pasted text and error texts. Texts from the worker contain none."""

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
    """Replace characters that could control the terminal by others of the same width."""
    if safe_text(text) == text:
        return text
    return "".join(each if safe_text(each) == each else REPLACEMENT * cell_len(each) for each in text)


class HarmlessLines(LineFilter):
    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [Segment(harmless(text), style, control) for text, style, control in segments]


def fault() -> Text:
    """Format the current exception without values of variables, which may contain octets of the capture."""
    return Text("\n".join((FAULT, *map(harmless, traceback.format_exc().split("\n")))))
