"""Reduce repeated events: fold cycles, thin out other repeats."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.export.diagram.events import Event
from zmtpscope.export.diagram.folding import FEW, Fold, Folding, Step
from zmtpscope.export.diagram.thinning import Key, Thinning

MAX_ALIKE = 20
"""Steps of a key to keep on one connection before further ones are counted; starts over when something new occurs."""


class Repeats:
    """Folds steps in order. After `finish`, `steps` are the ones to draw (all unless it `folds`). `key_of` returns
    equal keys for repetitions."""

    def __init__(self, key_of: Callable[[Event], Key], *, folds: bool = True) -> None:
        self.folds = folds
        self.steps: list[Step] = []
        self._key_of = key_of
        self._folding = Folding()
        self._thinning = Thinning(key_of, MAX_ALIKE)

    def __len__(self) -> int:
        return len(self.steps) + len(self._folding.steps)

    def feed(self, step: Step) -> None:
        if not self.folds:
            self.steps.append(step)
        elif isinstance(step, Fold):
            self._folding.feed_fold(step)
        else:
            self._folding.feed(step, self._key_of(step))
        self._thin_out(self._folding.drain())

    def only_counts(self, key: Key) -> bool:
        """Whether further events of this key are not drawn, so that `count` accepts them."""
        if not self.folds or not self._thinning.is_full(key):
            return False
        self._end_cycles()
        return self._thinning.is_full(key)

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """Count events of a key that is not drawn any more. Pass the last of them to `keep` before the next `feed`."""
        self._thinning.count(key, name, count, time, until)

    def keep(self, event: Event) -> None:
        """Keep a counted event as the last one of its key."""
        self._thinning.keep(self._key_of(event), event)

    def can_pass_by(self, key: Key, count: int) -> bool:
        """Whether `pass_by` accepts so many events of the key. One more must be fed after them."""
        return count > FEW and self._folding.repeats(key)

    def pass_by(self, count: int, name: str, until: int) -> None:
        """Count events of the repeating key, the last at `until`."""
        self._folding.pass_by(count, name, until)

    def finish(self) -> None:
        self._end_cycles()
        self.steps += self._thinning.finish()

    def _end_cycles(self) -> None:
        if not self._folding.steps and self._folding.is_idle:
            return
        self._folding.finish()
        self._thin_out(self._folding.steps)
        self._folding = Folding()

    def _thin_out(self, steps: list[Step]) -> None:
        for step in steps:
            self.steps += self._thinning.feed(step)
