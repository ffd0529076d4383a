from __future__ import annotations

from collections.abc import Iterable, Iterator

from zmtpscope.export.repeats.cuts import CutFold
from zmtpscope.export.repeats.heartbeats import HeartbeatFold
from zmtpscope.export.repeats.retries import RetryFold
from zmtpscope.export.repeats.stretches import Fold, Stretch


class Folding:
    """All folds, one after the other; none unless `folds`. If it `waits`, lines are delayed until it is known
    whether they repeat earlier ones; otherwise for about a second."""

    def __init__(self, *, folds: bool, waits: bool) -> None:
        self._folds: list[Fold] = []
        if folds:
            self._folds += HeartbeatFold(waits=waits), RetryFold(waits=waits), CutFold()

    def feed(self, stretches: Iterable[Stretch]) -> Iterable[Stretch]:
        """Return the stretches to print now."""
        for fold in self._folds:
            stretches = fold.feed(stretches)
        return stretches

    def rest(self, stretches: Iterable[Stretch]) -> Iterable[Stretch]:
        """Return the last stretches to print."""
        for fold in self._folds:
            stretches = _with_rest(fold, stretches)
        return stretches


def _with_rest(fold: Fold, stretches: Iterable[Stretch]) -> Iterator[Stretch]:
    yield from fold.feed(stretches)
    yield from fold.rest()
