"""Data that is derived from records: requests, subscriptions, diagnoses. Several views share it."""

from __future__ import annotations

import math
import time
from collections import Counter as Counts
from collections.abc import Callable, Iterator

from zmtpscope.diagnosis.across.knowledge import Knowledge
from zmtpscope.diagnosis.derivation import Derivation
from zmtpscope.diagnosis.diagnose import diagnosing
from zmtpscope.diagnosis.diagnosis import Explained
from zmtpscope.dissect.analyser import Ongoing
from zmtpscope.export.words import severities_in_words
from zmtpscope.findings import SEVERITIES
from zmtpscope.store import Store
from zmtpscope.tui.worker.views.findings import CountedFindings
from zmtpscope.tui.worker.views.kept_requests import KeptRequests
from zmtpscope.tui.worker.views.view import Counter, Step, View

INTERVAL, SHARE = 1.0, 20
"""Minimum pause between searches for diagnoses: in seconds, and as a multiple of the last search's CPU seconds."""

RETRY = 0.05
"""Seconds before a postponed search is tried again."""

STEP_SECONDS = 0.015

DONE = object()

MAX_FOUND = 10_000
"""Cached record numbers."""


class Derived(Counter):
    """Data derived from all records of a store, or from the records that match a filter.

    New records are added in steps. `knowledge`, for rules, is built when needed.
    """

    step_rows = 2048  # reading these from a store makes record objects, some microseconds each

    def __init__(self, store: Store, ongoing: Callable[[], Ongoing | None]) -> None:
        self.store = store
        self._ongoing = ongoing
        self.requests = KeptRequests()
        self.findings = CountedFindings(store, self.find)
        self.diagnoses: list[Explained] | None = None
        """The last result; None before the first search."""
        self._derivation = Derivation()
        self._deriving: Iterator[object] | None = None
        self._knowledge: Knowledge | None = None
        self._near = 0
        self._found: dict[str, int] = {}
        """Record numbers by record identity."""
        self._looking: Iterator[list[Explained] | None] | None = None
        """The search in progress; no records may be fed meanwhile."""
        self._is_looked_through = False
        self._seconds = 0.0
        """CPU seconds of the search in progress."""
        self.due = time.monotonic() + INTERVAL
        """Time of the next search while the store grows."""

    def feed(self, step: Step) -> None:
        """Begin to derive data from the next records; `work` continues until they are processed."""
        self._go_on(math.inf)
        self._deriving = self._derive(step)
        self._go_on(STEP_SECONDS)

    def _derive(self, step: Step) -> Iterator[object]:
        self._is_looked_through = False
        near = int(step.rows[-1]) if len(step.rows) else self._near
        for table in self._derivation.parts(step.batch):
            self._knowledge = None
            if table is not None:
                self.requests.take(table, near)
            yield table
        self._near = near
        self.findings.feed(step)

    @property
    def is_busy(self) -> bool:
        return self._deriving is not None or self.is_searching

    @property
    def is_searching(self) -> bool:
        return self._looking is not None

    def _go_on(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self._deriving is not None:
            if next(self._deriving, DONE) is DONE:
                self._deriving = None
            elif time.monotonic() > until:
                return

    @property
    def knowledge(self) -> Knowledge:
        if self._knowledge is None:
            self._knowledge = self._derivation.knowledge()
        return self._knowledge

    @property
    def summary(self) -> str | None:
        """The number of diagnoses by severity as text, worst first; None before the first search for diagnoses."""
        if self.diagnoses is None:
            return None
        counts = Counts[str](each.diagnosis.severity for each in self.diagnoses)
        return severities_in_words({severity: counts[severity] for severity in SEVERITIES if counts[severity]})

    def has_work(self, *, is_last: bool) -> bool:
        """Whether `work` has something to do: records to process, or a search for diagnoses that runs or is due."""
        if self.is_busy:
            return True
        return not self._is_looked_through if is_last else time.monotonic() >= self.due

    def work(self) -> None:
        """Continue to process records, or run the next rule of the search. A search begins only between two blocks of
        packets."""
        if self._deriving is not None:
            self._go_on(STEP_SECONDS)
            return
        began = time.process_time()
        if self._looking is None:
            ongoing = self._ongoing()
            if ongoing is None:
                self.due = time.monotonic() + RETRY
                return
            self._derivation.note_ongoing(ongoing)
            self._knowledge = None
            self._looking, self._is_looked_through, self._seconds = diagnosing(self.knowledge), True, 0.0
        found = next(self._looking)
        self._seconds += time.process_time() - began
        if found is not None:
            self.diagnoses, self._looking = found, None
            self.due = time.monotonic() + max(INTERVAL, SHARE * self._seconds)

    def find(self, ref: str, near: int | None = None) -> int | None:
        """Return the number of the record with the id `ref`, or None. The search starts at record `near`, or at the
        last one."""
        found = self._found.get(ref)
        if found is None:
            found = self.store.find(ref, self._near if near is None else near)
            if found is not None:
                if len(self._found) == MAX_FOUND:
                    self._found.clear()
                self._found[ref] = found
        return found


class DerivedView(View):
    is_derived = True

    def __init__(self, derived: Derived) -> None:
        self.derived = derived
        self.store = derived.store
