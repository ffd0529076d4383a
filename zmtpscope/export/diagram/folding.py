"""Fold repeated events of a diagram: the first and the last cycle are drawn, the others counted.

A cycle is any sequence of events that occurs three times in a row: equal messages, PING and PONG, request and reply
over all hops of a broker, or connection attempts with all their events.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from zmtpscope.export.diagram.events import Event

LONGEST_CYCLE = 64

CYCLES = 3
"""Number of repetitions in a row that make a cycle."""

SHORT_CYCLE = 2
"""Events in a cycle that is drawn twice before the fold; longer ones are drawn once."""

FEW = 2
"""Repeated events that are drawn, since the line of a fold takes the same space."""


class Fold(NamedTuple):
    """A line for repeated events that are not drawn: how many of each name, and the times of the first and last.

    `cycle` are the events of one cycle or, unless `in_order`, one event of each kind.
    """

    time: int
    until: int
    names: Counter[str]
    cycle: tuple[Event, ...]
    in_order: bool = True

    @property
    def events(self) -> int:
        return self.names.total()


Step = Event | Fold


class Folding:
    """Folds cycles in a sequence of events.

    Events with equal keys are repetitions. After `finish`, `steps` has the drawn events, and a `Fold` for the others.
    Before that, `drain` returns the steps that are too old to become part of a cycle.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._keys: list[object] = []
        """Keys of `steps`; None for a fold."""
        self._cycle: list[object] = []
        """Keys of the repeating cycle, or empty."""
        self._place = 0
        """Index of the next expected key in the cycle."""
        self._first: tuple[Event, ...] = ()
        self._last: deque[Event] = deque()
        self._few: list[Event] = []
        """Counted events, up to `FEW`."""
        self._names: Counter[str] = Counter()
        """Number of counted events by name."""
        self._time = self._until = 0
        """Times of the first and the last counted event."""

    def feed(self, step: Event, key: object) -> None:
        if self._cycle:
            if key == self._cycle[self._place]:
                self._repeat(step)
                return
            self._end_cycle()
        self.steps.append(step)
        self._keys.append(key)
        self._look_for_cycle()

    def feed_fold(self, fold: Fold) -> None:
        """Add a line for repeated events that were counted earlier. The current cycle ends before this line."""
        self._end_cycle()
        self.steps.append(fold)
        self._keys.append(None)

    def drain(self) -> list[Step]:
        """Remove and return the events that are too old to become part of a cycle."""
        settled = len(self.steps) - CYCLES * LONGEST_CYCLE
        if settled < LONGEST_CYCLE:
            return []
        drained = self.steps[:settled]
        del self.steps[:settled], self._keys[:settled]
        return drained

    def repeats(self, key: object) -> bool:
        """Whether the current cycle is only events with this key, so that `pass_by` may be called."""
        return self._cycle == [key]

    def pass_by(self, count: int, name: str, until: int) -> None:
        """Count `count` further events of the cycle without storing them; the last is at time `until` (ns).

        `count` is larger than `FEW`, and all have the same `name`. Feed one more event after them.
        """
        while self._last:
            self._count(self._last.popleft())
        self._names[name] += count
        self._until = until

    @property
    def is_idle(self) -> bool:
        return not self._cycle

    def finish(self) -> None:
        self._end_cycle()

    def _look_for_cycle(self) -> None:
        keys = self._keys
        for length in range(1, min(LONGEST_CYCLE, len(keys) // CYCLES) + 1):
            if keys[-1] != keys[-1 - length] or keys[-1] != keys[-1 - 2 * length]:
                continue
            cycle = keys[-length:]
            if None not in cycle and cycle == keys[-2 * length : -length] == keys[-3 * length : -2 * length]:
                self._begin_cycle(length)
                return

    def _begin_cycle(self, length: int) -> None:
        kept = len(self.steps) - length * (1 if length <= SHORT_CYCLE else 2)
        self._cycle, self._place = self._keys[-length:], 0
        behind = [step for step in self.steps[kept:] if not isinstance(step, Fold)]
        self._first = tuple(behind[-length:])
        del self.steps[kept:], self._keys[kept:]
        for step in behind:
            self._repeat(step)

    def _repeat(self, step: Event) -> None:
        self._last.append(step)
        self._place = (self._place + 1) % len(self._cycle)
        if len(self._last) > len(self._cycle):
            self._count(self._last.popleft())

    def _count(self, passed: Event) -> None:
        if not self._names:
            self._time = passed.time
        if self._names.total() < FEW:
            self._few.append(passed)
        self._names[passed.name] += 1
        self._until = max(self._until, passed.time)

    def _end_cycle(self) -> None:
        if self._names.total() > FEW:
            self.steps.append(Fold(self._time, self._until, self._names, self._first))
            self._keys.append(None)
            self._few = []
        behind = (*self._few, *self._last)
        for step, key in zip(behind, self._keys_of_rest(len(self._few) + len(self._last)), strict=True):
            self.steps.append(step)
            self._keys.append(key)
        self._cycle, self._few, self._names = [], [], Counter()
        self._last.clear()
        self._until = 0

    def _keys_of_rest(self, count: int) -> list[object]:
        """Return the keys of the last `count` events of the repeating cycle."""
        length = len(self._cycle)
        return [self._cycle[(self._place - back) % length] for back in range(count, 0, -1)]
