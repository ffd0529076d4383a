"""What every view is: fed the records of the store step by step, it has a table at any time."""

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
    """The next records of a store that a view counts: `rows` are their numbers, which ascend. Whoever counts only what
    a filter holds of makes steps of these."""

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
    """One view of one store, of all its records or of those that a filter holds of. What it has counted depends on
    these alone, not on how they were divided into steps."""

    step_rows = 8192
    """Records that are counted in a step."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @abstractmethod
    def feed(self, step: Step) -> None:
        """Count the next records."""

    @abstractmethod
    def table(self, sort: Sort | None = None, opened: Collection[str] = (), most: int = 1000) -> ViewTable:
        """What was counted so far: at most so many rows, in the order that somebody wants, or in the view's own; below
        rows whose keys are `opened` what belongs to them."""
