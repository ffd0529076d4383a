"""Facts about all messages of each side: frame sizes, times, the first message (which may be its identity), and the
last ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedMessages, ObservedSide, ObservedSizes
from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, first_order
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import MAX_LAST, MAX_RECENT, RunSummary
from zmtpscope.diagnosis.observers.turns import Turns
from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.records import from_text

COLUMNS_COST = 24
"""Octets of memory for a message in `RunSummary.last`."""


class Came(NamedTuple):
    """Times of messages of a side: the last times `before` the current block, and the `runs` of the block."""

    before: tuple[int, ...]
    runs: Sequence[MessageRun]

    def between(self, start: int, stop: int) -> int:
        """Return the number of messages between two times."""
        of_block = sum(int(((run.time_ends > start) & (run.time_ends < stop)).sum()) for run in self.runs)
        return sum(start < time < stop for time in self.before) + of_block


class SendingObserver(Observer):
    """Observes the messages of one connection."""

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._turns = Turns()

    def rows(self, rows: Rows) -> None:
        before = [() if side.rhythm is None else side.rhythm.recent for side in self.observed.sides]
        for number, side in enumerate(self.observed.sides):
            runs, summaries, other = rows.sides[number], rows.summaries[number], 1 - number
            came = Came(before[other], rows.sides[other])
            pairs = list(zip(runs, summaries, strict=True))
            if len(pairs) > 1:
                pairs.sort(key=_first_order)
            for run, summary in pairs:
                _note_sizes(side, summary, rows.files)
                if side.rhythm is None and side.is_fallback and _is_identity(run, side.identity):
                    side.phantom = Moment.of_packet(summary.first_end_ns, int(run.packet_ends[0]), rows.files)
                _note_rhythm(side, run, summary, came, rows.files)
                if not run.source:  # other offsets refer to decrypted boxes
                    _note_last(side, summary, rows.files)
        self._turns.follow(rows, [side.rhythm for side in self.observed.sides])

    def finish(self, ordinal: int) -> list[DerivedTable]:
        for side in self.observed.sides:
            if side.last_outage is None:
                side.last_messages = None
        return []


def _first_order(pair: tuple[MessageRun, RunSummary]) -> int:
    return first_order(pair[0])


def _note_sizes(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    before = summary.largest_before if side.sizes is None else max(side.sizes.largest, summary.largest_before)
    last = Moment.of_packet(summary.last_end_ns, summary.last_packet, files)
    side.sizes = ObservedSizes(last, summary.last_ns, summary.largest_last, before)


def _note_rhythm(
    side: ObservedSide, run: MessageRun, summary: RunSummary, other: Came, files: Sequence[str | None]
) -> None:
    rhythm = side.rhythm
    if rhythm is None:
        rhythm = side.rhythm = ObservedRhythm(summary.first_end_ns, Moment(summary.first_end_ns, None, None))
    _note_pause(rhythm, summary.first_end_ns - rhythm.last.ns, rhythm.last, other)
    if summary.longest_pause > rhythm.second_ns:
        ends = run.time_ends
        pauses = ends[1:] - ends[:-1]
        place = int(pauses.argmax())
        since = Moment.of_packet(int(ends[place]), int(run.packet_ends[place]), files)
        _note_pause(rhythm, summary.longest_pause, since, other)
        if len(pauses) > 1:
            rhythm.second_ns = max(rhythm.second_ns, int(np.partition(pauses, -2)[-2]))
    rhythm.count += summary.messages
    rhythm.recent = (rhythm.recent + summary.recent)[-MAX_RECENT:]
    rhythm.last = Moment.of_packet(summary.last_end_ns, summary.last_packet_end, files)


def _note_pause(rhythm: ObservedRhythm, pause: int, since: Moment, other: Came) -> None:
    if pause > rhythm.longest_ns:
        rhythm.second_ns, rhythm.longest_ns = rhythm.longest_ns, pause
        rhythm.longest_from, rhythm.asked = since, min(other.between(since.ns, since.ns + pause), MAX_RECENT)
    else:
        rhythm.second_ns = max(rhythm.second_ns, pause)


def _is_identity(run: MessageRun, identity: str | None) -> bool:
    """Whether the first message of a run is one frame that equals the identity."""
    octets = from_text(identity or "")
    is_one = run.last[0] == run.first[0] and run.sizes[0] == len(octets)
    return bool(is_one and run.complete[0] and run.head(0) == octets)


def _note_last(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    known, octets, count = side.last_messages, summary.last, summary.messages
    if known is not None:
        count += len(known.octets) // COLUMNS_COST if known.are_all else MAX_LAST
        octets = (known.octets + octets)[-MAX_LAST * COLUMNS_COST :]
    side.last_messages = ObservedMessages(octets, files, count <= MAX_LAST)
