"""Place the events of a diagram, for all output formats: lifelines side by side, rows in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from zmtpscope.export.diagram.events import ARROWS, Event, closings, opening
from zmtpscope.export.diagram.folding import Fold, Folding, Step
from zmtpscope.export.diagram.lifelines import MAX_LIFELINES, Lifeline, Lifelines, name_all
from zmtpscope.export.diagram.repeats import Key, Thinning
from zmtpscope.export.diagram.sequence import EventSequence
from zmtpscope.records import SECOND
from zmtpscope.words import counted, duration

FOLD, PAUSE, REST = "fold", "pause", "rest"
"""Kinds of rows that are no events: a fold, a pause, and a summary of omitted events at the end."""

FEW_CONNECTIONS = 3
"""Number of connections up to which handshakes are drawn in full."""

SHORTEST_PAUSE = SECOND // 10
PAUSE_SHARE = 20
"""A pause takes at least one part in this many of the diagram's time."""

ALIKE = (8, 4, 2)
"""Events of a kind to draw between two peers if there are too many steps: the first number that makes the diagram small
enough, or the last."""

MAX_NAMES = 4


class Row(NamedTuple):
    """A row of the diagram: an arrow, a note or a fold.

    `source` and `target` are indexes of lifelines: sender and receiver of an arrow, otherwise the first and the last
    lifeline concerned. `until` differs from `time` if the row covers a period.
    """

    kind: str
    time: int
    until: int
    source: int
    target: int
    what: str
    content: str = ""
    packet: str = ""
    conn: int | None = None
    severity: str = ""

    @property
    def is_arrow(self) -> bool:
        return self.kind in ARROWS


@dataclass(frozen=True)
class Diagram:
    """The lifelines and rows of a diagram. `left_out` describes omitted events, or is ""."""

    lifelines: list[Lifeline]
    rows: list[Row]
    left_out: str = ""

    @property
    def connections(self) -> set[int]:
        return {row.conn for row in self.rows if row.conn is not None}


def layout(sequence: EventSequence, most: int, *, whole: bool) -> Diagram:
    """Lay out at most `most` arrows and notes.

    `whole`: complete connections were selected, so their handshakes can be drawn; otherwise each connection opens with
    one arrow.
    """
    in_full = whole and len(sequence.connections) <= FEW_CONNECTIONS
    steps = _with_ends_of_connections(sequence, in_full=in_full)
    every = dict.fromkeys(event.ends for step in steps for event in _events(step) if event.ends is not None)
    lines = Lifelines(sequence.connections.values(), every)
    if sequence.folds:
        steps = _folded(steps, lines, most)
    drawn, rest = steps[:most], steps[most:]
    order = _order(drawn, lines)
    if len(order) > MAX_LIFELINES:
        kept = set(order[:MAX_LIFELINES])
        rest += [step for step in drawn if not _lines_of(step, lines) <= kept]
        drawn = [step for step in drawn if _lines_of(step, lines) <= kept]
    shown = order[:MAX_LIFELINES]
    if not shown:
        return Diagram([], [])
    name_all(shown)
    places = {line: place for place, line in enumerate(shown)}
    rows = [_row(step, lines, places) for step in drawn]
    left_out = _left_out(rest, sequence, len(order) - len(shown))
    if left_out:
        until = max(sequence.until or 0, *(_until(step) for step in rest), 0)
        rows.append(Row(REST, until, until, 0, max(0, len(shown) - 1), left_out))
    return Diagram(shown, list(_with_pauses(rows)), left_out)


def _with_ends_of_connections(sequence: EventSequence, *, in_full: bool) -> list[Step]:
    """Add the opening and the end of each connection to the events; return all in order of time.

    `in_full`: draw handshakes; otherwise one arrow opens a connection.
    """
    before: list[Step] = []
    behind: list[Step] = []
    short = set()
    """Connections that open with one arrow."""
    for conn, values in sequence.connections.items():
        is_short = not in_full and values["handshake"] == "complete" and values["opened_by"] is not None
        if is_short:
            short.add(conn)
        before.append(opening(values, short=is_short))
        behind += closings(values)
    steps = [step for step in sequence.steps if not (isinstance(step, Event) and _is_in(short, step))]
    return sorted([*before, *steps, *behind], key=lambda step: step.time)


def _is_in(short: set[int], event: Event) -> bool:
    """Whether an event belongs to the handshake of a connection in `short`.

    Such connections open with one arrow in place of the handshake.
    """
    return event.is_handshake and event.ends is not None and event.ends.conn in short


