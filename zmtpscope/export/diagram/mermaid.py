"""Format a diagram as Mermaid text (`sequenceDiagram`), which GitHub, GitLab and others draw in Markdown pages.

Text from peers cannot become Mermaid syntax: all characters but letters, digits and some ASCII punctuation are written
as `#NNN;` (mermaid.js.org, "Entity codes to escape characters").
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from zmtpscope.export.clock import Clock
from zmtpscope.export.diagram.events import ATTEMPT, CLOSING, OPENING
from zmtpscope.export.diagram.layout import FOLD, PAUSE, REST, Diagram, Row

MAX_TEXT = 50_000
"""Characters that Mermaid draws (`maxTextSize`)."""

WIDEST = 60

MAX_LINES = 8

ARROWS = {OPENING: "-->>", CLOSING: "-->>", ATTEMPT: "--x"}
"""TCP events are dotted, with a cross for a failed attempt. All other arrows are solid."""

_ESCAPED = re.compile(r"""[^A-Za-z0-9 .,:_/()+="'|…-]|(?<=[pP]):""")
"""`wrap:` at the start of a label is a directive."""


def mermaid_lines(diagram: Diagram, clock: Clock) -> Iterator[str]:
    """Yield lines of at most `MAX_TEXT` characters in total."""
    yield "sequenceDiagram\n"
    size = len("sequenceDiagram\n")
    last = len(diagram.lifelines)
    for number, line in enumerate(diagram.lifelines, 1):
        text = f"    participant p{number} as {_label([line.name, *line.about])}\n"
        size += len(text)
        yield text
    for place, row in enumerate(diagram.rows):
        text = f"    {_statement(row, clock, len(diagram.connections) > 1, last)}\n"
        rest = f"    Note over p1,p{last}: {len(diagram.rows) - place} more rows are left out, the limit of Mermaid\n"
        if size + len(text) > MAX_TEXT - len(rest):
            yield rest
            return
        size += len(text)
        yield text


def _statement(row: Row, clock: Clock, many: bool, last: int) -> str:
    """Format an arrow or a note.

    `many`: there are several connections, so their numbers are written. `last` is the index of the last lifeline.
    """
    if row.kind in (PAUSE, REST):
        return f"Note over p1,p{last}: {_label([row.what])}" if last > 1 else f"Note over p1: {_label([row.what])}"
    conn = f" c{row.conn}" if many and row.conn is not None else ""
    time = clock(row.time).strip()
    if row.is_arrow:
        label = _label([f"{time}{conn} {row.what}", row.content])
        return f"p{row.source + 1}{ARROWS.get(row.kind, '->>')}p{row.target + 1}: {label}"
    more = "… " if row.kind == FOLD else ""
    over = f"p{row.source + 1}" + (f",p{row.target + 1}" if row.target > row.source else "")
    return f"Note over {over}: {_label([f'{time}{conn} {more}{row.what}', row.content])}"


def _label(parts: Iterable[str]) -> str:
    """Join texts as lines of a label, wrapping long ones."""
    lines: Sequence[str] = [line for part in parts for line in textwrap.wrap(part, WIDEST)]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], "…"]
    return "<br/>".join(map(_escaped, lines))


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"#{ord(match[0])};", text)
