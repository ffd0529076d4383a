"""What repeats, folded where it comes in cycles and thinned out where it does not."""

from __future__ import annotations

from collections.abc import Callable

from zmtpscope.export.diagram.events import Event
from zmtpscope.export.diagram.folding import FEW, Fold, Folding, Step
from zmtpscope.export.diagram.thinning import Key, Thinning

MOST_ALIKE = 20
"""So many steps of a key are remembered before others are counted: on one connection, since something was new."""


class Repeats:
    """Takes steps in order; `steps` are those that are drawn, once `finish` was called: all of them unless it `folds`.
    `key_of` an event is alike for what is the same again."""

    def __init__(self, key_of: Callable[[Event], Key], *, folds: bool = True) -> None:
        self.folds = folds
        self.steps: list[Step] = []
        self._key_of = key_of
        self._folding = Folding()
        self._thinning = Thinning(key_of, MOST_ALIKE)

    def __len__(self) -> int:
        """How many steps are remembered."""
        return len(self.steps) + len(self._folding.steps)

    def feed(self, step: Step) -> None:
        """The next step."""
        if not self.folds:
            self.steps.append(step)
        elif isinstance(step, Fold):
            self._folding.feed_fold(step)
        else:
            self._folding.feed(step, self._key_of(step))
        self._thin_out(self._folding.drain())

    def only_counts(self, key: Key) -> bool:
        """Whether events of this key are drawn no more, so that `count` takes them."""
        if not self.folds or not self._thinning.is_full(key):
            return False
        self._end_cycles()
        return self._thinning.is_full(key)

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """So many events of a key that are drawn no more, from `time` to `until`; the last of them is to be given to
        `keep` before anything is fed."""
        self._thinning.count(key, name, count, time, until)

    def keep(self, event: Event) -> None:
        """The last event of its key, which was counted."""
        self._thinning.keep(self._key_of(event), event)

    def can_pass_by(self, key: Key, count: int) -> bool:
        """Whether so many more events of this key need not be fed, but for one more behind them."""
        return count > FEW and self._folding.repeats(key)

    def pass_by(self, count: int, name: str, until: int) -> None:
        """So many events of the key that repeats, the last of them at `until`."""
        self._folding.pass_by(count, name, until)

    def finish(self) -> None:
        """Nothing more comes."""
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
