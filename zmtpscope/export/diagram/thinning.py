"""What goes on and on in no order, thinned out: of each kind the first are drawn and the last, the rest is counted.

Two publishers that send as they like make no cycle (`folding.py`), and still nobody wants to see a million arrows. Each
connection is thinned out by itself. What is new on it, such as a note or a kind of event that was not there before,
ends the stretch: behind it, the next of each kind is drawn again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator

from zmtpscope.export.diagram.events import ARROWS, Event
from zmtpscope.export.diagram.folding import Fold, Step

Key = tuple[Hashable, ...]
"""Alike for what is the same again; it begins with whom it is about."""


class _Stretch:
    """What is thinned out between two peers, since something was new; `alike` steps of a key are drawn before others
    are counted."""

    def __init__(self, alike: int) -> None:
        self.alike = alike
        self.drawn: Counter[Key] = Counter()
        """How many steps were drawn of each key."""
        self.names: Counter[str] = Counter()
        """What was not drawn, ..."""
        self.time = self.until = 0
        self.last: dict[Key, Event] = {}
        """... the last event of each key, ..."""
        self.kinds: dict[Key, Event] = {}
        """... and any event of each."""

    def end(self) -> Iterator[Step]:
        """What is drawn of it."""
        self.names.subtract(event.name for event in self.last.values())
        if names := +self.names:
            yield Fold(self.time, self.until, names, tuple(self.kinds.values()), in_order=False)
        yield from self.last.values()
        self.drawn = Counter({key: min(count, self.alike - 1) for key, count in self.drawn.items()})
        self.last, self.names, self.kinds, self.until = {}, Counter(), {}, 0


class Thinning:
    """Takes steps in order; gives those that are drawn, not always in order of time. `alike` steps of a key are drawn
    before others are counted."""

    def __init__(self, key_of: Callable[[Event], Key], alike: int) -> None:
        self.alike = alike
        self._key_of = key_of
        self._stretches: defaultdict[Hashable, _Stretch] = defaultdict(lambda: _Stretch(alike))

    def feed(self, step: Step) -> Iterator[Step]:
        """The next step; what is drawn now."""
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
        """Whether an arrow of this key is counted, not drawn."""
        stretch = self._stretches.get(key[0])
        return stretch is not None and stretch.drawn[key] >= self.alike

    def count(self, key: Key, name: str, count: int, time: int, until: int) -> None:
        """So many events of a key that is full, from `time` to `until`; the last of them is to be kept."""
        stretch = self._stretches[key[0]]
        stretch.time = min(stretch.time, time) if stretch.names else time
        stretch.until = max(stretch.until, until)
        stretch.names[name] += count

    def keep(self, key: Key, event: Event) -> None:
        """The last event of its key, which is counted already."""
        stretch = self._stretches[key[0]]
        stretch.last[key] = stretch.kinds[key] = event

    def finish(self) -> Iterator[Step]:
        """What is drawn when nothing more comes."""
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
        rounds, rest = divmod(step.events, len(keys))  # a cycle: all come as often, those in front once more
        for place, key in enumerate(keys):
            self.count(key, kinds[key].name, rounds + (place < rest), step.time, step.until)