def _folded(steps: Iterable[Step], lines: Lifelines, most: int) -> list[Step]:
    """Fold repeated events between peers, even over several connections, such as connection attempts.

    If more than `most` events and lines remain, fewer repeated events are drawn.
    """

    def key_of(event: Event) -> Key:
        sides = () if event.ends is None else tuple(lines.of(event.ends, side) for side in (0, 1))
        return sides, event.side, event.kind, event.name

    folding = Folding()
    for step in steps:
        if isinstance(step, Fold):
            folding.feed_fold(step)
        else:
            folding.feed(step, key_of(step))
    folding.finish()
    found = folding.steps
    for alike in ALIKE:
        if len(found) <= most:
            break
        thinning = Thinning(key_of, alike)
        thinned = [drawn for step in folding.steps for drawn in thinning.feed(step)]
        found = sorted([*thinned, *thinning.finish()], key=lambda step: step.time)
    return found


def _events(step: Step) -> tuple[Event, ...]:
    """Return the events that a step of the diagram stands for: one event, or a repeating cycle."""
    return step.cycle if isinstance(step, Fold) else (step,)


def _lines_of(step: Step, lines: Lifelines) -> set[Lifeline]:
    ends = [event.ends for event in _events(step) if event.ends is not None]
    return {lines.of(each, side) for each in ends for side in (0, 1)}


def _until(step: Step) -> int:
    return step.until if isinstance(step, Fold) else step.time


def _order(steps: Iterable[Step], lines: Lifelines) -> list[Lifeline]:
    """Return the lifelines in order of their first messages, so that forwarded messages go from left to right.

    Lifelines without messages follow.
    """
    messages: dict[Lifeline, None] = {}
    others: dict[Lifeline, None] = {}
    for step in steps:
        for event in _events(step):
            if event.ends is None:
                continue
            found = messages if event.kind in ("message", "datagram") else others
            side = event.side or 0
            found.update(dict.fromkeys((lines.of(event.ends, side), lines.of(event.ends, 1 - side))))
    return [*messages, *(line for line in others if line not in messages)]


def _row(step: Step, lines: Lifelines, places: Mapping[Lifeline, int]) -> Row:
    about = [places[line] for line in _lines_of(step, lines)] or [*places.values()] or [0]
    first, last = min(about), max(about)
    if isinstance(step, Fold):
        conns = {event.ends.conn for event in step.cycle if event.ends is not None}
        conn = conns.pop() if len(conns) == 1 else None
        return Row(FOLD, step.time, step.until, first, last, _words_of_fold(step), conn=conn)
    if step.kind in ARROWS and step.ends is not None and step.side is not None:
        first, last = (places[lines.of(step.ends, side)] for side in (step.side, 1 - step.side))
    conn = None if step.ends is None else step.ends.conn
    description = (step.what, step.content, step.packet, conn, step.severity)
    return Row(step.kind, step.time, step.time, first, last, *description)


def _words_of_fold(fold: Fold) -> str:
    """Describe repeated events: `118 more messages in 2.3 s`, or for cycles `49 more times the 2 above in 2.3 s`."""
    took = f" in {duration(fold.until - fold.time)}" if fold.until > fold.time else ""
    length = len(fold.cycle)
    if length > 1 and fold.in_order and fold.events % length == 0:
        times = fold.events // length
        return f"{counted(times, 'more time')} the {length} above{took}"
    names = [_more(count, name) for name, count in fold.names.most_common(MAX_NAMES)]
    others = fold.events - sum(count for _, count in fold.names.most_common(MAX_NAMES))
    return ", ".join([*names, *([f"{others} others"] if others else [])]) + took


def _more(count: int, name: str) -> str:
    """Count events: `118 more messages`, `7 more PING`. Protocol names have no plural."""
    return f"{count} more {name}" + ("s" if name.islower() and count > 1 else "")


def _left_out(rest: Iterable[Step], sequence: EventSequence, peers: int) -> str:
    names = sequence.left_out.copy()
    for step in rest:
        names.update(step.names if isinstance(step, Fold) else [step.name])
    messages = sum(count for name, count in names.items() if name.endswith("message"))
    others = names.total() - messages
    words = [counted(count, noun) for count, noun in ((messages, "message"), (others, "other event")) if count]
    words += [counted(peers, "peer")] if peers else []
    return f"{' and '.join(words)} more are left out" if words else ""


def _with_pauses(rows: list[Row]) -> Iterator[Row]:
    if not rows:
        return
    shortest = max(SHORTEST_PAUSE, (rows[-1].until - rows[0].time) // PAUSE_SHARE)
    now = rows[0].time
    for row in rows:
        if row.kind != REST and row.time - now >= shortest:
            yield Row(PAUSE, now, row.time, 0, 0, f"{duration(row.time - now)} later")
        yield row
        now = max(now, row.until)
