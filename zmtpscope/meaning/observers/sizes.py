"""How large the frames are that each side of a connection sends: the last, which may have ended it, and all before."""

from __future__ import annotations

from zmtpscope.meaning.moments import Moment
from zmtpscope.meaning.observers.observed import ObservedSizes
from zmtpscope.meaning.observers.observer import DerivedTable, Observer, Rows, first_order


class SizeObserver(Observer):
    """The sizes of one connection."""

    def rows(self, rows: Rows) -> None:
        for side, runs in zip(self.observed.sides, rows.sides, strict=True):
            for run in sorted(runs, key=first_order) if len(runs) > 1 else runs:
                begin = int(run.first[-1])
                before = 0 if side.sizes is None else max(side.sizes.before, side.sizes.of_last)
                if begin:
                    before = max(before, int(run.sizes[:begin].max()))
                last = Moment.of_packet(int(run.time_ends[-1]), int(run.packets[-1]), rows.files)
                side.sizes = ObservedSizes(last, int(run.times[-1]), int(run.sizes[begin:].max()), before)

    def derive(self) -> list[DerivedTable]:
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        return []
