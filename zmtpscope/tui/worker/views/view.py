"""What every view is, and what is fed the records of the store step by step for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple

from zmtpscope.dissect import Record
from zmtpscope.store import Store
from zmtpscope.store.counting import CountedMessages
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import Sort, TableColumn, TableRow


class Step:
    """The next records of a store that are counted: `rows` are their numbers, which ascend. Whoever counts only what a
    filter holds of makes steps of these."""

    def __init__(self, store: Store, rows: Int64 | range) -> None:
        self.store = store
        self.rows = rows

    @cached_property
    def messages(self) -> list[CountedMessages]:
        """The messages among them, as columns."""
        return list(self.store.messages(self.rows))

    def records(self, *types: str) -> Iterator[tuple[int, Record]]:
        """The records of some other types among them, with their numbers."""
        return self.store.others(self.rows, types)


class ViewTable(NamedTuple):
    """What a view shows: all text in it is safe to show. `text` are lines above the table."""

    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    text: tuple[str, ...] = ()


class View(ABC):
    """A table of what was counted, or derived, so far."""

    @abstractmethod
    def table(self, sort: Sort | None = None, opened: Collection[str] = (), most: int = 1000) -> ViewTable:
        """At most so many rows, in the order that somebody wants, or in the view's own; below rows whose keys are
        `opened` what belongs to them."""


class Counter(ABC):
    """Counts the records of one store, all of them or those that a filter holds of. What it has counted depends on
    these alone, not on how they were divided into steps."""

    step_rows = 8192
    """Records that are counted in a step."""

    @abstractmethod
    def feed(self, step: Step) -> None:
        """Count the next records."""

    def has_work(self, *, is_last: bool) -> bool:
        """Whether there is something to do with what was fed before more is; `is_last`: no more comes."""
        return False

    def work(self) -> None:  # noqa: B027 - most have nothing more to do
        """Do some of it."""


class CountingView(View, Counter):
    """A view that counts for itself."""

    def __init__(self, store: Store) -> None:
        self.store = store
