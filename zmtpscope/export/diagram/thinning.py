"""Thin out repeated events that form no cycle: draw the first and the last of each kind, and count the rest.

Two independent publishers form no cycle (`folding.py`), but a million arrows are useless. Each connection is thinned
out separately, until a new kind of event or a note: then the next event of each kind is drawn again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator

from zmtpscope.export.diagram.events import ARROWS, Event
from zmtpscope.export.diagram.folding import Fold, Step

Key = tuple[Hashable, ...]
"""A key that is equal for repetitions of an event; it starts with the ends."""


class _Stretch:
    """Events between two peers since the last new kind. `alike` steps of a key are drawn before the rest is counted."""

    def __init__(self, alike: int) -> None:
        self.alike = alike
        self.drawn: Counter[Key] = Counter()
        """Number of drawn steps by key."""
        self.names: Counter[str] = Counter()
        """Number of events that are not drawn, by name."""
        self.time = self.until = 0
        self.last: dict[Key, Event] = {}
        """Last event by key."""
        self.kinds: dict[Key, Event] = {}
        """Any event of each key."""

    def end(self) -> Iterator[Step]:
        """Yield the fold and the last events, and start over."""
        self.names.subtract(event.name for event in self.last.values())
        if names := +self.names:
            yield Fold(self.time, self.until, names, tuple(self.kinds.values()), in_order=False)
        yield from self.last.values()
        self.drawn = Counter({key: min(count, self.alike - 1) for key, count in self.drawn.items()})
        self.last, self.names, self.kinds, self.until = {}, Counter(), {}, 0


class Thinning:
    """Thins out steps in order; returned steps are not always in the order of time."""

    def __init__(self, key_of: Callable[[Event], Key], alike: int) -> None:
        self.alike = alike
        self._key_of = key_of
        self._stretches: defaultdict[Hashable, _Stretch] = defaultdict(lambda: _Stretch(alike))

    def feed(self, step: Step) -> Iterator[Step]:
        """Yield the steps to draw now."""
        kinds = {self._key_of(event): event for event in (step.cycle if isinstance(step, Fold) else (step,))}
        if all(self.is_full(key) and event.kind in ARROWS for key, event in kinds.items()):
            self._thin_out(step, kinds)
            return
        for key, event in kinds.items():
            stretch = self._stretches[key[0]]
            if stretch.names and (key not in stretch.drawn or event.kind not in ARROWS):
                yield from stretch.end()
            stretch.drawn[key] += 1
        yield step

    def is_full(self, key: Key) -> bool:
        """Whether an arrow of this key is counted and not drawn."""
        stretch = self._stretches.get(key[0])
        return stretch is not None and stretch.drawn[key] >= self.alike

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """Count events of a key for which `is_full`. Pass the last of them to `keep`."""
        stretch = self._stretches[key[0]]
        stretch.time = min(stretch.time, time) if stretch.names else time
        stretch.until = max(stretch.until, until)
        stretch.names[name] += count

    def keep(self, key: Key, event: Event) -> None:
        """Keep a counted event as the last one of its key."""
        stretch = self._stretches[key[0]]
        stretch.last[key] = stretch.kinds[key] = event

    def finish(self) -> Iterator[Step]:
        for stretch in self._stretches.values():
            yield from stretch.end()

    def _thin_out(self, step: Step, kinds: dict[Key, Event]) -> None:
        if isinstance(step, Event):
            (key,) = kinds
            self.count(key, step.name, 1, step.time, step.time)
            self.keep(key, step)
            return
        for key, event in kinds.items():
            self._stretches[key[0]].kinds.setdefault(key, event)
        keys = list(kinds)
        if len({key[0] for key in keys}) == 1:
            for name, count in step.names.items():
                self.count(keys[0], name, count, step.time, step.until)
            return
        rounds, rest = divmod(step.events, len(keys))  # the first events of a cycle occur once more than the others
        for place, key in enumerate(keys):
            self.count(key, kinds[key].name, rounds + (place < rest), step.time, step.until)
