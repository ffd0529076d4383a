"""Correct the packet times of a capture whose clock was set back, so that no duration is negative.

If a packet is at least a second earlier than a previous one of its interface, the clock was set back. That packet and
later ones are moved forward by the step, until the original times have caught up.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zmtpscope.capture.packets import LATEST

Times = NDArray[np.int64]

MIN_STEP = 1_000_000_000
"""Smallest step of the clock (ns); packets of several interfaces or processors differ by less."""

MAX_CLOCKS = 4096


class SetBack(NamedTuple):
    """The largest step by which the clock of a capture was set back, and the number of such steps (`times`).

    The time stamp of `packet` is `ns` before an earlier one; `time` is its corrected time (ns since the epoch).
    """

    ns: int
    time: int
    file: str | None
    packet: int
    times: int = 1


def folded(steps: Iterable[SetBack]) -> SetBack | None:
    """Combine steps: return the largest one (the first of equal ones), with the number of all steps."""
    steps = list(steps)
    return max(steps, key=attrgetter("ns"))._replace(times=sum(each.times for each in steps)) if steps else None


class Clocks:
    def __init__(self) -> None:
        self._clocks: dict[int, Clock] = {}

    def correct(self, times: Times, interfaces: Times | None) -> list[tuple[int, int]]:
        """Correct packet times in place; return (packet index, size in ns) of each step back.

        `interfaces` are the interfaces of the packets; None: all packets have one clock.
        """
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
        if interface not in self._clocks and len(self._clocks) == MAX_CLOCKS:
            self._clocks.clear()
        return self._clocks.setdefault(interface, Clock())


class Clock:
    def __init__(self) -> None:
        self._added = 0
        self._latest = 0

    def correct(self, times: Times) -> list[tuple[int, int]]:
        """Correct packet times of one clock in place; return (packet index, size in ns) of each step back."""
        if not len(times):
            return []
        steps = []
        added, latest = self._added, self._latest
        if not added:
            reached = np.maximum.accumulate(np.maximum(times, latest))
            if (times > reached - MIN_STEP).all():
                self._latest = int(reached[-1])
                return []
        for place, time in enumerate(times.tolist()):
            if added and time > latest - MIN_STEP:
                added = 0  # the clock was set right again, or the time has caught up
            if time + added <= latest - MIN_STEP:
                steps.append((place, latest - time - added))
                added = latest - time
            times[place] = time = min(time + added, LATEST)
            latest = max(latest, time)
        self._added, self._latest = added, latest
        return steps
