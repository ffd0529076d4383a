"""The interface of an observer, which follows one aspect of one connection and makes derived records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import RunSummary
from zmtpscope.dissect import Record
from zmtpscope.dissect.records.batch import RANKS, MessageRun
from zmtpscope.dissect.records.record_writer import NEITHER


class DerivedTable(ABC):
    """Derived records of one type, as columns that become records when written."""

    type: str

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of records."""

    @abstractmethod
    def records(self) -> Iterable[Record]:
        """Yield the records, in order."""


class Rows(NamedTuple):
    """The messages of one connection in one batch, by side; their packets refer to `files`."""

    sides: tuple[list[MessageRun], list[MessageRun]]
    summaries: tuple[list[RunSummary], list[RunSummary]]
    files: Sequence[str | None]


def first_order(run: MessageRun) -> int:
    """Return the sort key for runs of one side."""
    return int(run.orders[0])


class Observer(ABC):
    """Follows one aspect of one connection, and writes facts into `observed` for comparisons.

    It gets the records of each batch first, then the messages, all in order.
    """

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.room = room
        """Memory limit shared by all connections, for facts that may become many."""

    def record(self, record: Record) -> None:  # noqa: B027 - optional: some observers need messages only
        """Process a greeting, command or gap."""

    def rows(self, rows: Rows) -> None:  # noqa: B027 - optional: some observers need records only
        """Process the messages of a batch."""

    @abstractmethod
    def derive(self) -> list[DerivedTable]:
        """Return everything decided since the last call."""

    @abstractmethod
    def finish(self, ordinal: int) -> list[DerivedTable]:
        """Return the rest at the end of the connection or the capture, with the segment `ordinal`.

        `observed.values` shows which of the two ended.
        """


def derived_record(type_: str, values: dict[str, object], ordinal: int) -> Record:
    """Return a derived record, decided by the segment `ordinal`; `values` contains every field."""
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
"""Sort position of records across connections: after all connections and datagrams."""


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
