from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import attrgetter

import numpy as np

from zmtpscope.diagnosis.moments import Moment
from zmtpscope.diagnosis.observers.frame_ids import FirstFrames, first_frames
from zmtpscope.diagnosis.observers.observed import ObservedConnection
from zmtpscope.diagnosis.observers.room import Room
from zmtpscope.diagnosis.observers.run_summaries import RunSummary, Turn, turns_of
from zmtpscope.dissect import Record
from zmtpscope.dissect.identity import Stream
from zmtpscope.dissect.records.batch import RANKS
from zmtpscope.dissect.records.columns import Int64
from zmtpscope.dissect.records.record_writer import NEITHER
from zmtpscope.dissect.records.tables import MessageTable, Sender
from zmtpscope.records import SCHEMA, empty


class DerivedTable(ABC):
    """One or more derived records of one type, for example all `request` records of a batch."""

    @abstractmethod
    def records(self) -> Iterable[Record]:
        """Yield the records, in order."""


READ_TOGETHER = 32
"""Messages whose first frames are read at once."""


class Run:
    """The messages of one sender in a batch, as a range of rows of a table, from row `low` on."""

    __slots__ = "_messages", "low", "sender", "summary", "table"

    def __init__(self, table: MessageTable, low: int, sender: Sender, summary: RunSummary) -> None:
        self.table, self.low, self.sender, self.summary = table, low, sender, summary
        self._messages: MessageTable | None = None

    @property
    def messages(self) -> MessageTable:
        """Return a table of these messages only. Most observers need only the summary, which costs less."""
        if self._messages is None:
            self._messages = self.table.of_sender(self.low, self.low + self.summary.messages)
        return self._messages


class Rows:
    """The messages of one connection in one batch. `runs` contains them by side; packet references index `files`.

    A position is the index of a message among all messages of its side, in order.
    """

    def __init__(self, files: Sequence[str | None]) -> None:
        self.runs: tuple[list[Run], list[Run]] = [], []
        self.files = files

    @cached_property
    def sides(self) -> tuple[list[MessageTable], list[MessageTable]]:
        """The messages of each side, as tables of one sender."""
        one, other = self.runs
        return [run.messages for run in one], [run.messages for run in other]

    @cached_property
    def _first(self) -> tuple[dict[int, FirstFrames], dict[int, FirstFrames]]:
        """A cache: the first frames of messages that were read, for each side by position."""
        return {}, {}

    @cached_property
    def turns(self) -> list[Turn]:
        """The messages divided into turns: successive messages of one side, until the other one sends."""
        if all(self.runs):
            return turns_of(self._orders_and_ends(0), self._orders_and_ends(1))
        side = 0 if self.runs[0] else 1
        summaries = sorted([run.summary for run in self.runs[side]], key=attrgetter("last_order"))
        count = sum(each.messages for each in summaries)
        return [Turn(side, 0, count, summaries[0].first_end_ns, summaries[-1].last_end_ns)]

    def in_order(self, side: int) -> list[Run]:
        """Return the message ranges of a side, in the order of their first messages."""
        runs = self.runs[side]
        return sorted(runs, key=_first_order) if len(runs) > 1 else runs

    def last_turn(self, side: int) -> range:
        """Return the positions of a side's messages after which the other side sent nothing."""
        runs, others = self.sides[side], self.sides[1 - side]
        stop = sum(map(len, runs))
        if not runs or not others:
            return range(stop)
        last = max(int(run.orders[-1]) for run in others)
        return range(sum(int(run.orders.searchsorted(last, "left" if side else "right")) for run in runs), stop)

    def first(self, side: int, position: int) -> FirstFrames:
        """Return the first frames of the message at a position. Later messages are read with it, to save calls."""
        known = self._first[side]
        if position not in known:
            stop = min(position + READ_TOGETHER, sum(map(len, self.sides[side])))
            known.update(zip(range(position, stop), self.first_frames(side, position, stop), strict=True))
        return known[position]

    def first_frames(self, side: int, begin: int, end: int) -> list[FirstFrames]:
        """Return the first frames of a side's messages at positions `begin..end` (`end` excluded)."""
        runs = self.sides[side]
        if len(runs) == 1:
            return first_frames(runs[0], begin, end)
        return [first_frames(runs[number], row, row + 1)[0] for number, row in self.places(side)[begin:end]]

    def places(self, side: int) -> list[tuple[int, int]]:
        """Return for each position of a side where the message is: the index of its run, and its row there."""
        runs = self.sides[side]
        places = [
            (order, number, row) for number, run in enumerate(runs) for row, order in enumerate(run.orders.tolist())
        ]
        return [(number, row) for _, number, row in sorted(places)]

    def _orders_and_ends(self, side: int) -> tuple[Int64, Int64]:
        """Return the ordinals of a side's messages, and the times of their last octets, by position."""
        runs = self.sides[side]
        if len(runs) == 1:
            return runs[0].orders, runs[0].time_ends
        orders, ends = (np.concatenate([getattr(run, name) for run in runs]) for name in ("orders", "time_ends"))
        order = np.argsort(orders, kind="stable")
        return orders[order], ends[order]


def _first_order(run: Run) -> int:
    return int(run.table.orders[run.low])


SocketTypes = tuple[str | None, str | None]


class Observer:
    """Follows one aspect of a connection, for example heartbeats, and stores observations in `observed` for rules.

    It gets the records of each batch, then the messages, in order. It is created at the first record of a type in
    `begins_with`, or at the first messages between socket types that it `follows`.
    """

    types: frozenset[str] = frozenset()
    """The record types that `record` processes."""
    begins_with: frozenset[str] = frozenset()
    """Record types, and names of commands."""

    @classmethod
    def follows(cls, socket_types: SocketTypes) -> bool:
        """Whether the observer needs messages between these two socket types."""
        return True

    def __init__(self, observed: ObservedConnection, room: Room) -> None:
        self.observed = observed
        self.room = room

    def record(self, record: Record) -> None:
        """Process a record of one of its `types`."""

    def rows(self, rows: Rows) -> None:
        """Process the messages of a batch."""

    def derive(self) -> list[DerivedTable]:
        """Return the derived records that were decided since the last call."""
        return []

    def finish(self, ordinal: int) -> list[DerivedTable]:
        """Return the remaining derived records, at the end of the connection or of the capture, which is at `ordinal`.

        `observed.values` is set if the connection ended.
        """
        return self.derive()


def derived(type_: str, ordinal: int, moment: Moment, stream: Stream | None = None, /, **own: object) -> Record:
    """Return a derived record of type `type_` with the fields `own`, which begins at `moment`.

    The segment `ordinal` decided it, which determines its place among the records.
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
"""Place of records about several connections: after all others."""
