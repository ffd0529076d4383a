"""Observe the messages of each side: sizes, times, the first one (perhaps its identity), the last ones, and turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import ObservedMessages, ObservedRhythm, ObservedSizes
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, Run
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import MAX_LAST, MAX_RECENT, RunSummary, Turn
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.records import from_text

MAX_TURNS = 64
"""First turns of a side, which show its habits."""
PROMPT = 8
"""A turn that begins an exchange waited longer than this multiple of the other side's delay."""


COLUMNS_COST = 24
"""Memory in octets of a message in `RunSummary.last`."""


class Came(NamedTuple):
    """Times of a side's messages: `before` are the last ones before the batch, and `runs` those of the batch."""

    before: tuple[int, ...]
    runs: Sequence[Run]

    def between(self, start: int, stop: int) -> list[int]:
        """Return the times (ns) of the last messages from `start` until `stop`, at most `MAX_RECENT`."""
        times = self.before
        for run in self.runs:
            if run.summary.messages <= MAX_RECENT:
                times += run.summary.recent
            else:
                ends = run.messages.time_ends
                times += (*ends[(ends > start) & (ends < stop)][-MAX_RECENT:].tolist(),)
        return sorted([time for time in times if start < time < stop])[-MAX_RECENT:]


class SendingObserver(Observer):
    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._side: int | None = None
        """The side that sent the last message."""
        self._last_ns = 0
        self._delay: int | None = None
        """Time (ns) from the other side's last message to this turn, if any."""

    def rows(self, rows: Rows) -> None:
        sides = self.observed.sides
        before = [() if side.rhythm is None else side.rhythm.recent for side in sides]
        for number, side in enumerate(sides):
            came = Came(before[1 - number], rows.runs[1 - number])
            for run in rows.in_order(number):
                summary = run.summary
                _note_sizes(side, summary, rows.files)
                if side.rhythm is None and side.is_fallback and _is_identity(run.messages, side.identity):
                    packet = int(run.table.packet_ends[run.low])
                    side.phantom = Moment.of_packet(summary.first_end_ns, packet, rows.files)
                _note_rhythm(side, run, summary, came, rows.files)
                if not run.sender.source:  # other offsets refer to decrypted boxes
                    _note_last(side, summary, rows.files)
        if not all(side.rhythm is not None and side.rhythm.turns >= MAX_TURNS for side in sides):
            self._follow_turns(rows.turns)

    def _follow_turns(self, turns: Sequence[Turn]) -> None:
        """Count, among the first turns of each side, those that the other side answered."""
        last, delay_before = self._side, self._delay
        for side, _, _, first_ns, last_ns in turns:
            if side != last:
                delay = None if last is None else first_ns - self._last_ns
                before = self.observed.sides[1 - side].rhythm
                if delay is not None and delay_before is not None and before is not None and before.turns < MAX_TURNS:
                    before.turns += 1
                    before.openings += delay_before > PROMPT * delay
                last, delay_before = side, delay
            self._last_ns = last_ns
        self._side, self._delay = last, delay_before

    def finish(self, ordinal: int) -> list[DerivedTable]:
        for side in self.observed.sides:
            if side.last_messages is not None and side.last_outage is None:
                side.last_messages = None
        return []


NOWHERE = Moment(0, None, None)


def _note_sizes(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    before = summary.largest_before if side.sizes is None else max(side.sizes.largest, summary.largest_before)
    last = Moment.of_packet(summary.last_end_ns, summary.last_packet, files)
    side.sizes = ObservedSizes(last, summary.last_ns, summary.largest_last, before)


def _note_rhythm(side: ObservedSide, run: Run, summary: RunSummary, other: Came, files: Sequence[str | None]) -> None:
    rhythm = side.rhythm
    if rhythm is None:
        rhythm = side.rhythm = ObservedRhythm(summary.first_end_ns, NOWHERE)
    else:
        _note_pause(rhythm, summary.first_end_ns - rhythm.last.ns, rhythm.last, other)
    if summary.longest_pause > rhythm.second_ns:
        row = run.low + summary.longest_from
        since = Moment.of_packet(int(run.table.time_ends[row]), int(run.table.packet_ends[row]), files)
        _note_pause(rhythm, summary.longest_pause, since, other)
        rhythm.second_ns = max(rhythm.second_ns, summary.second_pause)
    rhythm.count += summary.messages
    rhythm.recent = (rhythm.recent + summary.recent)[-MAX_RECENT:]
    rhythm.last = Moment.of_packet(summary.last_end_ns, summary.last_packet_end, files)


def _note_pause(rhythm: ObservedRhythm, pause: int, since: Moment, other: Came) -> None:
    if pause > rhythm.longest_ns:
        rhythm.second_ns, rhythm.longest_ns = rhythm.longest_ns, pause
        asked = other.between(since.ns, since.ns + pause)
        rhythm.longest_from, rhythm.asked = since, len(asked)
        rhythm.asked_for_ns = since.ns + pause - asked[0] if asked else 0
    else:
        rhythm.second_ns = max(rhythm.second_ns, pause)


def _is_identity(run: MessageTable, identity: str | None) -> bool:
    """Whether the first message of a side is a single frame with the octets of its identity."""
    octets = from_text(identity or "")
    is_one = run.last[0] == run.first[0] and run.sizes[0] == len(octets)
    return bool(is_one and run.complete[0] and run.head(0) == octets)


def _note_last(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    known, octets, count = side.last_messages, summary.last, summary.messages
    if known is not None:
        count += len(known.octets) // COLUMNS_COST if known.are_all else MAX_LAST
        octets = (known.octets + octets)[-MAX_LAST * COLUMNS_COST :]
    side.last_messages = ObservedMessages(octets, files, count <= MAX_LAST)
