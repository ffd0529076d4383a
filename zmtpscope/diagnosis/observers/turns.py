"""Which side of a connection begins an exchange of messages, and which one answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zmtpscope.diagnosis.observers.observed_facts import ObservedRhythm
from zmtpscope.diagnosis.observers.observer import Rows
from zmtpscope.diagnosis.observers.run_summaries import RunSummary

MAX_TURNS = 64
"""Maximum number of turns of a side to count: the first ones of a connection show its habits."""
PROMPT = 8
"""A turn begins an exchange if its side waited more than this many times as long as the other side took to answer."""


class Turns:
    """Follows the turns of a connection: a side has its turn until the other side sends a message."""

    def __init__(self) -> None:
        self._side: int | None = None
        """The side that sent the last message."""
        self._last_ns = 0
        self._delay: int | None = None
        """Time from the last message of the other side to the turn of this side (ns). None for the first turn."""

    def follow(self, rows: Rows, rhythms: Sequence[ObservedRhythm | None]) -> None:
        """Process the messages of a batch, and count turns in the rhythms of both sides."""
        if all(each is not None and each.turns >= MAX_TURNS for each in rhythms):
            return
        for side, first_ns, last_ns in _turns(rows):
            if side != self._side:
                delay = None if self._side is None else first_ns - self._last_ns
                before = rhythms[1 - side]
                if delay is not None and self._delay is not None and before is not None and before.turns < MAX_TURNS:
                    before.turns += 1
                    before.openings += self._delay > PROMPT * delay
                self._side, self._delay = side, delay
            self._last_ns = last_ns


def _turns(rows: Rows) -> Sequence[tuple[int, int, int]]:
    """Return the turns of a batch in order: the side, and the times of the first and the last message."""
    for side in (0, 1):
        if not rows.sides[1 - side]:
            summaries = sorted(rows.summaries[side], key=_last_order)
            return [(side, summaries[0].first_end_ns, summaries[-1].last_end_ns)] if summaries else []
    runs = [(side, run) for side in (0, 1) for run in rows.sides[side]]
    order = np.argsort(np.concatenate([run.orders for _, run in runs]), kind="stable")
    ends = np.concatenate([run.time_ends for _, run in runs])[order]
    sides = np.repeat([side for side, _ in runs], [len(run.orders) for _, run in runs])[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(sides)) + 1))
    stops = np.append(starts[1:], len(sides)) - 1
    return list(zip(sides[starts].tolist(), ends[starts].tolist(), ends[stops].tolist(), strict=True))


def _last_order(summary: RunSummary) -> int:
    return summary.last_order
