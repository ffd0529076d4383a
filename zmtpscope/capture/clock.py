"""The clock of a capture: where it was set back, times go on from where they were.

Packets of one interface stand in the order in which they were captured, give or take what several processors do to it.
A packet that is stamped a second or more before an earlier one was stamped by a clock that had been set back, by hand
or by NTP. Its time and all behind it are moved on by that step, until the times as they stand have caught up, so that
no duration across the step is negative.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.packets import LATEST

Times = NDArray[np.int64]

LEAST_STEP = 1_000_000_000
"""Nanoseconds. Packets of several interfaces or processors are out of order by less."""

MOST_CLOCKS = 4096
"""Interfaces whose clocks are remembered."""


class SetBack(NamedTuple):
    """A clock went back: `packet` of `file`, which counts as taken at `time`, is stamped `ns` before an earlier one. So
    were `times` packets, this one by most."""

    ns: int
    time: int
    file: str | None
    packet: int
    times: int = 1


def folded(steps: Iterable[SetBack]) -> SetBack | None:
    """All of them as one; of equal ones the first."""
    steps = list(steps)
    return max(steps, key=_by)._replace(times=sum(each.times for each in steps)) if steps else None


def _by(step: SetBack) -> int:
    return step.ns


class Clocks:
    """Those of the interfaces of one file, or of several files that follow one another."""

    def __init__(self) -> None:
        self._clocks: dict[int, Clock] = {}

    def correct(self, times: Times, interfaces: Times | None) -> list[tuple[int, int]]:
        """Take the steps back out of the times of the next packets, and return where these were: which packets, by how
        much. None: all packets have one clock."""
        if interfaces is None or not len(times) or interfaces.min() == interfaces.max():
            number = 0 if interfaces is None or not len(times) else int(interfaces[0])
            return self._clock(number).correct(times)
        steps = []
        for number in np.unique(interfaces).tolist():
            rows = np.flatnonzero(interfaces == number)
            own = times[rows]
            steps += [(int(rows[place]), ns) for place, ns in self._clock(number).correct(own)]
            times[rows] = own
        return sorted(steps)

    def _clock(self, interface: int) -> Clock:
        if interface not in self._clocks and len(self._clocks) == MOST_CLOCKS:
            self._clocks.clear()
        return self._clocks.setdefault(interface, Clock())


class Clock:
    """The clock of one interface."""

    def __init__(self) -> None:
        self._added = 0
        self._latest = 0
        """The largest time that was given out."""

    def correct(self, times: Times) -> list[tuple[int, int]]:
        """See `Clocks`."""
        if not len(times):
            return []
        steps = []
        added, latest = self._added, self._latest
        if not added:
            reached = np.maximum.accumulate(np.maximum(times, latest))
            if (times > reached - LEAST_STEP).all():
                self._latest = int(reached[-1])
                return []
        for place, time in enumerate(times.tolist()):
            if added and time > latest - LEAST_STEP:
                added = 0  # it was set right again, or as much time has gone by
            if time + added <= latest - LEAST_STEP:
                steps.append((place, latest - time - added))
                added = latest - time
            times[place] = time = min(time + added, LATEST)
            latest = max(latest, time)
        self._added, self._latest = added, latest
        return steps
