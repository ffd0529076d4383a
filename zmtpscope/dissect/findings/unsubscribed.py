"""Find messages that match no subscription or group of the receiver (conformance.md, ZMTP-SUB-05 and ZMTP31-GROUP-06).

Messages may be in flight: a second is allowed after a cancel, and for a subscription that was captured late. A late
packet delays its side, so a message waits until the subscribing side was read for a second longer without a gap, or
until the connection ends. ZMTP 1.0 is skipped: its subscribers filter, and its sides do not announce their types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zmtpscope.dissect.findings.row_rules import note_on
from zmtpscope.dissect.findings.view import ConnectionView
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.notes import Note
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.dissect.records.topics import Change, Unmatched
from zmtpscope.records import SECOND
from zmtpscope.zmtp.socket_types import may_meet

MAX_WAITING = 64
"""Messages that wait for a decision; later ones are not counted."""
MAX_CANCELLED = 64
"""Cancels to remember. With more within a second, messages of that time are not checked."""
HEAD = 256
"""Octets of a message, topic or group that are compared."""


class Waiting(NamedTuple):
    note: Note
    head: bytes


class Cancelled(NamedTuple):
    """A subscription or membership that was cancelled at `time`."""

    name: bytes
    time: int


class Unsubscribed:
    """Finds messages to one side that match none of its subscriptions or groups."""

    unsure_until = 0
    """Time until which forgotten cancels may explain messages."""

    def __init__(self, view: ConnectionView, *, are_groups: bool) -> None:
        self.view = view
        self.are_groups = are_groups
        self.waiting: list[Waiting] = []
        self.cancelled: list[Cancelled] = []

    def feed(self, steps: Iterable[Change | Unmatched]) -> list[Note]:
        """Process subscription changes and unmatched messages in order; return findings."""
        notes: list[Note] = []
        for step in steps:
            if isinstance(step, Unmatched):
                self._take(step.run, step.rows)
            else:
                notes += self._change(step)
        return notes

    def end(self, ordinal: int, ceased: int | None) -> list[Note]:
        """Return the findings that nothing can disprove any more, at the end of a connection without gaps.

        The segment `ordinal` ends the connection, or the capture ends at the time `ceased` (ns).
        """
        ended = [each for each in self.waiting if ceased is None or ceased - each.note.at.time > SECOND]
        return [each.note._replace(decided=ordinal) for each in ended]

    def _change(self, change: Change) -> list[Note]:
        """Apply a subscription, join or cancel; return findings about messages that are more than a second older."""
        name, late = change.topic, []
        if self.waiting:
            late = [each for each in self.waiting if change.time - each.note.at.time > SECOND]
            self.waiting = [each for each in self.waiting if change.time - each.note.at.time <= SECOND]
        if change.entering:  # an unknown topic may match anything
            self.waiting = [each for each in self.waiting if name is not None and not self._matches(each.head, name)]
        elif name is not None:
            self.cancelled.append(Cancelled(name[:HEAD], change.time))
            if len(self.cancelled) > MAX_CANCELLED:
                self.unsure_until = self.cancelled.pop(0).time + SECOND
        if not self.view.is_whole_until(change.ordinal):
            return []
        return [each.note._replace(decided=change.ordinal) for each in late]

    def _take(self, run: MessageTable, rows: Int64) -> None:
        if run.sender.confidence != "proven" or not may_meet(run.socket_type or "", run.peer_socket_type or ""):
            return
        id_ = "ZMTP31-GROUP-06" if self.are_groups else "ZMTP-SUB-05"
        for row in rows.tolist():
            if len(self.waiting) >= MAX_WAITING:
                return
            head, time = run.head(int(run.first[row]), HEAD) or b"", int(run.times[row])
            if time > self.unsure_until and not self._was_cancelled(head, time):
                self.waiting.append(Waiting(note_on(run, row, run.stream.side or 0, id_), head))

    def _was_cancelled(self, head: bytes, time: int) -> bool:
        return any(time - each.time <= SECOND and self._matches(head, each.name) for each in self.cancelled)

    def _matches(self, head: bytes, name: bytes) -> bool:
        return head == name if self.are_groups else head.startswith(name[:HEAD])
