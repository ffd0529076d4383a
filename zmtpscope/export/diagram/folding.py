"""Repeats folded: of what happens in cycles the first and the last are drawn, and how many were in between.

A cycle is any sequence of events that comes three times in a row: one message after the other, PING and PONG, request
and reply over all hops of a broker, attempts to connect with all that came of each.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from zmtpscope.export.diagram.events import Event

LONGEST_CYCLE = 64
"""Events of a cycle, at most."""

CYCLES = 3
"""So many in a row make a cycle of events."""

SHORT_CYCLE = 2
"""Of cycles of so many events two are drawn in front of what is folded, of longer ones one."""

FEW = 2
"""So many events are drawn, not folded: the line that says so takes as much room."""


class Fold(NamedTuple):
    """What is not drawn of repeats: how many events, by name, in which time; `cycle` are the events of one cycle, or,
    where they came not `in_order`, one of each kind."""

    time: int
    until: int
    names: Counter[str]
    cycle: tuple[Event, ...]
    in_order: bool = True

    @property
    def events(self) -> int:
        """How many events are not drawn."""
        return self.names.total()


Step = Event | Fold


class Folding:
    """Takes events in order, each with a key that is alike for what is the same again; `steps` are those that are
    drawn, and folds between them, once `finish` was called. `drain` may take those that no cycle can contain any more
    on the way."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._keys: list[object] = []
        """Those of `steps`; None for a fold."""
        self._cycle: list[object] = []
        """The keys of the cycle that repeats, if one does, ..."""
        self._place = 0
        """... which of them comes next, ..."""
        self._first: tuple[Event, ...] = ()
        """... the events of it, ..."""
        self._last: deque[Event] = deque()
        """... those that came last, ..."""
        self._few: list[Event] = []
        """... those in front of them, as long as they are few, ..."""
        self._names: Counter[str] = Counter()
        self._time = self._until = 0
        """... and what is said of them else."""

    def feed(self, step: Event, key: object) -> None:
        """The next event."""
        if self._cycle:
            if key == self._cycle[self._place]:
                self._repeat(step)
                return
            self._end_cycle()
        self.steps.append(step)
        self._keys.append(key)
        self._look_for_cycle()

    def feed_fold(self, fold: Fold) -> None:
        """What was folded before comes next; it is part of no cycle."""
        self._end_cycle()
        self.steps.append(fold)
        self._keys.append(None)

    def drain(self) -> list[Step]:
        """The steps that are settled, in order; they are given once. Sometimes more, and often none."""
        settled = len(self.steps) - CYCLES * LONGEST_CYCLE
        if settled < LONGEST_CYCLE:
            return []
        drained = self.steps[:settled]
        del self.steps[:settled], self._keys[:settled]
        return drained

    def repeats(self, key: object) -> bool:
        """Whether `key` alone is the cycle that repeats, so that `pass_by` may be called."""
        return self._cycle == [key]

    def pass_by(self, count: int, name: str, until: int) -> None:
        """`count` more events of the cycle (more than `FEW`), of one name, the last of them at `until`, which are only
        counted; one that is fed has to come behind."""
        while self._last:
            self._count(self._last.popleft())
        self._names[name] += count
        self._until = until

    @property
    def is_idle(self) -> bool:
        """Whether nothing repeats now."""
        return not self._cycle

    def finish(self) -> None:
        """No more comes."""
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
        """The keys of the last `count` events of the cycle, up to the one that came last."""
        length = len(self._cycle)
        return [self._cycle[(self._place - back) % length] for back in range(count, 0, -1)]
