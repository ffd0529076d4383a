"""The counts of views, which are updated while a view is shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import numpy as np
from msgspec.structs import replace

from zmtpscope.dissect.analyser import ENDED, Ongoing
from zmtpscope.filter import Filter
from zmtpscope.findings import SEVERITIES
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, TableOf, TableRow, Wanted
from zmtpscope.tui.worker.views.catalogue import view_class
from zmtpscope.tui.worker.views.view import Counter, Step, View

if TYPE_CHECKING:
    from zmtpscope.diagnosis.diagnosis import Explained
    from zmtpscope.tui.worker.views.derived import Derived

C = TypeVar("C", bound=Counter)

MAX_SAVED = 1_000_000
"""Maximum rows of a view that are written to a file."""
MAX_VIEWS = 16
"""Maximum views kept. The one shown longest ago is dropped."""
MAX_CAUSES = 2
"""Maximum diagnoses shown above the messages."""
ALARMING = SEVERITIES[:2]


class Counting(Generic[C]):
    """Passes the records that match a filter to a counter.

    `arrived` are all records as they arrive; if it is given, records are not read from the store again. Raises
    `FilterError`.
    """

    def __init__(
        self, counter: C, filter: str, store: Store, is_complete: Callable[[], bool], arrived: deque[Step] | None = None
    ) -> None:
        self.counter = counter
        self.filter = Filter(filter) if filter.strip() else None
        self.looked_at = 0
        self.steps = 0
        """Steps so far; the result changes only with them."""
        self._store = store
        self._is_complete = is_complete
        self._arrived = arrived

    @property
    def is_behind(self) -> bool:
        return self._has_records or self._has_work

    @property
    def _has_records(self) -> bool:
        return bool(self._arrived) or self.looked_at < len(self._store)

    @property
    def _has_work(self) -> bool:
        return self.counter.has_work(is_last=not self._has_records and self._is_complete())

    def catch_up(self) -> None:
        """Count the last records at once if they are few. In a live capture, some new records are always waiting."""
        while self._has_records and not self.counter.is_busy:
            if len(self._store) - self.looked_at > self.counter.step_rows:
                break
            self.step()

    def step(self) -> None:
        self.steps += 1
        if self._arrived and not self.counter.is_busy:
            arrived = self._arrived.popleft()
            self.looked_at += len(arrived.rows)
            self.counter.feed(arrived)
            return
        if self._has_work:
            self.counter.work()
            return
        end = min(len(self._store), self.looked_at + self.counter.step_rows)
        rows = range(self.looked_at, end)
        if self.filter is None:
            self.counter.feed(Step(self._store, rows))
        else:
            self.counter.feed(Step(self._store, self._store.select(self.filter, np.array(rows))))
        self.looked_at = end


class Made(NamedTuple):
    """A table in the cache: the request for it, and the number of steps that were counted."""

    request: TableOf
    steps: int
    table: Table


class CountedView:
    def __init__(self, view: View, counting: Counting[Any]) -> None:
        self.view = view
        self.counting = counting
        self._made: Made | None = None

    def table(self, request: TableOf) -> Table:
        """Return the table for a request. A repeated request is answered from the cache."""
        made, steps = self._made, self.counting.steps
        if made is None or (made.request, made.steps) != (request, steps):
            made = self._made = Made(request, steps, self.view.table(request.wanted))
        return made.table

    def raw_table(self, request: TableOf) -> Table:
        return self.view.table(replace(request.wanted, most=MAX_SAVED, is_raw=True))


class CountedViews:
    """The counts of all views shown so far. `step` updates only the view shown last; the worker updates `derived`.

    `is_complete` returns whether the store is complete; `ongoing` returns the state of the analyser, or None while it
    changes. `arrived` are the records as they arrive, if they need not be read from the store.
    """

    def __init__(
        self,
        store: Store,
        is_complete: Callable[[], bool],
        ongoing: Callable[[], Ongoing | None] = lambda: ENDED,
        arrived: deque[Step] | None = None,
    ) -> None:
        self._arrived = arrived
        self._store = store
        self._is_complete = is_complete
        self._ongoing = ongoing
        self._views: dict[tuple[str, str], CountedView] = {}
        self._looked_at: Counting[Any] | None = None
        self._derived: Counting[Derived] | None = None
        """Created when first needed."""
        self._explained: list[Explained] | None = None
        """The diagnoses from which `_causes` were made."""
        self._causes: tuple[TableRow, ...] = ()

    @property
    def is_behind(self) -> bool:
        """Whether there are records that the shown view has not counted."""
        return self._looked_at is not None and self._looked_at.is_behind

    def step(self) -> None:
        if self._looked_at is not None:
            self._looked_at.step()

    def table(self, request: TableOf) -> Table:
        """Return the table of a view, and make it the shown view."""
        view = self._shown(request)
        view.counting.catch_up()
        made = view.table(request)
        return replace(made, looked_at=view.counting.looked_at, total=len(self._store))

    def raw_table(self, request: TableOf) -> Table:
        """Return all rows of a view for a file, from the records counted so far."""
        return self._shown(request).raw_table(request)

    def _shown(self, request: TableOf) -> CountedView:
        key = request.view, request.filter
        view = self._views.pop(key, None) or self._view(*key)
        self._views[key] = view
        self._looked_at = view.counting
        while len(self._views) > MAX_VIEWS:
            del self._views[next(iter(self._views))]
        return view

    def _view(self, name: str, filter: str) -> CountedView:
        made = view_class(name)
        if made.is_derived:
            derived = self._derived_of(filter)
            return CountedView(made(derived.counter), derived)
        view = made(self._store)
        return CountedView(view, self._counting(view, filter))

    def _counting(self, counter: C, filter: str) -> Counting[C]:
        return Counting(counter, filter, self._store, self._is_complete)

    # -- derived data --------------------------------------------------------------------------------------------------

    @property
    def derived(self) -> Counting[Derived]:
        if self._derived is None:
            counter = new_derived(self._store, self._ongoing)
            self._derived = Counting(counter, "", self._store, self._is_complete, self._arrived)
        return self._derived

    @property
    def diagnoses(self) -> str | None:
        """Number of diagnoses by severity, as text; None before the first search."""
        return None if self._derived is None else self._derived.counter.summary

    @property
    def diagnosed(self) -> int:
        """The number of records from which the diagnoses were made."""
        return 0 if self._derived is None else self._derived.looked_at

    @property
    def causes(self) -> tuple[TableRow, ...]:
        """The worst errors and warnings as rows of the view of problems, at most `MAX_CAUSES`."""
        explained = None if self._derived is None else self._derived.counter.diagnoses
        if self._derived is not None and explained is not self._explained:  # making the rows needs all knowledge
            rows = view_class("problems")(self._derived.counter).table(Wanted(most=MAX_CAUSES)).rows
            self._causes = tuple(row for row in rows if row.style in ALARMING and not row.depth)
            self._explained = explained
        return self._causes

    def _derived_of(self, filter: str) -> Counting[Derived]:
        """Return the data derived from records that match `filter`. Views with the same filter share it."""
        if not filter.strip():
            return self.derived
        shared = (each.counting for (_, of), each in self._views.items() if of == filter and each.view.is_derived)
        return next(shared, None) or self._counting(new_derived(self._store, self._ongoing), filter)


def new_derived(store: Store, ongoing: Callable[[], Ongoing | None]) -> Derived:
    from zmtpscope.tui.worker.views.derived import Derived  # slow to import, and rows are shown first

    return Derived(store, ongoing)
