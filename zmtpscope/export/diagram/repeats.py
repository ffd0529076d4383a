"""Reduce repeated events of a diagram: fold cycles, and thin out other repeated events.

A step is an event, or the line for repeated events that are not drawn. Each connection is thinned out separately: the
first and the last event of each kind are drawn and the others counted, until an event of a new kind or a note. After it
the next event of each kind is drawn again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator

from zmtpscope.export.diagram.events import ARROWS, Event
from zmtpscope.export.diagram.folding import FEW, Fold, Folding, Step

Key = tuple[Hashable, ...]
"""A key that repetitions of an event share; it starts with the ends."""


class _Repeated:
    """The repeated events between two peers since the last event of a new kind.

    `alike` events with the same key are drawn before further ones are counted.
    """

    def __init__(self, alike: int) -> None:
        self.alike = alike
        self.drawn: Counter[Key] = Counter()
        self.names: Counter[str] = Counter()
        """Number of events that are not drawn, by name."""
        self.time = self.until = 0
        self.last: dict[Key, Event] = {}
        self.kinds: dict[Key, Event] = {}
        """One event of each key."""

    def end(self) -> Iterator[Step]:
        """Yield a line for the counted events, then the last event of each key, and start over."""
        self.names.subtract(event.name for event in self.last.values())
        if names := +self.names:
            yield Fold(self.time, self.until, names, tuple(self.kinds.values()), in_order=False)
        yield from self.last.values()
        self.drawn = Counter({key: min(count, self.alike - 1) for key, count in self.drawn.items()})
        self.last, self.names, self.kinds, self.until = {}, Counter(), {}, 0


class Thinning:
    """Draws only some of the repeated events on a connection, and counts the others.

    Pass events in order of time; the returned ones may be out of order.
    """

    def __init__(self, key_of: Callable[[Event], Key], alike: int) -> None:
        self.alike = alike
        self._key_of = key_of
        self._repeated: defaultdict[Hashable, _Repeated] = defaultdict(lambda: _Repeated(alike))

    def feed(self, step: Step) -> Iterator[Step]:
        """Add an event or a line for repeated events; yield what is to be drawn now, which may be nothing."""
        kinds = {self._key_of(event): event for event in (step.cycle if isinstance(step, Fold) else (step,))}
        if all(self.is_full(key) and event.kind in ARROWS for key, event in kinds.items()):
            self._thin_out(step, kinds)
            return
        for key, event in kinds.items():
            repeated = self._repeated[key[0]]
            if repeated.names and (key not in repeated.drawn or event.kind not in ARROWS):
                yield from repeated.end()
            repeated.drawn[key] += 1
        yield step

    def is_full(self, key: Key) -> bool:
        """Whether further events with this key are counted and not drawn."""
        repeated = self._repeated.get(key[0])
        return repeated is not None and repeated.drawn[key] >= self.alike

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """Count `count` events that are not drawn, in the period `time..until` (ns); `is_full` is true for their key.

        Pass the last of these events to `keep`.
        """
        repeated = self._repeated[key[0]]
        repeated.time = min(repeated.time, time) if repeated.names else time
        repeated.until = max(repeated.until, until)
        repeated.names[name] += count

    def keep(self, key: Key, event: Event) -> None:
        repeated = self._repeated[key[0]]
        repeated.last[key] = repeated.kinds[key] = event

    def finish(self) -> Iterator[Step]:
        for repeated in self._repeated.values():
            yield from repeated.end()

    def _thin_out(self, step: Step, kinds: dict[Key, Event]) -> None:
        if isinstance(step, Event):
            (key,) = kinds
            self.count(key, step.name, 1, step.time, step.time)
            self.keep(key, step)
            return
        for key, event in kinds.items():
            self._repeated[key[0]].kinds.setdefault(key, event)
        keys = list(kinds)
        if len({key[0] for key in keys}) == 1:
            for name, count in step.names.items():
                self.count(keys[0], name, count, step.time, step.until)
            return
        rounds, rest = divmod(step.events, len(keys))  # the first events of a cycle occur once more than the others
        for place, key in enumerate(keys):
            self.count(key, kinds[key].name, rounds + (place < rest), step.time, step.until)


MAX_ALIKE = 20
"""Steps of a key that are kept on one connection before further ones are counted; starts over when something new
occurs."""


class Repeats:
    """Folds repeated events.

    After `finish`, `steps` has the events to draw and lines for the others (all events unless it `folds`). `key_of`
    returns equal keys for repetitions.
    """

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
        """Whether events with this key are no longer drawn, so that `count` accepts them."""
        if not self.folds or not self._thinning.is_full(key):
            return False
        self._end_cycles()
        return self._thinning.is_full(key)

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """Count `count` events that are not drawn, in the period `time..until` (ns).

        Pass the last of them to `keep` before the next `feed`.
        """
        self._thinning.count(key, name, count, time, until)

    def keep(self, event: Event) -> None:
        """Store a counted event as the last one of its key, which will be drawn."""
        self._thinning.keep(self._key_of(event), event)

    def can_pass_by(self, key: Key, count: int) -> bool:
        """Whether `pass_by` accepts `count` events with this key. One more event must be fed after them."""
        return count > FEW and self._folding.repeats(key)

    def pass_by(self, count: int, name: str, until: int) -> None:
        """Count `count` events of the repeating key; the last is at time `until` (ns)."""
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
