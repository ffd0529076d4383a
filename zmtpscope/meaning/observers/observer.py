"""What an observer of one idea is: it follows one connection, and makes derived records of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmtpscope.dissect import Record
from zmtpscope.dissect.records.batch import RANKS, MessageRun
from zmtpscope.dissect.records.record_writer import NEITHER
from zmtpscope.meaning.observers.observed import ObservedConnection
from zmtpscope.meaning.observers.room import Room
from zmtpscope.meaning.observers.run_summaries import RunSummary


class DerivedTable(ABC):
    """Derived records of one type, as columns: they become records where somebody writes them."""

    type: str

    @abstractmethod
    def __len__(self) -> int:
        """How many records it is."""

    @abstractmethod
    def records(self) -> Iterable[Record]:
        """The records, in their order."""


class Rows(NamedTuple):
    """The messages of one connection in one batch, by side; `files` are those that their packets refer to."""

    sides: tuple[list[MessageRun], list[MessageRun]]
    summaries: tuple[list[RunSummary], list[RunSummary]]
    files: Sequence[str | None]


def first_order(run: MessageRun) -> int:
    """What runs of one side are sorted by."""
    return int(run.orders[0])


class Observer(ABC):
    """Follows one connection, for one idea: what it learns it writes into `observed`, for those who compare
    connections.

    It is fed what each batch has of the connection: its records first, then its messages, all in order.
    """

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.room = room
        """Shared by all connections: whatever may become many takes of it."""

    def record(self, record: Record) -> None:  # noqa: B027 - whoever needs messages only has nothing to do
        """Take a greeting, command or gap."""

    def rows(self, rows: Rows) -> None:  # noqa: B027 - whoever needs records only has nothing to do
        """Take the messages of a batch."""

    @abstractmethod
    def derive(self) -> list[DerivedTable]:
        """What has become decidable since somebody asked last."""

    @abstractmethod
    def finish(self, ordinal: int) -> list[DerivedTable]:
        """What is left: the connection has ended, or the capture has, with the segment `ordinal`. `observed.values`
        says which."""


def derived_record(type_: str, values: dict[str, object], ordinal: int) -> Record:
    """A derived record, decided by the segment `ordinal`; `values` has every field."""
    conn, side = values["conn"], values["side"]
    place = conn if isinstance(conn, int) else ACROSS
    order = (
        ordinal,
        place,
        side if isinstance(side, int) else NEITHER,
        _number(values.get("source")),
        _number(values.get("offset")),
        RANKS[type_],
    )
    return Record(type_, order, dict(values))


ACROSS = 1 << 63
"""Where what is about several connections stands among them: behind all of them, and behind datagrams."""


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
