"""How regularly each side sends messages: the first, which may be its identity once more, the last, and the longest
pause between two."""

from __future__ import annotations

from zmtpscope.dissect.records.batch import MessageRun
from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed_rhythm import MOST_RECENT, ObservedRhythm
from zmtpscope.meaning.observers.observer import DerivedTable, Observer, Rows, first_order
from zmtpscope.records import from_text


class RhythmObserver(Observer):
    """The rhythms of one connection."""

    def rows(self, rows: Rows) -> None:
        for side, runs in zip(self.observed.sides, rows.sides, strict=True):
            for run in sorted(runs, key=first_order) if len(runs) > 1 else runs:
                ends = run.time_ends
                rhythm = side.rhythm
                if rhythm is None:
                    if side.is_fallback and _is_identity(run, side.identity):
                        side.phantom = Moment.of_packet(int(ends[0]), int(run.packet_ends[0]), rows.files)
                    rhythm = side.rhythm = ObservedRhythm(int(ends[0]), Moment(int(ends[0]), None, None))
                pause = int(ends[0]) - rhythm.last.ns
                if len(ends) > 1:
                    pause = max(pause, int((ends[1:] - ends[:-1]).max()))
                rhythm.count += len(ends)
                rhythm.longest_ns = max(rhythm.longest_ns, pause)
                rhythm.recent = (*rhythm.recent, *ends[-MOST_RECENT:].tolist())[-MOST_RECENT:]
                rhythm.last = Moment.of_packet(int(ends[-1]), int(run.packet_ends[-1]), rows.files)

    def derive(self) -> list[DerivedTable]:
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        return []


def _is_identity(run: MessageRun, identity: str | None) -> bool:
    """Whether the first message of a run is one frame, which is an identity and nothing else."""
    octets = from_text(identity or "")
    is_one = run.last[0] == run.first[0] and run.sizes[0] == len(octets)
    return bool(is_one and run.complete[0] and run.head(0) == octets)
