"""Views kept up with the store while somebody looks at them."""

from __future__ import annotations

import numpy as np

from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.tui.requests import Table, TableOf, ViewTitle
from zmtpscope.tui.worker.views.catalogue import VIEWS
from zmtpscope.tui.worker.views.view import Step

MOST_VIEWS = 16
"""Views that stay counted; the one that was looked at longest ago goes first."""


def view_titles() -> tuple[ViewTitle, ...]:
    """All views."""
    return tuple(ViewTitle(kind.name, kind.key, kind.title, kind.meaning, kind.records) for kind in VIEWS.values())


class CountedView:
    """One view of a store, of all records or of those that a filter holds of. Raises `FilterError`."""

    def __init__(self, view: str, filter: str, store: Store) -> None:
        self._store = store
        self._filter = Filter(filter) if filter.strip() else None
        self._view = VIEWS[view].of(store)
        self._looked_at = 0

    @property
    def is_behind(self) -> bool:
        """Whether there are records that were not counted."""
        return self._looked_at < len(self._store)

    def step(self) -> None:
        """Count some more."""
        end = min(len(self._store), self._looked_at + self._view.step_rows)
        rows = range(self._looked_at, end)
        if self._filter is None:
            self._view.feed(Step(self._store, rows))
        else:
            self._view.feed(Step(self._store, self._store.select(self._filter, np.array(rows))))
        self._looked_at = end

    def table(self, request: TableOf) -> Table:
        """What was counted so far."""
        made = self._view.table(request.sort, request.opened, request.most)
        return Table(made.columns, made.rows, self._looked_at, len(self._store), made.text)


class CountedViews:
    """All views that were looked at; the last of them is kept up."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._views: dict[tuple[str, str], CountedView] = {}
        self._looked_at: CountedView | None = None

    @property
    def is_behind(self) -> bool:
        """Whether the view that is looked at is not up to date."""
        return self._looked_at is not None and self._looked_at.is_behind

    def step(self) -> None:
        """Count some more for the view that is looked at."""
        if self._looked_at is not None:
            self._looked_at.step()

    def table(self, request: TableOf) -> Table:
        """What a view shows; it is the one that is looked at now."""
        key = request.view, request.filter
        view = self._views.pop(key, None) or CountedView(*key, self._store)
        self._views[key] = self._looked_at = view
        while len(self._views) > MOST_VIEWS:
            del self._views[next(iter(self._views))]
        return view.table(request)
