from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import RunSummary
from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import RANKS
from zmtpscope.dissect.records.record_writer import NEITHER
from zmtpscope.dissect.records.tables import MessageTable
from zmtpscope.records import SCHEMA, empty


class DerivedTable(ABC):
    """Derived records of one type, at least one, as columns."""

    @abstractmethod
    def records(self) -> Iterable[Record]:
        """Yield the records, in order."""


class Rows(NamedTuple):
    """Messages of one connection in one batch, by side; packets refer to `files`."""

    sides: tuple[list[MessageTable], list[MessageTable]]
    summaries: tuple[list[RunSummary], list[RunSummary]]
    files: Sequence[str | None]


def first_order(run: MessageTable) -> int:
    """Return the order of a run's first message, a sort key for runs of one side."""
    return int(run.orders[0])


SocketTypes = tuple[str | None, str | None]


class Observer:
    """Follows one aspect of one connection, and writes facts into `observed` for rules.

    It gets the records of each batch first, then the messages, all in order. It is created for the first record in
    `begins_with`, or the first messages between socket types that it `follows`, since earlier ones do not matter.
    """

    types: frozenset[str] = frozenset()
    """The record types that `record` processes."""
    begins_with: frozenset[str] = frozenset()
    """Record types, and names of commands."""

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        """Whether messages of a connection between these socket types matter."""
        return True

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.room = room

    def record(self, record: Record) -> None:
        """Process a record of one of its `types`."""

    def rows(self, rows: Rows) -> None:
        """Process the messages of a batch."""

    def derive(self) -> list[DerivedTable]:
        """Return the records decided since the last call."""
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        """Return the remaining records at the end of the connection or of the capture.

        If `observed.values` is set, the connection ended.
        """
        return self.derive()


def derived(type_: str, ordinal: int, moment: Moment, stream: Stream | None = None, /, **own: object) -> Record:
    """Return a derived record that the segment `ordinal` decided, and that begins at `moment`.

    `stream` are the fields of its connection, if there is one; `own` are its other fields.
    """
    values = empty(type_)
    values.update(schema=SCHEMA, record=type_, ts_ns=moment.ns, file=moment.file, packet=moment.packet)
    if stream is not None:
        values.update(stream._asdict())
    values.update(own)
    conn, side = values["conn"], values["side"]
    order = (
        ordinal,
        ACROSS if conn is None else conn,
        NEITHER if side is None else side,
        values.get("source") or 0,
        values.get("offset") or 0,
        RANKS[type_],
    )
    return Record.of(type_, order, values)


ACROSS = 1 << 63
"""Sort key of records about several connections, after all connections and datagrams."""
