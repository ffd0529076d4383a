"""Base classes of views, and the steps in which they count records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property

from zmtpscope.dissect import Batch, Record
from zmtpscope.store import Store
from zmtpscope.store.counting import CountedMessages
from zmtpscope.store.packed import Int64
from zmtpscope.tui.requests import Table, Wanted


class Step:
    """The next records for a view to count: their ascending numbers `rows`, and a `batch` that contains them."""

    def __init__(self, store: Store, rows: Int64 | range, batch: Batch | None = None) -> None:
        self.store = store
        self.rows = rows
        if batch is not None:
            self.batch = batch

    @cached_property
    def batch(self) -> Batch:
        return self.store.batch(self.rows)

    @cached_property
    def messages(self) -> list[CountedMessages]:
        return list(self.store.messages(self.rows))

    def records(self, *types: str) -> Iterator[tuple[int, Record]]:
        return self.store.others(self.rows, types)


AS_IT_IS = Wanted()


class View(ABC):
    """A view: a table of counts or of derived data."""

    is_derived = False
    """Whether it shows data from `derived.py`."""

    @abstractmethod
    def table(self, wanted: Wanted = AS_IT_IS) -> Table:
        """Return the rows of the view that `wanted` selects, sorted as it requests."""


class Counter(ABC):
    """A view that counts records of a store: all, or those that match a filter. The division into steps does not change
    the result."""

    step_rows = 8192

    @abstractmethod
    def feed(self, step: Step) -> None:
        """Count the next records."""

    @property
    def is_busy(self) -> bool:
        """Whether `work` has not finished, so that `feed` must not be called."""
        return False

    def has_work(self, *, is_last: bool) -> bool:
        """Whether `work` must be called before the next `feed`. `is_last`: no more records follow."""
        return False

    def work(self) -> None:  # noqa: B027 - most have nothing more to do
        """Do a part of the work that `feed` left, which takes about one step."""


class CountingView(View, Counter):
    def __init__(self, store: Store) -> None:
        self.store = store
