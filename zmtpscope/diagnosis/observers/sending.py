"""Facts about the messages of each side: sizes, rhythm, the first one (perhaps its identity), the last ones, turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection, ObservedSide
from zmtpscope.diagnosis.observers.observed_facts import ObservedMessages, ObservedRhythm, ObservedSizes
from zmtpscope.diagnosis.observers.observer import DerivedTable, Observer, Rows, first_order
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import MAX_LAST, MAX_RECENT, RunSummary
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.records import from_text

MAX_TURNS = 64
"""First turns of a side, which show its habits."""
PROMPT = 8
"""A turn that begins an exchange waited longer than this multiple of the other side's delay."""


class Turns:
    """Turns of two sides (`Rows.turns`)."""

    def __init__(self) -> None:
        self._side: int | None = None
        """The side that sent the last message."""
        self._last_ns = 0
        self._delay: int | None = None
        """Time (ns) from the other side's last message to this turn, if any."""

    def follow(self, rows: Rows, rhythms: Sequence[ObservedRhythm | None]) -> None:
        if self._are_counted(rhythms):
            return
        for side, _, _, first_ns, last_ns in rows.turns():
            if side != self._side:
                delay = None if self._side is None else first_ns - self._last_ns
                before = rhythms[1 - side]
                if delay is not None and self._delay is not None and before is not None and before.turns < MAX_TURNS:
                    before.turns += 1
                    before.openings += self._delay > PROMPT * delay
                    if before.turns == MAX_TURNS and self._are_counted(rhythms):
                        return
                self._side, self._delay = side, delay
            self._last_ns = last_ns

    def _are_counted(self, rhythms: Sequence[ObservedRhythm | None]) -> bool:
        return all(each is not None and each.turns >= MAX_TURNS for each in rhythms)


COLUMNS_COST = 24
"""Memory in octets of a message in `RunSummary.last`."""


class Came(NamedTuple):
    """Times of a side's messages: the last ones before the batch, and its runs."""

    before: tuple[int, ...]
    runs: Sequence[MessageTable]

    def between(self, start: int, stop: int) -> list[int]:
        """Return at most `MAX_RECENT` times of the last messages between two times."""
        times = [*self.before]
        for run in self.runs:
            times += run.time_ends[(run.time_ends > start) & (run.time_ends < stop)][-MAX_RECENT:].tolist()
        return sorted(time for time in times if start < time < stop)[-MAX_RECENT:]


class SendingObserver(Observer):
    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        super().__init__(observed, room)
        self._turns = Turns()

    def rows(self, rows: Rows) -> None:
        before = [() if side.rhythm is None else side.rhythm.recent for side in self.observed.sides]
        for number, side in enumerate(self.observed.sides):
            runs, summaries, other = rows.sides[number], rows.summaries[number], 1 - number
            if not runs:
                continue
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


NOWHERE = Moment(0, None, None)


def _first_order(pair: tuple[MessageTable, RunSummary]) -> int:
    return first_order(pair[0])


def _note_sizes(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    before = summary.largest_before if side.sizes is None else max(side.sizes.largest, summary.largest_before)
    last = Moment.of_packet(summary.last_end_ns, summary.last_packet, files)
    side.sizes = ObservedSizes(last, summary.last_ns, summary.largest_last, before)


def _note_rhythm(
    side: ObservedSide, run: MessageTable, summary: RunSummary, other: Came, files: Sequence[str | None]
) -> None:
    rhythm = side.rhythm
    if rhythm is None:
        rhythm = side.rhythm = ObservedRhythm(summary.first_end_ns, NOWHERE)
    else:
        _note_pause(rhythm, summary.first_end_ns - rhythm.last.ns, rhythm.last, other)
    if summary.longest_pause > rhythm.second_ns:
        place = summary.longest_from
        since = Moment.of_packet(int(run.time_ends[place]), int(run.packet_ends[place]), files)
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
    """Whether the first message is a single frame that equals the identity."""
    octets = from_text(identity or "")
    is_one = run.last[0] == run.first[0] and run.sizes[0] == len(octets)
    return bool(is_one and run.complete[0] and run.head(0) == octets)


def _note_last(side: ObservedSide, summary: RunSummary, files: Sequence[str | None]) -> None:
    known, octets, count = side.last_messages, summary.last, summary.messages
    if known is not None:
        count += len(known.octets) // COLUMNS_COST if known.are_all else MAX_LAST
        octets = (known.octets + octets)[-MAX_LAST * COLUMNS_COST :]
    side.last_messages = ObservedMessages(octets, files, count <= MAX_LAST)
