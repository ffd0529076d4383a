"""Messages to which the other side has not subscribed, or of a group that it has not joined (conformance.md 1.5,
ZMTP-SUB-05 and ZMTP31-GROUP-06).

What is under way makes no such message: a second is allowed behind a cancel, and for a subscription that was captured
late. And as a packet that was captured late holds its side back, such a message waits until something later by a second
was read of the side that subscribes, or the connection is over, and nothing of it is missing. In 1.0, where subscribers
filter and publishers do not, sides do not say what they are, so nothing is said of them here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.dissect.durations import SECOND
from zmtpscope.dissect.findings.row_rules import note_on
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.batch import Int64, MessageRun
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.topics import Change, Unmatched
from zmtpscope.zmtp.socket_types import may_meet

MOST_WAITING = 64
"""So many messages wait; no more are remembered then, nor counted."""
MOST_CANCELLED = 64
"""So many cancels are remembered; where there were more within a second, nothing is said of that."""
HEAD = 256
"""Octets of a message, and of a name, that are compared; of what is longer these."""


class Waiting(NamedTuple):
    """A message that nothing in force matched, and its first octets."""

    note: Note
    head: bytes


class Cancelled(NamedTuple):
    """What was in force until `time`."""

    name: bytes
    time: int


class Unsubscribed:
    """What is sent to one side of a connection."""

    unsure_until = 0
    """Some cancels are not remembered: until then what they were of may come."""

    def __init__(self, view: ConnectionView, *, are_groups: bool) -> None:
        self.view = view
        self.are_groups = are_groups
        """Messages are sent to groups."""
        self.waiting: list[Waiting] = []
        self.cancelled: list[Cancelled] = []

    def feed(self, steps: Iterable[Change | Unmatched]) -> list[Note]:
        """Take what changed and what nothing matched, in order: what there is to say."""
        notes: list[Note] = []
        for step in steps:
            if isinstance(step, Unmatched):
                self._take(step.run, step.rows)
            else:
                notes += self._change(step)
        return notes

    def end(self, ordinal: int, ceased: int | None) -> list[Note]:
        """The connection ends with the segment `ordinal`, or its capture does, at the time `ceased`, and nothing of it
        is missing."""
        ended = [each for each in self.waiting if ceased is None or ceased - each.note.at.time > SECOND]
        return [each.note._replace(decided=ordinal) for each in ended]

    def _change(self, change: Change) -> list[Note]:
        """The side was read up to the time of this change, and it is in force from now on."""
        name, late = change.topic, []
        if self.waiting:
            late = [each for each in self.waiting if change.time - each.note.at.time > SECOND]
            self.waiting = [each for each in self.waiting if change.time - each.note.at.time <= SECOND]
        if change.entering:  # of what is not known anything may be
            self.waiting = [each for each in self.waiting if name is not None and not self._matches(each.head, name)]
        elif name is not None:
            self.cancelled.append(Cancelled(name[:HEAD], change.time))
            if len(self.cancelled) > MOST_CANCELLED:
                self.unsure_until = self.cancelled.pop(0).time + SECOND
        if not self.view.is_whole_until(change.ordinal):
            return []
        return [each.note._replace(decided=change.ordinal) for each in late]

    def _take(self, run: MessageRun, rows: Int64) -> None:
        """Remember messages that nothing in force matched."""
        if run.confidence != "proven" or not may_meet(run.socket_type or "", run.peer_socket_type or ""):
            return
        id_ = "ZMTP31-GROUP-06" if self.are_groups else "ZMTP-SUB-05"
        for row in rows.tolist():
            if len(self.waiting) >= MOST_WAITING:
                return
            head, time = run.head(int(run.first[row]), HEAD) or b"", int(run.times[row])
            if time > self.unsure_until and not self._was_cancelled(head, time):
                self.waiting.append(Waiting(note_on(run, row, run.stream.side or 0, id_), head))

    def _was_cancelled(self, head: bytes, time: int) -> bool:
        """Whether what was in force a second ago matches."""
        return any(time - each.time <= SECOND and self._matches(head, each.name) for each in self.cancelled)

    def _matches(self, head: bytes, name: bytes) -> bool:
        return head == name if self.are_groups else head.startswith(name[:HEAD])
