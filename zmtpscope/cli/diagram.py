"""`zmtpscope diagram`: events between peers, in order, as a sequence diagram."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zmtpscope.cli.captures import Run, read_through
from zmtpscope.cli.filters import FILTER, given_choice
from zmtpscope.cli.output import COLOR, TIME_FORM, VERBOSE, paint_of
from zmtpscope.cli.parameters import READ_FILES, SHOW_SECRETS, command, flag, option, options
from zmtpscope.cli.terminal import already_exists, notify, shows_unicode, terminal_width
from zmtpscope.option_texts import FULL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zmtpscope.conversations.choosing import Choosing, Chosen
    from zmtpscope.conversations.request import RequestHops
    from zmtpscope.dissect import Batch
    from zmtpscope.export.diagram.layout import Diagram
    from zmtpscope.export.diagram.sequence import EventSequence

FORM_BY_ENDING = {".txt": "text", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}
"""Format by file suffix, unless `--format` is given."""

USUAL_ARROWS = 100


@command(short_help="Draw a sequence diagram of the traffic between peers.")
@options(*READ_FILES, FILTER, TIME_FORM, COLOR, VERBOSE, SHOW_SECRETS)
@option(
    "--conn",
    "conns",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Draw connection N (N of c1, c2 ... in the output of read); repeatable.",
)
@option("--peer", metavar="IDENTITY", help="Draw the peer with this identity, on all of its connections.")
@option(
    "--request",
    type=click.IntRange(1),
    metavar="PACKET",
    help="Draw the request that starts in this packet and its reply, over all hops.",
)
@option("--topic", metavar="TOPIC", help="Draw the messages published on exactly TOPIC.")
@option(
    "--arrows",
    type=click.IntRange(1, 5000),
    default=USUAL_ARROWS,
    metavar="N",
    help=f"Draw at most N arrows and notes: repeats become counts, and later events are left out "
    f"[default: {USUAL_ARROWS}].",
)
@flag("--all", "unfolded", help="Also draw repeated messages, heartbeats and connection attempts.")
@option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "svg"]),
    help="Format of the diagram [default: by the ending of FILE, otherwise text].",
)
@option(
    "-o",
    "target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to FILE; its ending sets the format: .txt, .mmd or .svg.",
)
@flag("--force", help="Overwrite FILE if it exists.")
def diagram(**given: Any) -> int:
    """Draw a sequence diagram of capture FILEs: a lifeline for each peer, an arrow for each greeting, command and
    message, and TCP opens and closes, gaps and findings in between. Select connections, a peer, a topic or a filter if
    the capture is large. Repeats are folded."""
    given["form"] = _form(given)
    chosen = given_choice(given, given["conns"])
    names = ("conns", "peer", "topic", "filter")
    if given["request"] is not None and any(given[name] not in (None, ()) for name in names):
        raise click.UsageError("--request cannot be combined with --conn, --peer, --topic and -Y")
    # created at the first batch, when the analyser's options are known
    parts: list[tuple[Choosing | RequestHops, EventSequence]] = []

    def feed(run: Run, batch: Batch) -> None:
        if not parts:
            parts.append(_parts(given, chosen, run))
        choosing, sequence = parts[0]
        sequence.feed(choosing.batch(batch))

    def write(run: Run) -> None:
        if not parts:
            return
        from zmtpscope.export.diagram.layout import layout

        sequence = parts[0][1]
        sequence.finish()
        drawn = layout(sequence, given["arrows"], whole=chosen.is_whole and given["request"] is None)
        _write(drawn, given, run)
        if not drawn.rows and run.analyser.summary.connections:
            notify("zmtpscope: no event matches the selection -> zmtpscope read -q prints a summary of the capture")
        if drawn.left_out:
            notify(f"zmtpscope: {drawn.left_out} -> --arrows draws more; --conn, --peer, --topic and -Y select")

    return read_through({**given, "body": FULL}, feed, write)


def _form(given: dict[str, Any]) -> str:
    """Return the format of the diagram. Raises `click.UsageError` for an unknown format, or if the output
    file exists."""
    target: Path | None = given["target"]
    if target is not None and target.exists() and not given["force"]:
        raise already_exists(target)
    form: str | None = given["form"]
    if form is None and target is not None:
        form = FORM_BY_ENDING.get(target.suffix.lower())
        if form is None:
            endings = ", ".join(FORM_BY_ENDING)
            raise click.UsageError(f"{target}: add --format, or name a file that ends in one of {endings}")
    return form or "text"


def _parts(given: dict[str, Any], chosen: Chosen, run: Run) -> tuple[Choosing | RequestHops, EventSequence]:
    from zmtpscope.conversations.choosing import Choosing
    from zmtpscope.conversations.request import RequestHops
    from zmtpscope.export.diagram.sequence import EventSequence

    choosing: Choosing | RequestHops
    if given["request"] is not None:
        choosing = RequestHops(given["request"], run.options)
    else:
        choosing = Choosing(chosen, run.options, run.first_time)
    return choosing, EventSequence(run.options, chat=given["verbose"], folds=not given["unfolded"])


def _write(drawn: Diagram, given: dict[str, Any], run: Run) -> None:
    """Write the diagram to standard output, or to a file that appears only when it is complete."""
    from zmtpscope.export.files import write_file

    lines = _lines(drawn, given, run)
    target: Path | None = given["target"]
    if target is None:
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    write_file(target, "".join(lines).encode())


def _lines(drawn: Diagram, given: dict[str, Any], run: Run) -> Iterator[str]:
    from zmtpscope.export.clock import Clock

    clock = Clock(given["time_form"], run.first_time)
    if given["form"] == "mermaid":
        from zmtpscope.export.diagram.mermaid import mermaid_lines

        return mermaid_lines(drawn, clock)
    if given["form"] == "svg":
        from zmtpscope.export.diagram.svg import svg_lines

        return svg_lines(drawn, clock)
    from zmtpscope.export.diagram.text import Look, text_lines
    from zmtpscope.export.styles import plain

    if given["target"] is not None:
        return text_lines(drawn, Look(clock, plain))
    return text_lines(drawn, Look(clock, paint_of(given), terminal_width(), shows_unicode()))
