"""Diagrams of captures, and of traffic that tests make up."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from tests.readings import CAPTURES
from tests.traffic import Capture, Conversation, together
from zmtpscope.capture import open_captures
from zmtpscope.dissect import Analyser, Options
from zmtpscope.export.clock import Clock
from zmtpscope.export.diagram.layout import Diagram, layout
from zmtpscope.export.diagram.mermaid import mermaid_lines
from zmtpscope.export.diagram.sequence import EventSequence
from zmtpscope.export.diagram.svg import svg_lines
from zmtpscope.export.diagram.text import Look, text_lines
from zmtpscope.export.styles import plain

OPTIONS = Options()


def sequence_of(capture: Any, **given: Any) -> EventSequence:
    sequence = EventSequence(OPTIONS, **given)
    for batch in Analyser(OPTIONS).run(capture):
        sequence.feed(batch)
    sequence.finish()
    return sequence


def of_file(name: str, most: int = 1000, **given: Any) -> Diagram:
    """The diagram of captures/`name`."""
    return layout(sequence_of(open_captures([str(CAPTURES / name)]), **given), most, whole=True)


def of_traffic(*conversations: Conversation, most: int = 1000, **given: Any) -> Diagram:
    return layout(sequence_of(Capture(together(*conversations)), **given), most, whole=True)


def as_text(diagram: Diagram, width: int | None = None) -> str:
    """Draw for a terminal of this width, or for a pipe."""
    return "".join(text_lines(diagram, Look(_clock(diagram), plain, width)))


def arrows(diagram: Diagram) -> list[tuple[str, str, str]]:
    names = [line.name for line in diagram.lifelines]
    return [(names[row.source], names[row.target], row.what) for row in diagram.rows if row.is_arrow]


def as_mermaid(diagram: Diagram) -> list[str]:
    return "".join(mermaid_lines(diagram, _clock(diagram))).splitlines()


def as_svg(diagram: Diagram) -> ElementTree.Element:
    """The picture, as an XML parser reads it."""
    return ElementTree.fromstring("".join(svg_lines(diagram, _clock(diagram))))


def _clock(diagram: Diagram) -> Clock:
    start = diagram.rows[0].time
    return Clock("r", lambda: start)
