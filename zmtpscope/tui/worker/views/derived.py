"""What records mean together, derived once for all views that show some of it."""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator

from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.export.words import severities_in_words
from zmtpscope.findings import SEVERITIES
from zmtpscope.meaning.across.knowledge import Knowledge
from zmtpscope.meaning.derivation import Derivation
from zmtpscope.meaning.diagnose import diagnosing
from zmtpscope.meaning.diagnosis import Explained
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.kept_requests import KeptRequests
from zmtpscope.tui.worker.views.view import Counter, Step, View

INTERVAL, SHARE = 1.0, 20
"""Seconds between two looks for causes while records still come, or so many times what the last one took: that grows
with all that is known."""

MOST_FOUND = 10_000
"""Records that were looked for and whose numbers are remembered."""


class Derived(Counter):
    """What is derived from the records of a store, all of them or those that a filter holds of. Nothing is derived
    twice: what is new is added to what is known, and `knowledge` is made anew when somebody asks after that."""

    step_rows = 2048  # records are made again for it, which takes some microseconds each

    def __init__(self, store: Store, ongoing: Callable[[], Ongoing]) -> None:
        self.store = store
        self._ongoing = ongoing
        self.requests = KeptRequests()
        self.diagnoses: list[Explained] | None = None
        """As they were found last; None where nobody has looked for them yet."""
        self._derivation = Derivation()
        self._knowledge: Knowledge | None = None
        self._near = 0
        self._found: dict[str, int] = {}
        """Numbers of records, by their identities."""
        self._looking: Iterator[list[Explained] | None] | None = None
        """Nothing may be fed meanwhile."""
        self._is_looked_through = False
        self._seconds = 0.0
        """That the look took so far."""
        self.due = time.monotonic() + INTERVAL
        """When it is time for the next look, while records still come."""

    def feed(self, step: Step) -> None:
        """Derive from the next records."""
        tables = self._derivation.feed(self.store.batch(step.rows))
        self._near = int(step.rows[-1]) if len(step.rows) else self._near
        self.requests.take(tables, self._near)
        self._knowledge = None
        self._is_looked_through = False

    @property
    def knowledge(self) -> Knowledge:
        """What is known so far."""
        if self._knowledge is None:
            self._knowledge = self._derivation.knowledge()
        return self._knowledge

    @property
    def summary(self) -> str | None:
        """How many causes of which severity were found last, the worst first; None as `diagnoses`."""
        if self.diagnoses is None:
            return None
        counts = Counts[str](each.diagnosis.severity for each in self.diagnoses)
        return severities_in_words({severity: counts[severity] for severity in SEVERITIES if counts[severity]})

    def has_work(self, *, is_last: bool) -> bool:
        """Whether it is time to look for causes, or to go on with that."""
        if self._looking is not None:
            return True
        return not self._is_looked_through if is_last else time.monotonic() >= self.due

    def work(self) -> None:
        """Look for the causes of one more rule."""
        began = time.monotonic()
        if self._looking is None:
            self._derivation.note_ongoing(self._ongoing())
            self._knowledge = None
            self._looking, self._is_looked_through, self._seconds = diagnosing(self.knowledge), True, 0.0
        found = next(self._looking)
        now = time.monotonic()
        self._seconds += now - began
        if found is not None:
            self.diagnoses, self._looking = found, None
            self.due = now + max(INTERVAL, SHARE * self._seconds)

    def find(self, ref: str, near: int | None = None) -> int | None:
        """The number of the record with this identity, looked for `near` a record first, else near the last; None:
        there is none."""
        found = self._found.get(ref)
        if found is None:
            found = self.store.find(ref, self._near if near is None else near)
            if found is not None:
                if len(self._found) == MOST_FOUND:
                    self._found.clear()
                self._found[ref] = found
        return found


class DerivedView(View):
    """A view of what is derived."""

    def __init__(self, derived: Derived) -> None:
        self.derived = derived
        self.store = derived.store
