"""Views of real captures."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.readings import CAPTURES
from tests.store.stores import opened
from zmtpscope.dissect.analyser import ENDED
from zmtpscope.filter import Filter
from zmtpscope.store import Store
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import Sort, Table, TableRow, Wanted
from zmtpscope.tui.worker.views.catalogue import view_class
from zmtpscope.tui.worker.views.derived import Derived, DerivedView
from zmtpscope.tui.worker.views.view import CountingView, Step, View


@cache
def store_of(path: Path) -> Store:
    """Return a capture as a store, which tests must not change."""
    return opened(path).store


def view_of(name: str, store: Store, step: int = 8192, filter: str = "") -> View:
    """Return a view that has counted the records of a store that match a filter, `step` at a time."""
    kind = view_class(name)
    rows = store.select(Filter(filter)) if filter else range(len(store))
    if kind.is_derived:
        return derived_view_of(name, derived_of(store, rows, step))
    view: CountingView = kind(store)
    for low in range(0, len(rows), step):
        view.feed(Step(store, rows[low : low + step]))
    return view


def derived_of(store: Store, rows: Int64 | range, step: int = 8192) -> Derived:
    """Return data derived from these records, searched for diagnoses."""
    derived = Derived(store, lambda: ENDED)
    for low in range(0, len(rows), step):
        derived.feed(Step(store, rows[low : low + step]))
    while derived.has_work(is_last=True):
        derived.work()
    return derived


def derived_view_of(name: str, derived: Derived) -> DerivedView:
    view: DerivedView = view_class(name)(derived)
    return view


def view_of_capture(name: str, capture: str, filter: str = "") -> View:
    return view_of(name, store_of(CAPTURES / capture), filter=filter)


def opened_whole(view: View, sort: Sort | None = None) -> Table:
    """Return the table with all rows opened."""
    keys: set[str] = set()
    while True:
        table = view.table(Wanted(sort, frozenset(keys), most=10_000))
        more = {row.key for row in table.rows if row.has_more}
        if not more:
            return table
        keys |= more


def cell(table: Table, row: TableRow, column: str) -> str:
    return row.cells[[each.name for each in table.columns].index(column)]


def cells(table: Table, *columns: str, depth: int | None = None) -> list[tuple[str, ...]]:
    """Return the cells of some columns, of rows of one depth if given."""
    return [
        tuple(cell(table, row, column) for column in columns)
        for row in table.rows
        if depth is None or row.depth == depth
    ]
